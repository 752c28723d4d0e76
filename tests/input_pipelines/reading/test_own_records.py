"""Rows of a user's code become the records that `writing` stores, for every form of a feature."""

from __future__ import annotations

import random
import re
import sqlite3

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

import feature_specs
from feature_specs.kinds import COLUMN_KINDS
from input_pipelines.errors import DataError
from input_pipelines.reading import own_records
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conftest import DOCUMENT, make_rows
from tests.estimator_kit.client.test_record_spec import EVERYTHING

WORDS = ("rome", "é", "")


def value_of(entry, rng, count):
    """A value of a feature or label for one row, with `count` values in its lists."""
    one = {
        "string": lambda: rng.choice(WORDS),
        "int64": lambda: rng.choice([0, 1, -(2**63), 2**63 - 1]),
        "float32": lambda: rng.choice([0.5, -1.25, 1e30]),
    }[entry.dtype]
    if entry.shape == "variable" and getattr(entry, "feature_list", False):
        return [[one() for _ in range(rng.randint(0, 2))] for _ in range(count)]
    if entry.shape == "variable" or getattr(entry, "feature_list", False):
        return [one() for _ in range(count)]
    return np.reshape([one() for _ in range(entry.length)], entry.shape).tolist()


def rows_of(spec, number):
    rng = random.Random(3)
    entries = own_records.entries_of(spec)
    return [{n: value_of(e, rng, i % 4) for n, e in entries.items()} for i in range(number)]


def expected(spec, rows):
    """The records of `writing`, as parsed messages."""
    flat = lambda value: np.ravel(value).tolist() if isinstance(value, list) else value  # noqa: E731
    found = []
    for row in rows:
        lists = {name: row[name] for name in spec.feature_lists}
        context = {name: flat(value) for name, value in row.items() if name not in lists}
        context["price"] = float(row["price"])
        if spec.sequence_examples:
            found.append(writing.sequence_example(context, lists))
        else:
            found.append(writing.example(context))
    return found


def batch_of(spec, rows, *, sparse=False):
    """The rows as a dictionary of tensors."""
    batch = {}
    for name, entry in own_records.entries_of(spec).items():
        values, dtype = [row[name] for row in rows], tf.as_dtype(entry.dtype)
        if entry.shape != "variable" and not getattr(entry, "feature_list", False):
            batch[name] = tf.constant(values, dtype)
            continue
        depth = 1 + (name in spec.feature_lists and entry.nested)
        batch[name] = tf.ragged.constant(values, dtype, depth, row_splits_dtype=tf.int64)
        if sparse and depth == 1:
            batch[name] = batch[name].to_sparse()
    return batch


def parsed(spec, records):
    """Messages of some records. An empty list may have a type or none, which readers accept."""
    kind = tf.train.SequenceExample if spec.sequence_examples else tf.train.Example
    found = [kind.FromString(bytes(record)) for record in records]
    for one in found:
        features = (one.context if spec.sequence_examples else one.features).feature
        for feature in [*features.values(), *(
            step for steps in (one.feature_lists.feature_list if spec.sequence_examples else {})
            .values() for step in steps.feature
        )]:  # fmt: skip
            which = feature.WhichOneof("kind")
            if which and not getattr(feature, which).value:
                feature.ClearField(which)
    return found


OF_STEPS = {"times", "clicks", "looks", "steps", "click", "look", "look_list", "click_emb"}
OF_EXAMPLES = {
    **{
        section: {n: entry for n, entry in EVERYTHING[section].items() if n not in OF_STEPS}
        for section in ("features", "columns", "groups", "labels", "objectives")
    },
    "groups": {**EVERYTHING["groups"], "lists": ["words", "weight_list"]},
}
del OF_EXAMPLES["groups"]["steps"]
EVERY = feature_specs.parse(EVERYTHING)
SPECS = {"SequenceExamples": EVERY, "Examples": feature_specs.parse(OF_EXAMPLES)}
DATASETS = {
    "batches": lambda spec, rows: tf.data.Dataset.from_tensors(batch_of(spec, rows)),
    "two batches": lambda spec, rows: tf.data.Dataset.from_tensors(
        batch_of(spec, rows[:7])
    ).concatenate(tf.data.Dataset.from_tensors(batch_of(spec, rows[7:]))),
    "sparse": lambda spec, rows: tf.data.Dataset.from_tensors(batch_of(spec, rows, sparse=True)),
    "rows": lambda spec, rows: tf.data.Dataset.from_tensors(batch_of(spec, rows)).unbatch(),
    "sparse rows": lambda spec, rows: tf.data.Dataset.from_tensors(
        batch_of(spec, rows, sparse=True)
    ).unbatch(),
}


