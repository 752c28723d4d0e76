"""Spills of two workers that do the same task."""

from __future__ import annotations

import numpy as np
import pytest

from input_pipelines.prepare.convert import spills

pytestmark = pytest.mark.no_tensorflow


def add(spill, shard, key, content):
    """Adds one row."""
    frames = np.frombuffer(content, np.uint8)
    keys = np.array([key], np.uint64)
    spill.add(np.array([shard], np.int64), keys, frames, np.array([0, len(content)]))


def read(folder, shard):
    found = spills.shuffled(str(folder), ["rows"], shard)
    return [(frames.tobytes(), rows) for frames, rows in found]


def test_two_writers_of_one_spill_each_write_a_whole_one(tmp_path):
    with spills.SpillWriter(str(tmp_path), "rows", [0, 1]) as one:
        add(one, 0, 2, b"second")
        with spills.SpillWriter(str(tmp_path), "rows", [0, 1]) as two:
            for spill in (one, two):
                add(spill, 1, 5, b"other")
            add(two, 0, 2, b"second")
            for spill in (two, one):
                add(spill, 0, 1, b"first ")
        assert spills.is_whole(str(tmp_path), "rows", [0, 1])
        assert (read(tmp_path, 0), read(tmp_path, 1)) == ([(b"first second", 2)], [(b"other", 1)])
    assert (read(tmp_path, 0), read(tmp_path, 1)) == ([(b"first second", 2)], [(b"other", 1)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows", "rows.json"]
    assert not spills.is_whole(str(tmp_path), "rows", [0, 1, 2])
