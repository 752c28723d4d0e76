"""Which rows become the steps of which record, against a reference in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from input_pipelines.prepare.convert import histories_and_windows
from input_pipelines.prepare.convert.options import SequenceOptions

pytestmark = pytest.mark.no_tensorflow


def parts(sizes, steps, targets):
    """{part: [(history, inputs, targets that count)]}, with the numbers of rows."""
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    options = SequenceOptions("u", "t", ("i",), steps, targets)
    found = {}
    for part, some in histories_and_windows.parts(starts, options).items():
        found[part] = []
        for history, start, length in zip(some.history, some.start, some.length):
            rows = [int(row) - int(starts[history]) for row in range(start, start + length)]
            counted = [row + 1 for row in rows]
            found[part].append((int(history), rows, counted[-1:] if some.last_only else counted))
        assert some.targets == sum(len(counted) for _, _, counted in found[part])
    return found


def test_next_cuts_from_the_end():
    assert parts([1, 2, 6], 2, "next") == {
        "data": [(1, [0], [1]), (2, [0], [1]), (2, [1, 2], [2, 3]), (2, [3, 4], [4, 5])]
    }
    assert parts([3, 1], None, "next") == {"data": [(0, [0, 1], [1, 2])]}
    assert parts([1, 1], None, "next") == {"data": []}


def test_leave_one_out_holds_out_the_last_two():
    assert parts([1, 2, 3, 6], 2, "leave_one_out") == {
        "train": [(1, [0], [1]), (3, [0], [1]), (3, [1, 2], [2, 3])],
        "eval": [(2, [0], [1]), (3, [2, 3], [4])],
        "test": [(2, [0, 1], [2]), (3, [3, 4], [5])],
    }


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=6),
    st.one_of(st.none(), st.integers(1, 5)),
    st.sampled_from(["next", "leave_one_out"]),
)
def test_each_row_but_the_first_is_a_target_once(sizes, steps, targets):
    found = parts(sizes, steps, targets)
    seen = [(history, row) for part in found.values() for history, _, rows in part for row in rows]
    assert sorted(seen) == [(i, row) for i, size in enumerate(sizes) for row in range(1, size)]
    for part, records in found.items():
        for history, rows, counted in records:
            assert rows == list(range(rows[0], rows[-1] + 1)) and counted[-1] == rows[-1] + 1
            assert steps is None or len(rows) <= steps
            if part == "eval":
                assert counted == [sizes[history] - 2]
            if part == "test":
                assert counted == [sizes[history] - 1]
            if part in ("eval", "test"):  # The latest inputs, as many as the limit allows.
                assert len(rows) == min(counted[0], steps or counted[0])
