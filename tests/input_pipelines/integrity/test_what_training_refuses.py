"""Every value that stops training is refused by `validate`, `check_data` and conversion.

The cases are all kinds of columns that read a feature, with all normalizers, and all forms of bad
values. Training's own transformation says what is bad.
"""

from __future__ import annotations

import itertools
import math
import typing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

import feature_specs
from feature_specs.kinds import COLUMN_KINDS, normalizers
from feature_specs.reference.ops import normalizer_fn
from feature_specs.validation import accepted_values
from input_pipelines.errors import DataError
from input_pipelines.integrity import data_scan, spec_check
from input_pipelines.prepare.analyze import first_spec
from input_pipelines.prepare.convert import conversion, value_checks
from input_pipelines.prepare.convert.value_checks import normalized
from input_pipelines.transform.transforms import Transform

NORMALIZERS = {
    "log1p": ["log1p"],
    "zscore": [{"zscore": {"mean": 1.0, "stddev": 1e-30}}],
    "minmax": [{"minmax": {"min": 0.0, "max": 1e-38}}],
    "clip": [{"clip": {"min": -5.0, "max": 5.0}}],
}
CHAINS = [
    [],
    *NORMALIZERS.values(),
    *([*one, *two] for one, two in itertools.permutations(NORMALIZERS.values(), 2)),
]
NUMBERS = [0, 1, -1, -2, 10**10, -(10**10), 2**62]
FLOATS = [*map(float, NUMBERS), -0.5, 1e30, -3e38, math.nan, math.inf]


def test_every_normalizer_is_here():
    union, *_ = typing.get_args(normalizers.Normalizer)
    kinds = [typing.get_args(option)[0] for option in typing.get_args(union)]
    assert {next(iter(kind.model_fields)) for kind in kinds} == set(NORMALIZERS)


def spec_of(dtype, shape, columns):
    lists = {"default": 0} if shape == "single" else {"shape": "variable"}
    if dtype == "string" and shape == "single":
        lists = {"default": ""}
    hot = {f"{n}_hot": {"indicator": n} for n, c in columns.items() if is_id(c)}
    return feature_specs.parse(
        {
            "features": {"x": {"dtype": dtype, **lists}},
            "columns": {**columns, **hot},
            "groups": {f"of_{n}": [n] for n in ({*columns} - {n[:-4] for n in hot}) | {*hot}},
            "labels": {"y": {"dtype": "int64"}},
            "objectives": {"y": {"head": "binary"}},
        }
    )


def is_id(column):
    (kind, *_) = column
    return COLUMN_KINDS[kind].categorical


def cases():
    """(dtype, shape, column) for each kind that reads a feature itself, with each normalizer."""
    for dtype in ("float32", "int64"):
        for chain in CHAINS:
            yield dtype, "single", {"numeric": "x", "normalizer": chain}
            for kind in ("sequence_numeric", "ragged"):
                yield dtype, "list", {kind: "x", "normalizer": chain}
            if len(chain) < 2:
                yield dtype, "single", {"numeric": "x", "normalizer": chain, "missing": 1}
        yield dtype, "single", {"bucketized": "x", "boundaries": [0.5]}
        yield dtype, "single", {"bucketized": "x", "boundaries": [0.5], "missing": "own_bucket"}
        yield dtype, "single", {"is_missing": "x"}
    yield "string", "single", {"is_missing": "x"}
    yield "string", "single", {"time": "x", "part": "day", "format": "%d.%m."}
    yield "int64", "single", {"time": "x", "part": "hour", "format": "seconds"}
    for shape in ("single", "list"):
        yield "int64", shape, {"identity": "x", "size": 5}
        yield "int64", shape, {"identity": "x", "size": 5, "default_id": 0}
        for dtype, word in (("int64", 3), ("string", "a")):
            yield dtype, shape, {"vocabulary": "x", "list": [word]}
            yield dtype, shape, {"hash_bucket": "x", "size": 5}
            yield dtype, shape, {"growing": "x", "rows": 5}


def test_every_kind_that_reads_a_feature_is_here():
    kinds = {next(iter(column)) for _, _, column in cases()}
    # Columns of other kinds read ids of these columns.
    others = {"crossed", "weighted", "indicator", "embedding"}
    assert kinds | others == set(COLUMN_KINDS)


def stored(kind, values):
    feature = tf.train.Feature()
    of = {"float32": "float_list", "int64": "int64_list", "string": "bytes_list"}
    getattr(feature, of[kind]).value.extend(values)
    if not values:
        getattr(feature, of[kind]).SetInParent()
    return feature


def values_of(dtype):
    """Features with good and bad values of every form; None is an absent feature."""
    numbers = {"float32": FLOATS, "int64": NUMBERS, "string": [b"", b"a", b"z"]}[dtype]
    yield None
    yield tf.train.Feature()
    for other in ("float32", "int64", "string"):
        yield stored(other, [])
        yield stored(other, [b"a" if other == "string" else 1])
    for number in numbers:
        yield stored(dtype, [number])
        yield stored(dtype, [number, number])