def test_the_spec_has_every_kind_of_column_and_form_of_feature():
    assert {column.kind for column in EVERY.columns.values()} == set(COLUMN_KINDS)
    assert {(f.dtype, f.variable, f.feature_list, f.nested) for f in EVERY.features.values()} >= {
        ("string", False, False, False), ("string", True, False, False),
        ("string", True, False, True), ("string", True, True, False), ("string", True, True, True),
        ("float32", True, True, False), ("int64", True, False, False),
    }  # fmt: skip


@pytest.mark.parametrize("kind", SPECS)
def test_dictionaries_and_tensors_become_the_records_of_writing(kind):
    spec = SPECS[kind]
    rows = rows_of(spec, 12)
    messages = parsed(spec, [message.SerializeToString() for message in expected(spec, rows)])
    assert parsed(spec, own_records.of_rows(spec, iter(rows))) == messages
    for form in ("two batches", "sparse rows"):
        blocks = list(own_records.of_dataset(spec, DATASETS[form](spec, rows)))
        assert parsed(spec, [r for block in blocks for r in block.numpy()]) == messages, form


@pytest.mark.nightly
@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("form", DATASETS)
def test_every_form_of_a_data_set(kind, form):
    spec = SPECS[kind]
    rows = rows_of(spec, 12)
    messages = parsed(spec, [message.SerializeToString() for message in expected(spec, rows)])
    blocks = list(own_records.of_dataset(spec, DATASETS[form](spec, rows)))
    assert parsed(spec, [r for block in blocks for r in block.numpy()]) == messages


def test_a_batch_whose_tensors_differ_in_their_rows_stops_the_reading():
    spec = feature_specs.parse(DOCUMENT)
    dataset = tf.data.Dataset.from_generator(
        # Together, buy and click have as many values as two columns of three rows.
        lambda: iter([{"city": ["rome"] * 3, "buy": [1, 0, 1, 0], "click": [1, 0]}]),
        output_signature={n: tf.TensorSpec([None], t.dtype) for n, t in GOOD.items()},
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="differ in their number of rows"):
        list(own_records.of_dataset(spec, dataset))


def test_blocks_have_at_most_1024_rows_and_a_known_number_of_rows_is_found():
    spec = feature_specs.parse(DOCUMENT)
    numbers = {"city": ["rome"] * 2500, "click": tf.zeros([2500], tf.int64)}
    numbers["buy"] = numbers["click"]
    rows = tf.data.Dataset.from_tensor_slices(numbers)
    for dataset, length in ((rows, 2500), (rows.batch(800), -2), (rows.repeat(), -1)):
        assert own_records.length_of(spec, dataset) == length
    for dataset in (rows, rows.batch(800), rows.batch(1100)):
        sizes = [len(block) for block in own_records.of_dataset(spec, dataset)]
        assert sizes == [1024, 1024, 452]


def test_rows_of_sqlite_of_arrow_and_none():
    spec = feature_specs.parse(DOCUMENT)
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    connection.execute("CREATE TABLE ads (price REAL, user TEXT, city TEXT, click INT, other INT)")
    values = [(0.5, "ann", "rome", 1, 7), (2, None, "é", 0, 8)]
    connection.executemany("INSERT INTO ads VALUES (?, ?, ?, ?, ?)", values)
    cursor = connection.execute("SELECT *, 0 AS buy FROM ads")
    found = list(own_records.of_rows(spec, cursor))
    connection.close()
    rows = [
        {"price": 0.5, "user": "ann", "city": "rome", "click": 1, "buy": 0},
        {"price": 2.0, "user": None, "city": "é", "click": 0, "buy": 0},
    ]
    wanted = [writing.example(row).SerializeToString(deterministic=True) for row in rows]
    assert found == wanted
    table = pa.Table.from_pylist([{**row, "tags": ["a"]} for row in rows])
    assert list(own_records.of_rows(spec, table.to_batches(1))) == [
        writing.example({**row, "tags": ["a"]}).SerializeToString(deterministic=True)
        for row in rows
    ]
    numpy = {name: np.array(value) for name, value in rows[0].items()}
    assert next(own_records.of_rows(spec, [numpy])) == wanted[0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (({"city": "rome"}, 1), "row 1: expected a dictionary, got ({'city': 'rome'}, 1) (tuple). "
         'Give one dictionary for each row, with its features and labels, such as {"price": 9.5, '
         '"click": 1}. For a cursor of sqlite3, set connection.row_factory = sqlite3.Row'),
        ("price", "row 1: expected a dictionary, got 'price' (str). Give one dictionary"),
        ({"price": "9"}, "row 1: 'price': expected float32, got '9' (str). Convert the value"),
        ({"click": 0.5}, "row 1: 'click': expected int64, got 0.5 (float). Convert the value"),
        ({"tags": [1]}, "row 1: 'tags': expected string, got 1 (int). Convert the value"),
        ({"click": 2**63}, "row 1: 'click': got [9223372036854775808], which does not fit into"),
        ({"price": 1e39}, "row 1: 'price': got [1e+39], which does not fit into a float32"),
    ],
)  # fmt: skip
def test_rows_of_another_form(row, message):
    spec = feature_specs.parse(DOCUMENT)
    with pytest.raises(DataError, match=re.escape(message)):
        list(own_records.of_rows(spec, [*make_rows(1), row]))


