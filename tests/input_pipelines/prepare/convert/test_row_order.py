"""The hashes that decide a row's side and place, computed as other programs can do it."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import split
from input_pipelines.prepare.convert.options import ConvertOptions
from input_pipelines.prepare.tables.reader import Rows
from input_pipelines.prepare.tables.table_format import Part

pytestmark = pytest.mark.no_tensorflow

PART = Part("a.parquet", "Parquet", 0, ())


def test_the_side_of_a_key_by_hand():
    # sha256("ann") begins with 8f, so the hash is a little above 0x8e / 0x100 = 0.5547.
    first = hashlib.sha256(b"ann").digest()[0]
    assert first / 256 <= split.number_of(b"ann") < (first + 1) / 256
    for options, side in (
        (ConvertOptions(eval_fraction=first / 256), 0),
        (ConvertOptions(eval_fraction=(first + 1) / 256), 1),
        (ConvertOptions(test_fraction=1 - first / 256), 2),
        (ConvertOptions(test_fraction=1 - (first + 1) / 256), 0),
    ):
        assert split.of_keys(pa.array([b"ann"]), options).tolist() == [side]


def test_a_share_does_not_change_the_other_side():
    keys = pa.array(range(20_000))
    both, less, more = (
        split.of_keys(keys, ConvertOptions(eval_fraction=share, test_fraction=test))
        for share, test in ((0.2, 0.1), (0.1, 0.1), (0.2, 0.3))
    )
    assert ((both == 2) == (less == 2)).all() and ((both == 1) == (more == 1)).all()
    assert set(np.flatnonzero(less == 1)) < set(np.flatnonzero(both == 1))
    assert set(np.flatnonzero(both == 2)) < set(np.flatnonzero(more == 2))
    assert abs((more == 2).mean() - 0.3) < 0.01  # Three standard deviations.


def test_text_and_integers_of_the_same_digits_are_on_the_same_side():
    text = pa.record_batch({"k": pa.array([str(i).encode() for i in range(500)])})
    numbers = pa.record_batch({"k": pa.array(range(500))})
    options = ConvertOptions(split_key="k", eval_fraction=0.3)
    sides = [split.sides(Rows(batch, PART, 0), 0, options) for batch in (text, numbers)]
    assert sides[0].tolist() == sides[1].tolist()
    expected = [
        int.from_bytes(hashlib.sha256(str(i).encode()).digest()[:8], "big") / 2**64 < 0.3
        for i in range(500)
    ]
    assert sides[0].tolist() == expected
    assert 0.24 < sides[0].mean() < 0.36


def test_a_row_without_a_key():
    rows = Rows(pa.record_batch({"k": pa.array([b"a", None])}), PART, 10)
    with pytest.raises(DataError) as error:
        split.sides(rows, 0, ConvertOptions(split_key="k", eval_fraction=0.5))
    assert str(error.value) == (
        "a.parquet: row 12: column 'k' has no value, but --split needs one in every row to "
        "choose its side"
    )


def test_mix_is_the_finalizer_of_splitmix64():
    # The first three numbers of SplitMix64 from the state 0; the state grows by the golden ratio.
    golden = 0x9E3779B97F4A7C15
    states = np.array([0, golden, 2 * golden % 2**64], np.uint64)
    assert [hex(n) for n in split.mix(states).tolist()] == [
        "0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f",
    ]  # fmt: skip


def test_rows_are_dealt_evenly_and_the_same_in_pieces():
    whole = split.random_numbers(0, 10_000, seed=7)
    pieces = [split.random_numbers(i, 2500, seed=7) for i in range(0, 10_000, 2500)]
    assert np.concatenate(pieces).tolist() == whole.tolist()
    assert split.random_numbers(0, 10_000, seed=8).tolist() != whole.tolist()
    shards = split.shards_of(whole, 7)
    counts = np.bincount(shards, minlength=7)
    assert len(counts) == 7 and counts.min() > 1300 and counts.max() < 1560
    assert len(set(split.places(whole).tolist())) == 10_000
    assert split.random_numbers(0, 3, seed=-1).dtype == np.uint64