def record(feature):
    example = tf.train.Example()
    example.features.feature["y"].int64_list.value.append(1)
    if feature is not None:
        example.features.feature["x"].CopyFrom(feature)
    return example.SerializeToString()


def of_training(spec, records):
    """The places of the records that stop training."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        one = tf.compat.v1.placeholder(tf.string, [None])
        made = Transform(spec).features_and_labels(one)
        session.run(tf.compat.v1.tables_initializer())
        refused = set()
        for i, serialized in enumerate(records):
            try:
                session.run(made, {one: [serialized]})
            except tf.errors.InvalidArgumentError:
                refused.add(i)
        return refused


def compare(dtype, shape, column, path):
    spec = spec_of(dtype, shape, {"c": column})
    features = list(values_of(dtype))
    records = [record(feature) for feature in features]
    expected = of_training(spec, records)
    assert expected, "no bad value"
    with tf.io.TFRecordWriter(path) as writer:
        for serialized in records:
            writer.write(serialized)
    report = spec_check.check(spec, [path], rows=len(records))
    assert report.lines[0].startswith(f"{len(records)} records, {len(records) - len(expected)} of")
    (scanned,) = data_scan.scan([path], spec=spec)
    assert {bad.number for bad in scanned.listed} == expected
    for i in expected:
        (reason,) = (bad.reason for bad in scanned.listed if bad.number == i)
        assert "feature 'x'" in reason, (column, features[i], reason)
    # Conversion cannot write features of another form, but every number.
    kind = {"float32": "float_list", "int64": "int64_list", "string": "bytes_list"}[dtype]
    singles = [
        (i, getattr(feature, kind).value[0])
        for i, feature in enumerate(features)
        if feature is not None and len(getattr(feature, kind).value) == 1
    ]
    types = {"float32": pa.float32(), "int64": pa.int64(), "string": pa.binary()}
    array = pa.array([value for _, value in singles], types[dtype])
    outside = np.zeros(len(singles), bool)
    for accepted in accepted_values.of_feature(spec, "x"):
        outside |= value_checks.outside(array, accepted)
    refused = {i for (i, _), bad in zip(singles, outside) if bad}
    assert refused >= expected & {i for i, _ in singles}
    # Conversion never writes infinity, also not for a column that clips it.
    assert all(math.isinf(dict(singles)[i]) for i in refused - expected)


def first_of_each_kind():
    kinds = {}
    for case in cases():
        if case[2].get("normalizer", ["log1p"]) == ["log1p"]:
            kinds.setdefault(next(iter(case[2])), case)
    return list(kinds.values())


SOME = first_of_each_kind()


@pytest.mark.parametrize("dtype, shape, column", SOME, ids=str)
def test_checks_refuse_what_training_refuses(dtype, shape, column, tmp_path):
    compare(dtype, shape, column, str(tmp_path / "a.tfrecord"))


@pytest.mark.nightly
@pytest.mark.parametrize("dtype, shape, column", [c for c in cases() if c not in SOME], ids=str)
def test_all_checks_refuse_what_training_refuses(dtype, shape, column, tmp_path):
    compare(dtype, shape, column, str(tmp_path / "a.tfrecord"))


def test_numpy_and_tensorflow_agree_on_what_is_finite():
    numbers = {"float32": np.float32(FLOATS), "int64": np.int64([*NUMBERS, 2**63 - 1, -(2**63)])}
    for dtype, values in numbers.items():
        for chain in CHAINS:
            spec = spec_of(dtype, "single", {"c": {"numeric": "x", "normalizer": chain}})
            steps = spec.columns["c"].normalizer
            expected = np.isfinite(normalizer_fn(steps)(tf.constant(values)).numpy())
            found = np.isfinite(normalized(steps, values))
            assert found.tolist() == expected.tolist(), (dtype, chain)


@pytest.mark.parametrize(
    "normalizer, wrong", [("log1p", -2.0), ({"zscore": {"mean": 0.0, "stddev": 1e-30}}, 1e10)]
)
def test_conversion_names_the_row(normalizer, wrong, tmp_path):
    spec = spec_of("float32", "single", {"c": {"numeric": "x", "normalizer": normalizer}})
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [0.5, wrong], "y": [1, 0]}), path)
    with pytest.raises(DataError) as error:
        conversion.convert([path], directory=str(tmp_path / "out"), spec=spec, workers=1)
    assert str(error.value).startswith(
        f"{path}: row 2: column 'x' has {wrong}, expected a number that column 'c' normalizes to a "
        "finite number"
    )


def test_a_first_spec_refuses_an_empty_list_where_others_have_one_value(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(200):
            example = tf.train.Example.FromString(record(stored("float32", [float(i)])))
            example.features.feature["y"].int64_list.value[0] = i % 2
            if i == 7:
                example.features.feature["x"].CopyFrom(stored("float32", []))
            writer.write(example.SerializeToString())
    with pytest.raises(DataError) as error:
        first_spec.write([path], labels=["y"], directory=str(tmp_path / "first"))
    assert str(error.value) == (
        f"{path}: record 7: feature 'x' is an empty list, but other records have one value. "
        "TensorFlow refuses such a record. Leave the feature out of it"
    )
    assert not (tmp_path / "first").exists()
