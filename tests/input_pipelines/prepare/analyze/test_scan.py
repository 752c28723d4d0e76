"""scan: statistics of records, worked out by hand; errors name the file and record."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
import tensorflow as tf

from feature_specs.sections.records import Condition, Filter
from input_pipelines.errors import DataError, MissingPackageError
from input_pipelines.prepare.analyze import numbers
from input_pipelines.prepare.analyze.scan import scan
from input_pipelines.prepare.analyze.summary import RecordSummary
from input_pipelines.record_files import writing

ROWS = [
    {"age": 30, "price": 1.5, "city": "rome", "tags": ["a", "b"], "vector": [1.0, 2.0]},
    {"age": 40, "price": 2.5, "city": "oslo", "tags": [], "vector": [0.0, 4.0]},
    {"age": None, "price": 0.0, "city": "rome", "tags": ["a"], "vector": [1.0, 2.0]},
    {"age": 50, "price": 4.0, "city": "", "tags": None, "vector": [2.0, 0.0]},
]

NO_RECORD = "is not a serialized tf.train.Example or SequenceExample"


def write(path, rows):
    writing.write_examples(str(path), rows)
    return str(path)


@pytest.fixture
def files(tmp_path):
    return [write(tmp_path / "a.tfrecord", ROWS[:3]), write(tmp_path / "b.tfrecord.gz", ROWS[3:])]


def test_statistics_by_hand(files):
    found = scan(files).statistics(2)
    assert (found.rows, found.files) == (4, 2)
    assert list(found.features) == ["age", "city", "price", "tags", "vector"]
    age = found.features["age"]
    assert (age.dtype, age.missing, age.values, age.cardinality.value) == ("int64", 1, 3, 3)
    assert (age.numbers.mean, age.numbers.min, age.numbers.max) == (40.0, 30, 50)
    assert age.numbers.stddev == pytest.approx((200 / 3) ** 0.5)
    assert age.lengths.counts == {"0": 1, "1": 3}
    price = found.features["price"].numbers
    assert (price.mean, price.zeros, price.quantiles[::25]) == (2.0, 1, (0.0, 0.0, 1.5, 2.5, 4.0))
    city = found.features["city"]
    assert (city.words.top, city.words.empty) == ((("rome", 2), ("oslo", 1)), 1)
    assert (city.cardinality.value, city.cardinality.exact, city.numbers) == (3, True, None)
    tags = found.features["tags"]
    assert (tags.missing, tags.values, tags.lengths.max, tags.lengths.mean) == (2, 3, 2, 0.75)
    assert tags.words.top == (("a", 2), ("b", 1))
    vector = found.features["vector"]
    assert vector.lengths.counts == {"2": 4} and vector.numbers.mean == 1.5


def only(city):
    return (Condition(Filter(feature="city", **{"in": [city]}), "string", None),)


def test_records_that_the_filter_drops_do_not_count(files):
    conditions = pickle.loads(pickle.dumps(only("rome")))  # As it goes to other processes.
    found = scan(files, conditions=conditions, workers=1, group_bytes=1).statistics(2)
    assert (found.rows, found.dropped, found.population) == (2, 2, "2 of 4 records")
    assert list(found.filter) == [{"feature": "city", "in": ["rome"]}]
    assert found.features["price"].numbers.mean == 0.75
    assert found.features["age"].missing == 1 and found.features["tags"].missing == 0
    assert found.features["city"].words.top == (("rome", 2),)


def test_a_filter_that_keeps_nothing(files):
    with pytest.raises(DataError, match="drops all 4 records"):
        scan(files, conditions=only("lima")).statistics(2)


def test_places_in_errors_count_the_records_that_the_filter_drops(tmp_path):
    rows = [{"city": "oslo"}, {"city": "rome", "x": 1}, {"city": "oslo", "x": "a"}]
    path = write(tmp_path / "a.tfrecord", [*rows, {"city": "rome", "x": 0.5}])
    with pytest.raises(DataError) as error:
        scan([path], conditions=only("rome"))
    assert str(error.value).startswith(
        f"feature 'x' is int64 in {path}: record 1 and float32 in {path}: record 3; "
    )
    path = write(tmp_path / "a.tfrecord", [*rows, {"x": 1}])
    with pytest.raises(DataError) as error:
        scan([path], conditions=only("rome"))
    assert str(error.value).startswith(
        f"{path}: record 3: a feature that the filter of the spec compares has no usable value: "
    )
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(writing.example(rows[0]).SerializeToString())
        writer.write(b"no")
    with pytest.raises(DataError, match=f"a.tfrecord: record 1: {NO_RECORD}"):
        scan([path], conditions=only("rome"))


def test_parts_merge_to_the_same_in_any_order(tmp_path):
    paths = [write(tmp_path / f"{i}.tfrecord", ROWS[i : i + 2]) for i in range(3)]
    parts = [scan([path]) for path in paths]
    texts = set()
    for order in itertools.permutations(parts):
        merged = RecordSummary()
        for part in order:
            merged.merge(part)
        texts.add(merged.statistics(3).as_text())
    assert texts == {scan(paths).statistics(3).as_text()}


def test_lengths_beyond_1023_are_counted_by_powers_of_two(tmp_path):
    path = write(tmp_path / "x", [{"x": [1] * n} for n in (1023, 1024, 2047, 2048)])
    lengths = scan([path]).statistics(1).features["x"].lengths
    assert lengths.counts == {"1023": 1, "1024": 2, "2048": 1}
    assert (lengths.min, lengths.max) == (1023, 2048)


def test_a_feature_that_first_comes_late_is_seen(tmp_path):
    rows = [{"x": 1}] * 9000 + [{"x": 1, "late": 2.0}]
    found = scan([write(tmp_path / "x", rows)]).statistics(1)
    assert found.features["late"].missing == 9000


def test_two_types_name_both_records(files, tmp_path):
    other = write(tmp_path / "c.tfrecord", [{"city": "rome"}, {"age": 1, "city": "x"}, {"city": 7}])
    with pytest.raises(DataError) as error:
        scan([*files, other])
    assert str(error.value) == (
        f"feature 'city' is string in {files[0]}: record 0 and int64 in {other}: record 2; a "
        "feature must have one type: write the files again, or analyze only the files with one "
        "type"
    )


def test_two_types_are_found_when_parts_merge(files, tmp_path):
    other = write(tmp_path / "c.tfrecord", [{"x": 1}, {"age": 1.0}])
    one, two = scan(files), scan([other])
    for first, second in ((one, two), (two, one)):
        merged = RecordSummary()
        merged.merge(first)
        with pytest.raises(DataError, match=r"int64 in .*a\.tfrecord: record 0 and float32"):
            merged.merge(second)


def test_no_record(tmp_path):
    empty = write(tmp_path / "empty.tfrecord.gz", [])
    with pytest.raises(DataError) as error:
        scan([empty])
    assert str(error.value) == f"{empty} has no records to analyze"
    found = scan([empty, write(tmp_path / "x", [{"x": 1}])]).statistics(2)
    assert found.rows == 1


def test_a_corrupt_file_is_told_by_its_record(files):
    with open(files[0], "r+b") as file:
        content = file.read()
        file.seek(0)
        file.write(content[:-3] + b"\0\0\0")
    with pytest.raises(DataError, match=r"a\.tfrecord: record 2 at byte \d+: the checksum of its "):
        scan(files)


def test_a_file_cut_short(files):
    with open(files[0], "r+b") as file:
        file.truncate(20)
    with pytest.raises(DataError, match=r"a\.tfrecord: record 0 at byte 0: it is cut off: "):
        scan(files)


def test_a_record_that_is_not_an_example(tmp_path):
    path = str(tmp_path / "x.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(8300):
            record = writing.example({"x": i}).SerializeToString()
            writer.write(record if i != 8250 else b"not an example")
    with pytest.raises(DataError) as error:
        scan([path])
    assert str(error.value) == f"{path}: record 8250: {NO_RECORD}"


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasketches", None)
    with pytest.raises(MissingPackageError) as error:
        numbers.library()
    assert str(error.value) == (
        "analysis needs the package 'datasketches'; "
        "install it with: pip install 'estimator-kit[analyze]'"
    )


@pytest.mark.ci
def test_the_number_of_processes_does_not_change_the_result(tmp_path):
    rng = np.random.default_rng(2)
    paths = [
        write(
            tmp_path / f"{i}.tfrecord",
            [{"word": f"w{rng.zipf(1.5)}", "x": float(rng.normal()), "n": j} for j in range(500)],
        )
        for i in range(3)
    ]
    options = {"group_bytes": 1, "exact_limit": 100}
    alone = scan(paths, workers=1, **options).statistics(3)
    together = scan(paths, workers=2, **options).statistics(3)
    assert together == alone and not alone.features["x"].cardinality.exact


@pytest.mark.ci
def test_an_error_in_another_process_is_the_same(tmp_path):
    paths = [write(tmp_path / "a", [{"x": 1}]), str(tmp_path / "b"), write(tmp_path / "c", [])]
    with tf.io.TFRecordWriter(paths[1]) as writer:
        writer.write(b"no")
    with pytest.raises(DataError) as error:
        scan(paths, workers=2, group_bytes=1)
    assert str(error.value) == f"{paths[1]}: record 0: {NO_RECORD}"


@pytest.mark.nightly
def test_too_many_features(tmp_path):
    rows = [{f"user {i}": 1 for i in range(j * 2001, (j + 1) * 2001)} for j in range(5)]
    with pytest.raises(DataError, match="more than 10,000 different features, the last one 'user "):
        scan([write(tmp_path / "x", rows)])