GOOD = {"city": tf.constant(["rome"]), "click": tf.constant([1], tf.int64)}
GOOD["buy"] = GOOD["click"]
ELEMENTS = {
    "tuple": ((GOOD, GOOD["click"]), "the elements of the data set: expected a dictionary, got a "
              "tuple of 2. Give one dictionary for each row"),
    "missing": ({**GOOD, "city": None, "cty": GOOD["city"]}, "'city' is missing from the elements "
                "of the data set, and <dict> requires it. Did you mean 'cty'? Add it, or change"),
    "label": ({**GOOD, "click": None}, "'click' is missing from the elements of the data set"),
    "dtype": ({**GOOD, "price": tf.constant([1.0], tf.float64)}, "'price': expected a tensor of "
              "float32, got float64. Use tf.cast, or change the spec"),
    "rank": ({**GOOD, "price": tf.constant([[1.0]])}, "'price': expected the rank 1 in a batch of "
             "rows, got the shape (1, 1). Each element is a row or a batch of rows"),
    "nested": ({**GOOD, "price": {"a": 1}}, "'price': expected a tensor, got {'a': TensorSpec("),
}  # fmt: skip


@pytest.mark.parametrize("case", ELEMENTS)
def test_elements_of_another_form(case):
    element, message = ELEMENTS[case]
    if isinstance(element, dict):
        element = {name: value for name, value in element.items() if value is not None}
    spec = feature_specs.parse(DOCUMENT)
    with pytest.raises(DataError, match=re.escape(message)):
        own_records.of_dataset(spec, tf.data.Dataset.from_tensors(element))


def test_elements_of_an_unknown_rank_and_of_no_feature():
    spec = feature_specs.parse(DOCUMENT)
    shapes = tf.data.Dataset.from_generator(
        lambda: iter(()),
        output_signature={n: tf.TensorSpec(None, t.dtype) for n, t in GOOD.items()},
    )
    with pytest.raises(DataError, match="'city': expected a tensor of a known rank, got"):
        own_records.of_dataset(spec, shapes)
    assert own_records.missing_names(spec, own_records.of_rows(spec, [{"tags": [], "city": "a"}])) \
        == ["price", "user"]  # fmt: skip


def test_the_transform_reads_the_same():
    spec = feature_specs.parse(DOCUMENT)
    rows = make_rows(20)
    records = [writing.example(row).SerializeToString() for row in rows]
    tensors = {
        "price": tf.constant([row["price"] for row in rows], tf.float32),
        "user": tf.constant([row["user"] or "" for row in rows]),
        "city": tf.constant([row["city"] for row in rows]),
        "tags": tf.ragged.constant([row["tags"] for row in rows]),
        **{name: tf.constant([row[name] for row in rows], tf.int64) for name in ("click", "buy")},
    }
    (own,) = own_records.of_dataset(spec, tf.data.Dataset.from_tensors(tensors))
    transform = Transform(spec)
    for first, second in zip(
        tf.nest.flatten(transform.features_and_labels(own), expand_composites=True),
        tf.nest.flatten(transform.features_and_labels(records), expand_composites=True),
    ):
        np.testing.assert_array_equal(first, second)
