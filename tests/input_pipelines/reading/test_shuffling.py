"""Every epoch has all rows in another order, mixed well, and exactly the same after a restart."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines.reading import shuffling


def blocks(rows: int, size: int = 100) -> tf.data.Dataset:
    numbers = tf.data.Dataset.range(rows).map(tf.strings.as_string)
    return numbers.batch(size)


def epoch(rows: int, *, seed: int = 1, number: int = 0, size: int = 100) -> list[int]:
    windows = shuffling.shuffled_epoch(blocks(rows, size), seed, tf.constant(number, tf.int64))
    return [int(row) for window in windows.as_numpy_iterator() for row in window]


def test_an_epoch_holds_every_row_once():
    assert sorted(epoch(1234)) == list(range(1234))


def test_the_order_depends_on_seed_and_epoch_alone():
    assert epoch(500) == epoch(500)
    orders = [epoch(500, seed=s, number=n) for s in (1, 2) for n in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4


def test_rows_are_mixed_at_least_as_well_as_by_a_row_buffer_of_10000():
    rows = 100_000
    peer = tf.data.Dataset.range(rows).shuffle(10_000, seed=1)
    ours = np.array(epoch(rows, size=1024))
    theirs = np.concatenate(list(peer.batch(1000).as_numpy_iterator()))
    for quality in (_mean_move, _label_run):
        assert quality(ours) >= quality(theirs), quality.__name__


def _mean_move(order: np.ndarray) -> float:
    """How far a row moves, on average."""
    return float(np.abs(order - np.arange(len(order))).mean())


def _label_run(order: np.ndarray) -> float:
    """Minus the correlation of neighbors in a label that was sorted on disk."""
    label = (order >= len(order) / 2).astype(float)
    return -float(np.corrcoef(label[:-1], label[1:])[0, 1])


def stream(skip: int, *, rows: int = 250, count: int | None = 3) -> list[int]:
    def one_epoch(number):
        return shuffling.shuffled_epoch(blocks(rows), 7, number)

    windows = shuffling.epochs(one_epoch, shuffling.Span(skip, count, [rows]))
    return [int(row) for window in windows.as_numpy_iterator() for row in window]


@pytest.mark.parametrize("skip", [0, 1, 99, 250, 251, 500, 749])
def test_a_restart_goes_on_where_the_first_start_was(skip):
    assert stream(skip) == stream(0)[skip:]


def test_epochs_without_end_go_on():
    windows = shuffling.epochs(lambda number: blocks(10), shuffling.Span())
    assert len(list(windows.take(7))) == 7
