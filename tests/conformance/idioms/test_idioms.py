"""Idioms of Estimator code: each cell gives the numbers of plain `tf.estimator`, or is refused.

The cells come from TensorFlow's own surface (`surface`). `expected` lists the cells that the kit
refuses by name, those that fail today, and those that do not run in `tf.estimator` either. The
lists are strict: a cell that starts to pass makes its test fail, until its line is removed.
"""

from __future__ import annotations

import itertools
import warnings

import pytest

from tests.conformance.idioms import cells, expected, run

ALL = cells.all_cells()
IN_EVERY_RUN_OF_A_FAMILY = 3


def in_ci() -> set[str]:
    """Cells of each family, evenly spaced in the order of the names, among those that pass."""
    chosen = set()
    passing = [name for name in ALL if expected.reason(name, expected.IMPOSSIBLE) is None]
    for _, members in itertools.groupby(passing, lambda name: ALL[name].family):
        names = list(members)
        step = max(1, len(names) // IN_EVERY_RUN_OF_A_FAMILY)
        chosen |= set(names[::step][:IN_EVERY_RUN_OF_A_FAMILY])
    return chosen


IN_CI = in_ci()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.ci if name in IN_CI else pytest.mark.nightly)
        for name in ALL
    ],
)
def test_an_idiom_works_as_in_tf_estimator_or_is_refused_by_name(name, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Old code warns of itself.
        outcome = run.run(ALL[name], str(tmp_path))
    assert expected.check(name, outcome) is None


@pytest.mark.ci
def test_every_line_of_the_lists_is_a_cell():
    assert len(ALL) >= 120 and len(IN_CI) >= 30
    assert expected.unknown(ALL) == []


@pytest.mark.ci
def test_at_most_a_tenth_is_refused():
    refused = [name for name in ALL if expected.reason(name, expected.REFUSED) is not None]
    assert len(refused) <= len(ALL) / 10
