"""Ragged columns and lists of lists: rows worked out by hand, and the errors for wrong records.

tests/integration/test_encoded_bytes trains, exports and serves such a model.
"""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model import group_checks, input_layer
from estimator_kit.models import MODELS
from feature_specs.reference import columns
from input_pipelines.integrity import data_scan, diagnosis
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conftest import place
from tests.feature_specs.broken import problems_of

LIST = {"dtype": "float32", "shape": "variable"}
DOCUMENT = {
    "features": {
        "words": {"dtype": "string", "shape": "variable", "row_lengths": "sentences"},
        "sentences": {"dtype": "int64", "shape": "variable"},
        "kinds": {"dtype": "int64", "shape": "variable"},
        "prices": LIST,
        "city": {"dtype": "string"},
    },
    "columns": {
        "word": {"vocabulary": "words", "list": ["a", "b"]},
        "texts": {"ragged": "word"},
        "kind": {"identity": "kinds", "size": 9, "default_id": 8},
        "kinds_": {"ragged": "kind"},
        "prices": {"ragged": "prices", "normalizer": {"clip": {"min": 0, "max": 5}}},
        "kind_emb": {"embedding": "kind", "dimension": 2},
        "city": {"hash_bucket": "city", "size": 9},
        "city_emb": {"embedding": "city", "dimension": 2},
    },
    "groups": {"lists": ["texts", "kinds_", "prices"], "deep": ["kind_emb", "city_emb"]},
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}
ROWS = [
    {"words": ["a", "b", "c", "a"], "sentences": [1, 0, 3], "kinds": [2, 20], "prices": [1.5, 9.0],
     "city": "rome", "y": 1},
    {"city": "oslo", "y": 0},
    {"words": [], "sentences": [0, 0], "kinds": [0], "prices": [-1.0], "city": "", "y": 0},
]  # fmt: skip
RAGGED = {
    "texts": [[[0], [], [1, -1, 0]], [], [[], []]],  # "c" has no id.
    "kinds_": [[2, 8], [], [0]],
    "prices": [[1.5, 5.0], [], [0.0]],
}


def records(rows=ROWS):
    return [writing.example(row).SerializeToString() for row in rows]


def in_feature_lists():
    """The same spec with SequenceExamples: word lists in feature_lists, without row_lengths."""
    document = copy.deepcopy(DOCUMENT)
    document["features"]["words"] = {
        "dtype": "string", "shape": "variable", "feature_list": True,
    }  # fmt: skip
    del document["features"]["sentences"]
    return document


def sequence_rows():
    rows = []
    for row, words in zip(ROWS, ([["a"], [], ["b", "c", "a"]], None, [[], []])):
        context = {n: v for n, v in row.items() if n not in ("words", "sentences")}
        rows.append((context, {} if words is None else {"words": words}))
    return rows


def sequence_records():
    return [writing.sequence_example(*row).SerializeToString() for row in sequence_rows()]


@pytest.mark.parametrize("of_steps", [False, True])
def test_rows_worked_out_by_hand(of_steps):
    spec = feature_specs.parse(in_feature_lists() if of_steps else DOCUMENT)
    serialized = sequence_records() if of_steps else records()
    features = Transform(spec).features(tf.constant(serialized))
    ragged = input_layer.ragged_input(spec, "lists", features)
    assert {name: value.to_list() for name, value in ragged.items()} == RAGGED
    assert {n: (v.dtype, v.shape.rank) for n, v in ragged.items()} == {
        "texts": (tf.int64, 3), "kinds_": (tf.int64, 2), "prices": (tf.float32, 2),
    }  # fmt: skip
    # The embedding reads the same ids.
    assert set(features) == {"word", "kind", "prices", "city"}
    assert all(diagnosis.explain(spec, record) is None for record in serialized)


