"""What each property must have."""

import pickle
from pathlib import Path

import pytest

from attnref.conformance.property import REGISTRY, find_causes

PAGES = Path(__file__).parents[2] / "docs" / "en"


@pytest.mark.parametrize("name", REGISTRY)
def test_a_property_has_what_the_report_says_of_it(name):
    prop = REGISTRY[name]
    assert prop.name == name
    assert "{" not in prop.statement.english
    assert prop.formula.count("{") == prop.formula.count("}")
    assert (PAGES / f"{prop.page}.md").is_file()
    assert pickle.loads(pickle.dumps(prop)) is prop  # known again by its name


def test_a_failure_follows_from_no_other_that_follows_from_it():
    """Or both would be missing where a report begins with the causes."""
    left = list(REGISTRY)
    while left:
        first = [name for name in left if name not in find_causes(left)]
        assert first, left
        left = [name for name in left if name not in first]
