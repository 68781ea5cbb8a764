"""What can be copied, how it is found, and where it is explained."""

import importlib
import inspect
from pathlib import Path

import pytest

import attnref
from attnref.book import page_address
from attnref.copying import catalogue as module
from attnref.copying.catalogue import catalogue, find, package
from attnref.copying.header import LICENCE, header
from attnref.copying.source import CopyError, Package

ROOT = Path(__file__).parent.parent.parent
ENTRIES = catalogue(package())
NAMES = {entry.path.removeprefix("attnref.") for entry in ENTRIES}


def test_what_the_package_offers_can_be_copied():
    """Every public function and class, found by importing instead of reading."""
    modules = [attnref.masks, attnref.scaling, attnref.softmax, attnref.positions]
    modules += [
        importlib.import_module(f"attnref.variants.{path.stem}")
        for path in (ROOT / "attnref/variants").glob("[!_]*.py")
    ]
    expected = {
        f"{one.__name__.removeprefix('attnref.')}.{name}"
        for one in modules
        for name, thing in vars(one).items()
        if inspect.isfunction(thing) or inspect.isclass(thing)
        if name in one.__all__
    }
    assert len(expected) > 40
    assert expected <= NAMES
    assert {
        "cache.KVCache",
        "multihead.MultiHeadAttention",
        "reference.attention_weights",
        "reference.scaled_dot_product_attention",
    } <= NAMES


def test_a_module_without_a_list_of_what_is_public_offers_nothing(tmp_path):
    (tmp_path / "quiet.py").write_text("def heard():\n    return 1\n", encoding="utf-8")
    source = Package(tmp_path).source("quiet")
    assert "heard" in source.definitions
    assert source.exports == []


def test_nothing_else_can():
    rooms = {name.partition(".")[0] for name in NAMES}
    assert rooms.isdisjoint({"bench", "checks", "cli", "copying", "cost", "oracle"})
    assert "reference.check_tensors" not in NAMES  # not among the public names
    assert "variants.linear.weighted_average" not in NAMES


def test_each_has_a_sentence():
    for entry in ENTRIES:
        assert entry.summary[-1] == ".", entry.name
        assert "`" not in entry.summary, entry.name
    assert find("jacobian_product", ENTRIES).summary == (
        "Softmax's Jacobian times a vector, without forming the Jacobian."
    )
    assert find("padding", ENTRIES).summary == (
        "Each sample sees its own first lengths[b] keys, not the padding behind them."
    )
    assert find("hierarchical_attention", ENTRIES).summary == (
        "Self-attention in O(n log n): far keys share the score of their mean."
    )


def test_each_page_of_the_table_is_used():
    assert set(module.PAGES.values()) <= {entry.page for entry in ENTRIES}


def test_a_name_may_be_qualified():
    for name in ("online", "softmax.online", "attnref.softmax.online"):
        assert find(name, ENTRIES).path == "attnref.softmax.online"


UNKNOWN = [
    (
        "casual",
        "NAME: expected a function or class of the package, got 'casual'. Did you mean causal? "
        "attnref copy --list names them all.",
    ),
    (
        "multiheadattention",
        "NAME: expected a function or class of the package, got 'multiheadattention'. Did you "
        "mean MultiHeadAttention",
    ),
    (
        "linear.linear_attn",
        "NAME: expected a function or class of the package, got 'linear.linear_attn'. Did you "
        "mean linear_attention",
    ),
    (
        "rms",
        "NAME: expected a function or class of the package, got 'rms'. Did you mean qk_rms",
    ),
    (
        "similarity",
        "NAME: expected a function or class of the package, got 'similarity'. Did you mean "
        "cosine_scores, dot_scores or euclidean_scores?",
    ),
    (
        "§",
        "NAME: expected a function or class of the package, got '§'. attnref copy --list names "
        "them all.",
    ),
    (
        "ine.causal",
        "NAME: expected a function or class of the package, got 'ine.causal'. Did you mean causal",
    ),
]


def test_an_unknown_name_gets_those_that_are_near():
    for name, message in UNKNOWN:
        with pytest.raises(CopyError) as error:
            find(name, ENTRIES)
        assert str(error.value).startswith(message)


def test_what_a_folder_offers_is_found_there_and_not_where_it_is_written():
    for name in ("causal", "masks.causal", "attnref.masks.causal"):
        assert find(name, ENTRIES).path == "attnref.masks.causal"
    assert str(find("causal", ENTRIES).definition) == "attnref.masks.patterns.causal"
    with pytest.raises(CopyError, match=r"^NAME: expected a function or class"):
        find("patterns.causal", ENTRIES)


@pytest.fixture
def house(tmp_path):
    root = tmp_path / "house"
    (root / "variants").mkdir(parents=True)
    function = 'def {}():\n    """Itself.\n\n    >>> {}()\n    """\n'
    (root / "__init__.py").write_text(
        "from house import masks, softmax\nfrom house.reference import one\n\n"
        '__all__ = ["masks", "one", "softmax"]\n'
    )
    for name, functions in {
        "masks": ["same", "_private", "mine"],
        "softmax": ["same"],
        "reference": ["one", "not_offered"],
        "variants/some_thing": ["same"],
        "hidden": ["also_hidden"],
    }.items():
        text = "".join(function.format(one, one) for one in functions)
        public = [name for name in functions if name in ("same", "mine", "one")]
        (root / f"{name}.py").write_text(f"__all__ = {public}\n{text}\nCONSTANT = 1\n")
    return catalogue(Package(root))


def test_only_where_several_have_a_name_is_it_qualified(house):
    assert [entry.name for entry in house] == [
        "masks.same",
        "mine",
        "one",
        "softmax.same",
        "some_thing.same",
    ]
    assert find("masks.same", house).page == "foundations/masks"
    assert find("some_thing.same", house).page == "variants/some-thing"


def test_a_name_of_several_is_refused(house):
    with pytest.raises(CopyError) as error:
        find("same", house)
    assert str(error.value) == (
        "NAME: expected one function or class, got 'same', which is the name of several. Did you "
        "mean masks.same, softmax.same or some_thing.same?"
    )


def test_the_licence_is_that_of_the_project():
    assert (ROOT / "LICENSE").read_text(encoding="utf-8") == LICENCE


def test_the_header_says_what_it_is_and_where_it_is_from():
    text = header(find("causal", ENTRIES))
    assert text.startswith(
        "# causal: Each query sees no key of its own future.\n"
        "#\n"
        f"# Copied from attnref {attnref.__version__}: attnref.masks.causal\n"
        f"# See {page_address('foundations/masks', 'en')}\n"
        "#\n"
        "# MIT License\n"
    )
    assert [line.removeprefix("#").removeprefix(" ") for line in text.splitlines()[5:]] == (
        LICENCE.splitlines()
    )
    assert max(map(len, text.splitlines())) <= 100