def test_they_are_those_of_tensorflows_own_partitions():
    entry = tf.io.RaggedFeature(
        tf.string, "words", partitions=[tf.io.RaggedFeature.RowLengths("sentences")],
        row_splits_dtype=tf.int64,
    )  # fmt: skip
    reference = tf.io.parse_example(records(), {"words": entry})["words"]
    parsed = Transform(feature_specs.parse(DOCUMENT))._parser.parse(
        tf.constant(records()), with_labels=False
    )
    assert parsed["words"].to_list() == reference.to_list()
    assert [t.tolist() for t in map(np.array, parsed["words"].nested_row_splits)] == [
        t.tolist() for t in map(np.array, reference.nested_row_splits)
    ]


def test_batches_have_them(tmp_path):
    """Batches are cut out of blocks of rows before parsing."""
    path = f"{tmp_path}/a.tfrecord"
    writing.write_examples(path, ROWS)
    spec = feature_specs.parse(DOCUMENT)
    found = {name: [] for name in RAGGED}
    for features, _ in ek.eval_input_fn(spec, [path], batch_size=2)():
        for name, value in input_layer.ragged_input(spec, "lists", features).items():
            found[name] += value.to_list()
    assert found == RAGGED


def test_the_parse_dict():
    spec = feature_specs.parse(DOCUMENT)
    assert spec.used_features() == ("words", "sentences", "kinds", "prices", "city")
    entries = columns.feature_parse_dict(spec, sparse=True)
    assert entries["words"] == tf.io.VarLenFeature(tf.string)
    assert entries["sentences"] == tf.io.VarLenFeature(tf.int64)


# --- What does not fit ----------------------------------------------------------------------------


BAD = [
    ({"sentences": [1, 2]},
     "feature 'words' has 4 values, but its row_lengths 'sentences' add up to 3"),
    ({"sentences": [5, -1]}, "feature 'sentences' is -1, expected a length of 0 or more"),
    ({"sentences": None},
     "feature 'words' has 4 values, but its row_lengths 'sentences' add up to 0"),
    ({"sentences": [4.0]}, "feature 'sentences' is float32, expected int64"),
    ({"prices": [1.0, float("nan")]}, "feature 'prices' is nan, expected a finite number"),
]  # fmt: skip


def test_each_record_is_named(tmp_path):
    path = f"{tmp_path}/a.tfrecord"
    writing.write_examples(path, [*ROWS, *({**ROWS[0], **change} for change, _ in BAD)])
    spec = feature_specs.parse(DOCUMENT)
    assert diagnosis.find_bad_record(spec, [path]) == f"{path}: {place(path, 3)}: {BAD[0][1]}"
    (report,) = data_scan.scan([path], spec=spec)
    assert [bad.reason for bad in report.listed] == [message for _, message in BAD]


def test_the_graph_names_the_features_as_well():
    bad = writing.example({**ROWS[0], "sentences": [1]}).SerializeToString()
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        Transform(feature_specs.parse(DOCUMENT)).features(tf.constant([bad]))
    assert (
        "estimator_kit input check: feature 'sentences' must be 0 or more, and add up to the "
        "number of values of 'words' in each record"
    ) in str(error.value)


def test_steps_of_another_type():
    spec = feature_specs.parse(in_feature_lists())
    bad = writing.sequence_example({"city": "a"}, {"words": [[], [1, 2]]})
    assert diagnosis.explain(spec, bad.SerializeToString()) == (
        "feature 'words' is int64 in step 1 of its feature list, expected string"
    )


# --- Models that do not read them -----------------------------------------------------------------


@pytest.mark.parametrize("model", ["linear", "dnn", "wide_deep", "deepfm", "gru"])
def test_built_in_models_say_what_to_put_in_their_place(model):
    spec = feature_specs.parse(DOCUMENT)
    document = copy.deepcopy(DOCUMENT)
    group = {"linear": "wide", "wide_deep": "wide", "deepfm": "wide", "gru": "steps"}.get(
        model, "deep"
    )
    document["groups"] = {group: ["kinds_"], "others": ["kind_emb", "city_emb"], "x": ["prices"],
                          "y": ["texts"]}  # fmt: skip
    for name in {"deep", "fields"} - {group}:
        document["groups"][name] = ["kind_emb"]
    spec = feature_specs.parse(document)
    with pytest.raises(ek.ConfigError) as error:
        MODELS[model](spec)
    assert str(error.value) == (
        f"group {group!r}: column 'kinds_' is ragged, which only your own model can read, with "
        "self.ragged_input. Instead of the column, use an embedding of 'kind' with a combiner, or "
        "an indicator of it."
    )


