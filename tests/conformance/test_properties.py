"""What each property must have, and both languages of everything that is said."""

import importlib
import pickle
import pkgutil
import re
import string

import pytest

import attnref.conformance
from attnref.conformance.properties import PROPERTIES, STEP_PROPERTIES, WHOLE_PROPERTIES
from attnref.text import LANGUAGES, Text

NAMES = """shape, dtype, row_sums, convexity, oracle, scale, key_permutation, rescaling,
shift_invariance, value_linearity, batch_independence, head_independence, mask_polarity,
float_mask, mask_broadcast, mask_with_causal, causality, own_token, alignment, causal_scale,
window_width, fully_masked, fully_masked_gradient, lowest_mask, nan_behind_mask, nan_seen,
very_negative_scores, large_scores, half_precision, scaling_order, softcap_order,
options_together, grouped_queries, dropout_off, dropout_scale, gradients, mask_gradient,
gradient_penalty, inputs_unchanged, strided, determinism, rectangular, value_width,
single_token, empty, other_sizes, padding_amount, silent_arguments, memory_growth"""


def texts():
    """Every text of the checker, by where it stands."""
    package = attnref.conformance
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            several = [*value, *value.values()] if isinstance(value, dict) else [value]
            for text in several:
                if isinstance(text, Text):
                    yield f"{found.name}.{name}", text


TEXTS = {text: place for place, text in texts()} | {
    prop.statement: name for name, prop in PROPERTIES.items()
}


def places(template):
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


def test_the_properties_and_their_order():
    assert list(PROPERTIES) == re.split(r",\s+", NAMES)
    assert all(name == prop.name for name, prop in PROPERTIES.items())


def test_a_property_has_a_statement_and_a_formula():
    """Those of functions, of steps and of layers; and each is known again by its name."""
    odd = {
        prop.name
        for kinds in (PROPERTIES, STEP_PROPERTIES, WHOLE_PROPERTIES)
        for prop in kinds.values()
        if prop.formula.count("{") != prop.formula.count("}")
        or places(prop.statement.en) | places(prop.statement.pt)
        or prop.statement.en == prop.statement.pt
        or pickle.loads(pickle.dumps(prop)) is not prop
    }
    assert odd == set()


def test_both_languages_say_the_same_with_the_same_numbers():
    same = {
        "places": places,
        "how many": lambda sentence: sentence.count("{"),
        "end": lambda sentence: re.search(r"\W*$", sentence)[0],
        "start": lambda sentence: sentence[0].isupper(),
    }
    odd = [
        (place, name)
        for text, place in TEXTS.items()
        for name, part in same.items()
        if part(text.en) != part(text.pt)
    ]
    assert odd + [place for text, place in TEXTS.items() if text.en == text.pt] == []
    assert len(TEXTS) > 150


def test_texts_speak_the_languages_there_are():
    nested = Text(en="so {what}", pt="assim {what}")
    values = {"what": Text(en="it is", pt="é")}
    assert [nested.say(lang, values) for lang in LANGUAGES] == ["so it is", "assim é"]
    with pytest.raises(ValueError, match=r"lang: expected one of en, pt, got 'fr'\."):
        nested.say("fr")
