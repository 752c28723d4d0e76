"""The label of the head next_item: an id for each step, by each kind of column."""

from __future__ import annotations

import pytest
import tensorflow as tf

import feature_specs
from input_pipelines.integrity import diagnosis
from input_pipelines.record_files import writing
from input_pipelines.row_cache.shards import RowLayout
from input_pipelines.transform.labels import NO_ITEM, NO_LABEL
from input_pipelines.transform.transforms import Transform

WORDS = {"vocabulary": "item", "list": ["a", "b", "c"], "sequence": True}
NUMBERS = {"identity": "item", "size": 5, "sequence": True}


def spec_of(column, dtype="string", *, label=None, **objective):
    return feature_specs.parse(
        {
            "features": {"item": {"dtype": dtype, "shape": "variable"}},
            "columns": {"item": column, "item_emb": {"embedding": "item", "dimension": 2}},
            "groups": {"steps": ["item_emb"]},
            "labels": {"next": {"dtype": dtype, "shape": "variable", **(label or {})}},
            "objectives": {"next": {"head": "next_item", "items": "item", **objective}},
        }
    )


def records_of(rows):
    return [
        writing.example({"item": item, "next": following}).SerializeToString()
        for item, following in rows
    ]


def read(spec, rows):
    labels = Transform(spec).features_and_labels(tf.constant(records_of(rows)))[1]
    return {
        name: value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()
        for name, value in labels.items()
    }


def test_words_outside_the_catalogue_have_no_item():
    """Neither an unknown word, nor one that only has a bucket. An empty word is not a label."""
    rows = [(["a", "b", "x"], ["b", "x", "c"]), (["c"], [""])]
    for column in (WORDS, {**WORDS, "oov_buckets": 2}):
        assert read(spec_of(column), rows) == {"next": [[1, NO_ITEM, 2], [NO_LABEL]]}


def test_ids_of_the_other_kinds():
    rows = [([4, 0], [0, -1]), ([1], [4])]
    assert read(spec_of(NUMBERS, "int64"), rows) == {"next": [[0, NO_LABEL], [4]]}
    hashed = spec_of({"hash_bucket": "item", "size": 7, "sequence": True})
    features, labels = Transform(hashed).features_and_labels(
        tf.constant(records_of([(["p", "q"], ["q", "p"])]))
    )
    assert labels["next"].to_list() == [features["item"].to_list()[0][::-1]]


def test_seen_items_come_with_the_label():
    spec = spec_of(WORDS, exclude_seen=True)
    rows = [(["a", "x", "a"], ["b", "a", "c"])]
    assert read(spec, rows) == {"next": [[1, 0, 2]], "next/seen": [[0, -1, 0]]}


def test_a_row_without_steps_is_an_error_or_has_no_weight():
    rows = [(["a"], ["b"]), ([], [])]
    masked = spec_of(WORDS, label={"missing": "mask"})
    assert read(masked, rows) == {"next": [[1], []], "next/weight": [1, 0]}
    with pytest.raises(tf.errors.InvalidArgumentError, match="label 'next' is missing"):
        read(spec_of(WORDS), rows)
    assert diagnosis.explain(spec_of(WORDS), records_of(rows)[1]) == (
        "label 'next' is missing or an empty list; say missing: mask in the spec to give such rows "
        "no weight"
    )


@pytest.mark.parametrize(
    ("spec", "row", "message", "explained"),
    [
        (spec_of(WORDS), (["a", "b"], ["b"]),
         "label 'next' must have as many values as feature 'item'",
         "label 'next' has 1 value, but feature 'item' has 2; expected one item for each step"),
        (spec_of(NUMBERS, "int64"), ([1, 2], [2, 5]), r"label 'next' must be in \[0, 4\]",
         "label 'next' is 5, expected 0 to 4; raise the column's size or give it a default_id"),
    ],
)  # fmt: skip
def test_a_bad_label_is_an_error_and_explained(spec, row, message, explained):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        read(spec, [row])
    assert diagnosis.explain(spec, records_of([row])[0]) == explained


def test_the_cache_of_rows_can_store_the_label():
    spec = spec_of(WORDS, exclude_seen=True)
    transform = Transform(spec)
    layout = RowLayout.of(spec, transform)
    assert layout.lists == 3
    assert layout.packed == []
