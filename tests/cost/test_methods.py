"""Every method that is counted, by its name."""

import re

import pytest

from attnref import cost, variants
from attnref.cost.methods import BACKWARD, FORWARD, format_options, options_of

SIZES = cost.Sizes(n=7, m=7, d_k=3, d_v=2)


def test_what_is_counted_is_a_method_or_what_all_are_compared_with():
    assert FORWARD.keys() - {"plain", "fused"} <= variants.records().keys()
    assert BACKWARD.keys() <= FORWARD.keys()


def test_the_table_has_each_method_with_its_options():
    rows = re.findall(r"^ +\| ``(\w+)`` \| (?:``(.*?)``)? ?\| [^|]+ \|$", cost.of.__doc__, re.M)
    given = {name: format_options(options_of(count)) for name, count in FORWARD.items()}
    assert {name: options or "none" for name, options in rows} == given


def test_an_option_that_a_method_does_not_have_is_refused():
    counted = [(name, count, False) for name, count in FORWARD.items()]
    counted += [(name, count, True) for name, count in BACKWARD.items()]
    for name, count, backward in counted:
        options = options_of(count)
        what = f"{name}, backward" if backward else name
        message = (
            f"other: expected an option of {what} ({format_options(options)}), got another one."
        )
        with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
            cost.of(name, SIZES, backward=backward, other=1)
        for needed in [key for key, one in options.items() if one.default is one.empty][:1]:
            message = (
                f"{needed}: expected a value for {what} ({format_options(options)}), got none."
            )
            with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
                cost.of(name, SIZES, backward=backward)


def test_gradients_that_are_not_counted_are_refused():
    for name in FORWARD.keys() - BACKWARD.keys():
        message = f"backward: expected False for {name}, got True. Gradients are counted of plain "
        with pytest.raises(ValueError, match=f"^{message}and blockwise.$"):
            cost.of(name, SIZES, backward=True)


def test_an_unknown_name_gets_the_known_ones():
    message = f"method: expected one of {', '.join(FORWARD)}, got 'flash'."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        cost.of("flash", SIZES)