def test_numbers_have_another_remedy():
    spec = feature_specs.parse(DOCUMENT)
    document = copy.deepcopy(DOCUMENT)
    document["groups"] = {"a": ["prices"], "b": ["texts", "kinds_"], "deep": ["kind_emb"],
                          "c": ["city_emb"]}  # fmt: skip
    for name, column in (("a", "prices"), ("b", "texts")):
        with pytest.raises(ek.ConfigError) as error:
            group_checks.check_dense_group(feature_specs.parse(document), name)
        assert str(error.value) == (
            f"group {name!r}: column {column!r} is ragged, which only your own model can read, "
            "with self.ragged_input. Instead of the column, use numbers of a fixed shape or a "
            "bucketized column of them."
        )
    with pytest.raises(ek.ConfigError) as error:
        input_layer.ragged_input(spec, "deep", {})
    assert str(error.value) == (
        "group 'deep': column 'kind_emb' is embedding, expected a ragged column"
    )


def test_there_is_no_feature_column_of_them():
    with pytest.raises(ValueError) as error:
        ek.feature_columns(feature_specs.parse(DOCUMENT), "lists")
    assert str(error.value) == (
        "<dict>: column 'texts' is ragged, and tf.feature_column has no such column. Read the "
        "feature in your own model, or make an embedding with a combiner of its ids."
    )


# --- The spec -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"features__words": {"dtype": "string", "shape": "variable", "row_lengths": "sentence"}},
         "features.words.row_lengths: got 'sentence', expected the name of a feature. Did you mean "
         "'sentences'?"),
        ({"features__sentences": LIST},
         "features.words.row_lengths: feature 'sentences' is float32 with the shape variable, "
         "expected int64 with shape: variable, the length of each list"),
        ({"features__words": {"dtype": "string", "row_lengths": "sentences"}},
         "features.words: row_lengths needs shape: variable and cannot be combined with "
         "feature_list. Set shape: variable and remove feature_list, or remove row_lengths."),
        ({"features__words": {"dtype": "string", "shape": "variable", "feature_list": True,
                              "required": True}},
         "features.words: required: true cannot be combined with feature_list: true and shape: "
         "variable, because TensorFlow reads an absent list of lists as an empty one. Remove "
         "required."),
        ({"columns__texts": {"ragged": "wrd"}},
         "columns.texts.ragged: got 'wrd', expected a categorical column or a feature of numbers. "
         "Did you mean 'word'?"),
        ({"columns__texts": {"ragged": "words"}},
         "columns.texts.ragged: feature 'words' is string with the shape variable and row_lengths, "
         "expected numbers with shape: variable or feature_list: true. For words, make a ragged "
         "column of a hash_bucket or vocabulary column."),
        ({"columns__texts": {"ragged": "kind_emb"}},
         "columns.texts.ragged: column 'kind_emb' is embedding, expected an identity, vocabulary "
         "or hash_bucket column, or a feature of numbers"),
        ({"columns__texts": {"ragged": "city"}},
         "columns.texts.ragged: column 'city' has one value per record, expected a list. Declare "
         "its feature with shape: variable."),
        ({"columns__x": {"crossed": ["kinds", "city_"], "size": 9}, "groups__wide": ["x"],
          "columns__texts": {"ragged": "x"}, "features__city_": {"dtype": "string"}},
         "columns.texts.ragged: column 'x' is crossed, expected an identity, vocabulary or "
         "hash_bucket column"),
        ({"columns__texts": {"ragged": "word", "normalizer": "log1p"}},
         "columns.texts.normalizer: column 'word' has ids, which cannot be normalized. Remove "
         "normalizer."),
        ({"columns__word_emb": {"embedding": "word", "dimension": 2}, "groups__more": ["word_emb"]},
         "columns.word_emb.embedding: column 'word' is a list of lists, which only ragged columns "
         "read. Use {ragged: word}, and combine the vectors in your own model."),
        ({"columns__x": {"crossed": ["words", "kinds"], "size": 9}, "groups__more": ["x"]},
         "columns.x.crossed[0]: 'words' is a list of lists, which only ragged columns read"),
        ({"columns__word": {"vocabulary": "words", "list": ["a"], "sequence": True}},
         "columns.word.sequence: feature 'words' is a list of lists, which only ragged columns "
         "read. Remove sequence."),
        ({"features__prices": {**LIST, "row_lengths": "sentences"},
          "columns__p": {"sequence_numeric": "prices"}, "groups__steps": ["p"]},
         "columns.p.sequence_numeric: feature 'prices' is a list of lists, which only ragged "
         "columns read. Use {ragged: prices}."),
        ({"features__prices": {**LIST, "row_lengths": "sentences"},
          "columns__p": {"weighted": "kind", "weight": "prices"},
          "columns__q": {"indicator": "p"}, "groups__more": ["q"]},
         "columns.p.weight: feature 'prices' is a list of lists, which only ragged columns read"),
        ({"groups__wide": ["word"]},
         "groups.wide: column 'word' is a list of lists, which only ragged columns read. Put "
         "{ragged: word} into the group instead."),
        ({"groups__deep": ["city_emb", "kind_emb", "texts"]},
         "groups.deep: columns texts are ragged, but city_emb, kind_emb are not. Put them into "
         "separate groups."),
        ({"columns__more": {"ragged": "prices"}},
         "columns.more: no group uses this column. Add it to a group or remove it."),
    ],
)  # fmt: skip
def test_what_a_broken_spec_is_told(changes, message):
    assert problems_of(DOCUMENT, **changes) == [message]


