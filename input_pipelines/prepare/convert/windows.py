"""Which rows of sorted histories become the steps of which record. Only NumPy, and no values.

    for part, windows in windows.parts(starts, options).items():

Row i of a history is an input, and row i + 1 is its target. A window is a run of inputs, and
becomes one record. A history with more steps than the limit is cut into several windows, from its
end, so that only the first window may be shorter. So each row except for the first one of a
history is a target exactly once.

`leave_one_out` is the usual protocol for sequential recommendation (Kang and McAuley, 2018:
"Self-attentive sequential recommendation"). The last row of a history is only in the test data,
and the row before it is the last target of the evaluation data. A record of these parts has the
latest inputs before that row. Only its last target counts: the head `next_item` evaluates the last
step of a record. As in that paper's code, a history with
fewer than 3 rows is only in the training data.
"""

from __future__ import annotations

import dataclasses
from typing import Optional

import numpy as np

from input_pipelines.prepare.convert.options import SequenceOptions

# The fewest rows of a history in evaluation and test data.
HELD_OUT = 3


@dataclasses.dataclass(frozen=True)
class Windows:
    """The records of one part.

    Attributes:
      history: int64 [records]: the number of its history.
      start: int64 [records]: the row of its first input.
      length: int64 [records]: the number of its inputs, and of its targets.
      last_only: whether only the last target of each record counts.
    """

    history: np.ndarray
    start: np.ndarray
    length: np.ndarray
    last_only: bool = False

    def __len__(self) -> int:
        return len(self.start)

    @property
    def targets(self) -> int:
        """How many targets count."""
        return len(self) if self.last_only else int(self.length.sum())

    def take(self, places: np.ndarray) -> Windows:
        """The records at these places."""
        return Windows(
            self.history[places], self.start[places], self.length[places], self.last_only
        )


def parts(starts: np.ndarray, options: SequenceOptions) -> dict[str, Windows]:
    """The records of each part.

    Args:
      starts: int64 [histories + 1], as in `Histories`.
      options: the limit of a sequence, and what its targets are.
    """
    sizes = np.diff(starts)
    if options.targets == "next":
        return {"data": cut(starts, sizes - 1, options.steps)}
    enough = sizes >= HELD_OUT
    held_out = {
        part: _last(cut(starts, np.where(enough, sizes - back, 0), options.steps))
        for part, back in (("eval", 2), ("test", 1))
    }
    train = cut(starts, np.where(enough, sizes - 3, sizes - 1), options.steps)
    return {"train": train, **held_out}


def cut(starts: np.ndarray, steps: np.ndarray, most: Optional[int]) -> Windows:
    """Cuts the first `steps[i]` inputs of each history i into windows with `most` inputs or fewer.

    Histories without a step have no window.
    """
    if most is None:
        most = max(int(steps.max(initial=0)), 1)
    counts = -(-steps // most)
    history = np.repeat(np.arange(len(steps)), counts)
    first = np.cumsum(counts) - counts
    left = counts[history] - 1 - (np.arange(len(history)) - first[history])  # Windows after it.
    stop = steps[history] - left * most
    start = np.maximum(stop - most, 0)
    return Windows(history, starts[:-1][history] + start, stop - start)


def _last(windows: Windows) -> Windows:
    """The last window of each history. Only its last target counts."""
    ends = np.flatnonzero(np.diff(windows.history, append=-1))
    return dataclasses.replace(windows.take(ends), last_only=True)
