"""RowSample: the same rows for any split of the files; bounded; values of one row stay together."""

from __future__ import annotations

import json

import numpy as np
import pytest

from input_pipelines.prepare.analyze.feature_block import FeatureBlock
from input_pipelines.prepare.analyze.row_sample import RowSample, text_hash

pytestmark = pytest.mark.no_tensorflow


def blocks(start, count):
    number = np.arange(start, start + count)
    every = np.ones(count, np.int64)
    third = np.flatnonzero(number % 3 == 0)
    words = [b"even" if n % 2 == 0 else b"odd" for n in number.tolist()]
    return {
        "n": [FeatureBlock("int64", np.arange(count), every, number)],
        "word": [FeatureBlock("string", np.arange(count), every, words)],
        "third": [FeatureBlock("float32", third, every[third], number[third].astype(np.float32))],
        "list": [FeatureBlock("int64", np.arange(count), 2 * every, np.repeat(number, 2))],
    }


def sampled(parts, **limits):
    """A sample of 900 rows that was made in parts: (rows of a block, blocks) for each merge."""
    whole = RowSample(**limits)
    start = 0
    for sizes in parts:
        part = RowSample(**limits)
        for size in sizes:
            part.add(blocks(start, size), np.arange(size), "/data/a.csv", start)
            start += size
        whole.merge(part)
    assert start == 900
    return whole.columns()


def test_all_rows_of_small_data():
    columns = sampled([[900]])
    assert sorted(columns) == ["n", "third", "word"]
    assert columns["n"].values.tolist() == list(range(900))
    assert columns["third"].present.tolist() == [n % 3 == 0 for n in range(900)]
    assert columns["word"].values[:2].tolist() == [text_hash(b"even"), text_hash(b"odd")]
    codes = columns["word"].codes
    assert (codes[::2] == codes[0]).all() and (codes[1::2] == 1 - codes[0]).all()
    assert np.isnan(columns["third"].numbers[1]) and columns["third"].codes[:4].tolist() == [
        0, -1, -1, 1,
    ]  # fmt: skip


@pytest.mark.parametrize("parts", [[[900]], [[300, 300], [300]], [[100] * 9], [[100]] * 9])
def test_the_same_rows_however_they_are_split(parts):
    columns = sampled(parts, rows=100)
    expected = sampled([[450], [450]], rows=100)
    kept = columns["n"].values
    assert len(kept) == 100 and kept.tolist() == expected["n"].values.tolist()
    assert kept.min() < 100 and kept.max() > 800  # Of all parts of the file.
    even = columns["word"].values == np.uint64(text_hash(b"even"))
    assert even.tolist() == (kept % 2 == 0).tolist()
    assert columns["third"].present.tolist() == (kept % 3 == 0).tolist()


def test_values_bound_the_rows():
    assert len(sampled([[300], [600]], values=90)["n"].values) == 30  # Three features.


def test_a_file_in_another_folder_has_the_same_rows():
    samples = []
    for path in ("/data/a.csv", "other/a.parquet"):
        sample = RowSample(rows=10)
        sample.add(blocks(0, 900), np.arange(900), path, 0)
        samples.append(sample.columns()["n"].values.tolist())
    assert samples[0] == samples[1]


def test_a_sample_survives_json():
    sample = RowSample(rows=50)
    sample.add(blocks(0, 900), np.arange(900), "a.csv", 0)
    copy = RowSample.__new__(RowSample)
    copy.__setstate__(json.loads(json.dumps(sample.__getstate__())))
    for name, column in sample.columns().items():
        assert copy.columns()[name].values.tolist() == column.values.tolist()
        assert copy.columns()[name].present.tolist() == column.present.tolist()