@pytest.mark.parametrize("document", [DOCUMENT, in_feature_lists()])
def test_the_spec_survives_its_own_document(document):
    spec = feature_specs.parse(document)
    again = feature_specs.parse(json.loads(json.dumps(spec.to_dict())))
    assert again == spec and again.fingerprint() == spec.fingerprint()
    assert spec.features["words"].nested and not spec.features["prices"].nested


def test_beside_steps_and_bytes_in_the_context_of_a_sequence_example():
    document = in_feature_lists()
    document["features"].update(
        bags={"dtype": "float32", "shape": "variable", "row_lengths": "sizes"},
        sizes={"dtype": "int64", "shape": "variable"},
        seen={"dtype": "int64", "feature_list": True},
        sound={"dtype": "string", "decode": {"raw": {"dtype": "uint8", "shape": [2]}}},
    )
    document["columns"].update(
        bags={"ragged": "bags"},
        seen={"identity": "seen", "size": 5, "sequence": True},
        seen_hot={"indicator": "seen"},
        seen_ids={"ragged": "seen"},
        sound={"numeric": "sound"},
    )
    document["groups"]["lists"] += ["bags", "seen_ids"]
    document["groups"]["deep"].append("sound")
    document["groups"]["steps"] = ["seen_hot"]
    spec = feature_specs.parse(document)
    (context, lists), *_ = sequence_rows()
    context = {**context, "bags": [1.0, 2.0, 3.0], "sizes": [2, 1], "sound": bytes([3, 4])}
    record = writing.sequence_example(context, {**lists, "seen": [4, 0]}).SerializeToString()
    assert diagnosis.explain(spec, record) is None
    features = Transform(spec).features(tf.constant([record]))
    ragged = input_layer.ragged_input(spec, "lists", features)
    assert ragged["bags"].to_list() == [[[1.0, 2.0], [3.0]]]
    assert ragged["seen_ids"].to_list() == [[4, 0]]
    assert ragged["texts"].to_list() == RAGGED["texts"][:1]
    assert features["sound"].numpy().tolist() == [[3.0, 4.0]]
    steps, _ = input_layer.sequence_input(spec, "steps", features)
    np.testing.assert_array_equal(steps, [[[0, 0, 0, 0, 1], [1, 0, 0, 0, 0]]])
