"""Which rows a cache can store: of specs with each kind of entry, and each kind of feature."""

from __future__ import annotations

import feature_specs
from feature_specs.feature import Feature
from input_pipelines.row_cache.shards import RowLayout, is_plain
from input_pipelines.transform.transforms import Transform
from tests.conformance import declared


def documents():
    for kind in declared.ENTRIES:
        yield declared.side(kind).document
    for field in Feature.model_fields:
        for _, after in declared.cases("feature", field):
            yield after.document
    yield {**declared.side("numeric").document, "raw": ["price"]}
    yield {**declared.side("indicator").document, "raw": ["tags"]}


def test_only_a_spec_that_is_not_plain_cannot_be_stored():
    stored, refused = 0, 0
    for document in documents():
        spec = feature_specs.parse(document)
        try:
            RowLayout.of(spec, Transform(spec))
            stored += 1
        except ValueError:
            assert not is_plain(spec), document
            refused += 1
    assert stored > 30
    assert refused
