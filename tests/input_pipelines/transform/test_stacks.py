"""Columns that are made together are equal to columns that are made alone, and need fewer ops."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from input_pipelines.record_files import writing
from input_pipelines.transform import checks, stacks
from input_pipelines.transform.batch import Batch, Ids
from input_pipelines.transform.kinds import lookup_tables, value_of
from input_pipelines.transform.record_parsing import RecordParser
from input_pipelines.transform.transforms import Transform

# By the first word of a feature's name: `x_log` is like `x`.
FEATURES = {
    "x": {"dtype": "float32", "default": 0.0},
    "y": {"dtype": "float32", "default": 0.5},
    "pair": {"dtype": "float32", "shape": [2]},
    "age": {"dtype": "int64", "default": 3},
    "s": {"dtype": "string", "default": ""},
    "t": {"dtype": "string", "default": ""},
    "u": {"dtype": "string", "default": "red"},
    "i": {"dtype": "int64", "default": -1},
    "j": {"dtype": "int64", "default": -1},
    "k": {"dtype": "int64", "default": -1},
}
# Each column reads a feature of its name, except for buckets of a column, and the cross.
COLUMNS = {
    "x_log": {"numeric": "x_log", "normalizer": "log1p"},
    "y_log": {"numeric": "y_log", "normalizer": "log1p"},
    "x_z": {"numeric": "x_z", "normalizer": {"zscore": {"mean": 0.1, "stddev": 0.7}}},
    "y_z": {"numeric": "y_z", "normalizer": {"zscore": {"mean": -3.0, "stddev": 2.0}}},
    "x_m": {"numeric": "x_m", "normalizer": [{"minmax": {"min": 0.1, "max": 0.4}}, "log1p"]},
    "y_m": {"numeric": "y_m", "normalizer": [{"minmax": {"min": -1, "max": 2}}, "log1p"]},
    "x_c": {"numeric": "x_c", "normalizer": {"clip": {"min": 0.2, "max": 0.3}}},
    "pair_c": {"numeric": "pair_c", "normalizer": {"clip": {"min": 0, "max": 1}}},
    "age_n": {"numeric": "age_n"},
    "x_b": {"bucketized": "x_z", "boundaries": [0, 1]},
    "y_b": {"bucketized": "y_log", "boundaries": [0, 1]},
    "age_b": {"bucketized": "age_b", "boundaries": [2, 3, 4]},
    "pair_b": {"bucketized": "pair_b", "boundaries": [0.5]},
    "s_h": {"hash_bucket": "s_h", "size": 10},
    "t_h": {"hash_bucket": "t_h", "size": 10, "salt": "t "},
    "u_h": {"hash_bucket": "u_h", "size": 7},
    "i_h": {"hash_bucket": "i_h", "size": 10},
    "j_h": {"hash_bucket": "j_h", "size": 10, "salt": "j "},
    "s_v": {"vocabulary": "s_v", "list": ["a", "b"]},
    "i_i": {"identity": "i_i", "size": 5},
    "j_i": {"identity": "j_i", "size": 6},
    "k_i": {"identity": "k_i", "size": 10},
    "j_d": {"identity": "j_d", "size": 3, "default_id": 1},
    "k_d": {"identity": "k_d", "size": 4, "default_id": 2},
    "cross": {"crossed": ["s_x", "i_i", "x_b"], "size": 50},
    "x_f": {"numeric": "x_f", "missing": 0.75, "normalizer": "log1p"},
    "age_f": {"numeric": "age_f", "missing": 40},
    "y_o": {"bucketized": "y_o", "boundaries": [1], "missing": "own_bucket"},
    "x_o": {"bucketized": "x_o", "boundaries": [0.3], "missing": "own_bucket"},
    "age_o": {"bucketized": "age_f", "boundaries": [5], "missing": "own_bucket"},
    "pair_o": {"bucketized": "pair_o", "boundaries": [0.5]},
    "x_q": {"is_missing": "x_q"},
    "age_q": {"is_missing": "age_q"},
    "u_q": {"is_missing": "u_q"},
    "k_t": {"time": "k_t", "part": "hour", "format": "%H"},
}
ROWS = [
    {"x": 0.5, "y": 7.0, "pair": [0.1, 0.9], "s": "a", "t": "b", "i": 4, "j": 5, "k": 9},
    {"x": 0.2, "pair": [2.0, -2.0], "age": 4, "s": "c", "u": "", "i": 0, "j": -1, "k": 3},
    {"y": 0.1, "pair": [0.5, 0.5], "t": "ü", "j": 2},
]


def like(name):
    return name.partition("_")[0]


def spec_of(columns, features=None):
    numbers = [name for name, column in columns.items() if "numeric" in column]
    ids = [name for name in columns if name not in numbers]
    if features is None:
        read = {n: FEATURES[like(n)] for n in (*columns, "s_x") if like(n) in FEATURES}
        made = ("x_b", "y_b", "age_o")
        features = {n: entry for n, entry in read.items() if n not in made}
        if "cross" not in columns:
            del features["s_x"]
    return feature_specs.parse(
        {
            "features": features,
            "columns": {**columns, **{f"{n}_hot": {"indicator": n} for n in ids}},
            "groups": {"deep": [*numbers, *(f"{n}_hot" for n in ids)]},
            "labels": {"click": {"dtype": "int64"}},
            "objectives": {"click": {"head": "binary"}},
        }
    )


def records(spec, rows=ROWS):
    filled = ({n: row[like(n)] for n in spec.features if like(n) in row} for row in rows)
    return tf.constant([writing.example(row).SerializeToString() for row in filled])


def alone(spec):
    """Each column by the function of its kind."""
    batch = Batch(
        spec, RecordParser(spec).parse(records(spec), with_labels=False), lookup_tables(spec)
    )
    result = {}
    for name in COLUMNS:
        made = batch.made[name] = value_of(batch, name)
        result[name] = made.masked() if isinstance(made, Ids) else made
    return result


def as_lists(session, tensors):
    return {
        name: value.to_list() if hasattr(value, "to_list") else value
        for name, value in session.run(tensors).items()
    }


def test_columns_together_are_equal_to_each_column_alone():
    spec = spec_of(COLUMNS)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        together, each = Transform(spec).features(records(spec)), alone(spec)
        session.run(tf.compat.v1.tables_initializer())
        found, expected = as_lists(session, together), as_lists(session, each)
    assert set(found) == set(expected)
    for name, value in expected.items():
        if "log" in name or "_m" in name:
            np.testing.assert_allclose(found[name], value, rtol=1e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(found[name], value, err_msg=name)
    assert found["s_v"].tolist() == [0, -1, -1] and found["j_d"].tolist() == [1, -1, 2]
    assert found["i_i"].tolist() == [4, 0, -1] and found["k_i"].tolist() == [9, 3, -1]
    assert found["k_d"].tolist() == [2, 3, -1]
    assert found["x_q"].tolist() == [0, 0, 1] and found["u_q"].tolist() == [1, 0, 1]
    assert found["age_f"].tolist() == [[40], [4], [40]] and found["age_o"].tolist() == [2, 0, 2]
    assert found["x_o"].tolist() == [1, 0, 2] and found["y_o"].tolist() == [1, 2, 0]
    assert found["k_t"].tolist() == [9, 3, -1]
    assert found["age_b"].tolist() == [2, 3, 2] and found["x_c"].tolist() == [
        [np.float32(0.3)], [np.float32(0.2)], [np.float32(0.2)]
    ]  # fmt: skip


def test_a_logarithm_that_makes_buckets_is_computed_alone():
    # Whether its last bit is equal depends on the place in a tensor.
    spec = spec_of({n: COLUMNS[n] for n in ("x_log", "y_log", "x_m", "y_m", "y_b")})
    with tf.Graph().as_default() as graph:
        batch = Batch(spec, RecordParser(spec).parse(records(spec), with_labels=False), {})
        stacks.numbers(batch)
        logarithms = [op for op in graph.get_operations() if op.type == "Log1p"]
    # x_log, y_log, and x_m with y_m.
    assert sorted(op.inputs[0].shape[1] for op in logarithms) == [1, 1, 2]


@pytest.mark.parametrize(
    "row, feature, size",
    [({"i": 7, "j": 1}, "i_i", 5), ({"i": 1, "j": -2}, "j_i", 6), ({"i": 9, "j": 9}, "i_i", 5)],
)
def test_an_id_outside_its_size_names_its_feature(row, feature, size):
    spec = spec_of({n: COLUMNS[n] for n in ("i_i", "j_i")})
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features = Transform(spec).features(records(spec, [{"i": 1, "j": 2}, row]))
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            session.run(features)
    assert checks.text_of(error.value) == f"feature '{feature}' must be in [0, {size})"


def test_a_number_that_is_not_finite_is_an_error_of_all_numeric_columns():
    spec = spec_of({n: COLUMNS[n] for n in ("age_n", "x_z", "y_z")})
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features = Transform(spec).features(records(spec, [{"x": 1.0, "y": float("nan")}]))
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            session.run(features)
    text = "NaN or infinity in one of the columns age_n, x_z, y_z : Tensor had NaN values"
    assert checks.text_of(error.value) == text


@pytest.mark.parametrize(
    "dtype, column, most",
    [
        ("string", {"hash_bucket": "{}", "size": 10}, 0),
        ("int64", {"hash_bucket": "{}", "size": 10}, 0),
        ("int64", {"identity": "{}", "size": 10}, 1),
        ("float32", {"numeric": "{}", "normalizer": "log1p"}, 0),
        ("string", {"vocabulary": "{}", "list": ["a", "b"]}, 1),
        ("float32", {"numeric": "{}", "missing": 3.5}, 0),
        ("string", {"is_missing": "{}"}, 1),
    ],
)
def test_a_further_column_adds_no_ops_to_a_batch(dtype, column, most):
    """Except for the lookup of a vocabulary, and for a reshape that TensorFlow Lite needs."""

    def ops(count):
        names = [f"f{i}" for i in range(count)]
        kind, *rest = column
        spec = spec_of(
            {f"c{n}": {kind: n, **{key: column[key] for key in rest}} for n in names},
            {n: {"dtype": dtype, "default": "" if dtype == "string" else 0} for n in names},
        )
        with tf.Graph().as_default() as graph:
            transform = Transform(spec)
            before = len(graph.get_operations())
            transform.features(tf.compat.v1.placeholder(tf.string, [None]))
            return len(graph.get_operations()) - before

    assert ops(12) - ops(2) == 10 * most
