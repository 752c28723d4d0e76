"""What a reference model reads from records: raw values, missing ones, samples of whole groups."""

from __future__ import annotations

import numpy as np
import pytest

import feature_specs
from estimator_kit.scoring.references import rows
from input_pipelines.record_files import writing

SPEC = {
    "features": {
        "price": {"dtype": "float32", "default": 0},
        "income": {"dtype": "float32", "default": -1},
        "shop": {"dtype": "int64", "default": -1},
        "city": {"dtype": "string", "default": ""},
        "tags": {"dtype": "string", "shape": "variable"},
        "clicked": {"dtype": "string"},
        "user": {"dtype": "string"},
        "key": {"dtype": "string", "default": ""},
    },
    "columns": {
        "price": {"numeric": "price"},
        "income": {"numeric": "income", "missing": 5},
        "shop": {"hash_bucket": "shop", "size": 10},
        "city": {"hash_bucket": "city", "size": 10},
        "tags": {"hash_bucket": "tags", "size": 10},
        "hour": {"time": "clicked", "part": "hour", "format": "%H:%M"},
    },
    "groups": {"wide": ["shop", "city", "tags", "hour"], "deep": ["price", "income"]},
    "raw": ["key"],
    "labels": {"y": {"dtype": "int64", "missing": "mask"}},
    "objectives": {"y": {"head": "binary", "group_by": "user", "metrics": ["gauc"]}},
}


def example(**values):
    row = {"clicked": "9:30", "user": "u", "y": 1, **values}
    return writing.example({k: v for k, v in row.items() if v is not None}).SerializeToString()


@pytest.fixture(scope="module")
def spec():
    return feature_specs.parse(SPEC)


def test_values_are_those_of_the_records_and_missing_ones_are_left_out(spec):
    records = [
        example(price=2.5, income=7.0, shop=3, city="a", tags=["x", "y"], y=1),
        example(clicked="noon", y=None),  # The rest is missing.
        example(price=0.0, income=-1.0, shop=-1, city="", tags=[], clicked="23:05", y=0),
    ]
    table = rows.read(spec, records, ["y"])
    assert set(table.features) == {"price", "income", "shop", "city", "tags", "hour"}

    def read(name):
        values = table.features[name]
        return values.flat.tolist(), values.lengths.tolist()

    assert read("price") == ([2.5, 0.0], [1, 0, 1])  # 0 is a price. Its absence is not.
    assert read("income") == ([7.0], [1, 0, 0])  # The column says that -1 is missing.
    assert read("shop") == ([3], [1, 0, 0])
    assert read("city")[1] == [1, 0, 0]
    assert read("tags")[1] == [2, 0, 0]
    assert read("hour") == ([9, 23], [1, 0, 1])
    assert {n for n, v in table.features.items() if v.names} == {"shop", "city", "tags"}
    target = table.targets["y"]
    assert target.labels.tolist() == [1, 0, 0] and target.weights.tolist() == [1, 0, 1]
    assert len(set(target.groups.tolist())) == 1


def test_equal_words_have_equal_values(spec):
    table = rows.read(spec, [example(city=city) for city in ("a", "b", "a")], ["y"])
    first, second, third = table.features["city"].flat
    assert first == third != second


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two files with 1,000 rows each, of 100 users."""
    folder = tmp_path_factory.mktemp("rows")
    paths = [f"{folder}/{i}.tfrecord" for i in range(2)]
    for i, path in enumerate(paths):
        users = [f"u{(1000 * i + n) % 100}" for n in range(1000)]
        made = [
            {"clicked": "9:30", "user": user, "y": 1, "price": float(1000 * i + n)}
            for n, user in enumerate(users)
        ]
        writing.write_examples(path, made)
    return paths


def prices(spec, sample):
    return rows.read(spec, sample.records, ["y"]).features["price"].flat


def test_all_rows_or_a_sample_that_is_the_same_each_time(spec, files):
    everything = rows.sampled(spec, files, most=2000)
    assert everything.of == 2000
    assert prices(spec, everything).tolist() == list(range(2000))
    one, other = (rows.sampled(spec, files, most=300) for _ in range(2))
    assert one.records == other.records and one.of == 2000 and len(one.records) == 300
    found = prices(spec, one)
    assert (np.diff(found) > 0).all()  # In the order of the files.
    assert 100 < (found < 1000).sum() < 200  # From both.


def test_a_sample_has_all_rows_of_a_group_or_none(spec, files):
    sample = rows.sampled(spec, files, most=300, group="user")
    users = prices(spec, sample).astype(int) % 100
    assert 100 <= len(users) <= 300
    assert set(np.bincount(users).tolist()) == {0, 20}


def test_only_the_first_rows_count(spec, files):
    sample = rows.sampled(spec, files, most=2000, first=1200)
    assert sample.of == 1200 and prices(spec, sample).tolist() == list(range(1200))


def test_the_filter_counts(files):
    document = {**SPEC, "filter": [{"feature": "price", "min": 1900}]}
    sample = rows.sampled(feature_specs.parse(document), files, most=2000)
    assert sample.of == 100


def test_a_group_that_is_larger_than_the_sample_is_the_sample():
    """All rows of a group have one key. Of several groups, those with small keys are kept."""
    records = [b"%d" % i for i in range(10)]
    assert rows._fewer(records, np.full(10, 0.3), 5)[0] == records
    keys = np.repeat([0.2, 0.1, 0.7], [2, 2, 6])
    assert rows._fewer(records, keys, 4)[0] == records[:4]
