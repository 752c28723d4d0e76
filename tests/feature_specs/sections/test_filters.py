"""The section `filter`: what its values are."""

from __future__ import annotations

import pytest

from feature_specs.sections.records import Filter

pytestmark = pytest.mark.no_tensorflow


@pytest.mark.parametrize("key", ["in", "not_in"])
@pytest.mark.parametrize(
    ("given", "kept"), [([21, 3, 21], [3, 21]), (["b", "a"], ["a", "b"]), (["b", 2], [2, "b"])]
)
def test_values_are_a_set(key, given, kept):
    entry = Filter.model_validate({"feature": "x", key: given})
    assert entry.as_dict() == {"feature": "x", key: kept}
