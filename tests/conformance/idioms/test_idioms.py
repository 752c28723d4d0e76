"""Idioms of Estimator code: each cell gives the numbers of plain `tf.estimator`, or is refused.

The cells come from TensorFlow's own surface (`surface`). `expected` lists the cells that the kit
refuses by name, the cells that fail today, and the cells that fail in `tf.estimator`, too. The list
is strict: a cell that starts to work makes its test fail, until it is off the list.
"""

from __future__ import annotations

import itertools
import warnings

import pytest

from tests.conformance.idioms import cells, expected, page, run

ALL = cells.all_cells()


def some_of_each_family(count: int) -> set[str]:
    """Cells of each family, evenly spaced in the order of the names."""
    chosen: set[str] = set()
    for _, members in itertools.groupby(ALL, lambda name: ALL[name].family):
        names = list(members)
        chosen |= {names[i * len(names) // count] for i in range(count)}
    return chosen


IN_CI = some_of_each_family(3)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.ci if n in IN_CI else pytest.mark.nightly) for n in ALL],
)
def test_an_idiom_works_as_in_tf_estimator_or_is_refused_by_name(name, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow warns of old names.
        outcome = run.run(ALL[name], str(tmp_path))
    assert expected.problem(name, outcome) is None


@pytest.mark.ci
def test_the_table_has_a_cell_for_each_line_and_accepts_no_error():
    assert len(ALL) >= 120
    assert expected.without_cells(ALL) == []
    accepted = [line for line in expected.LINES if line.accepted]
    assert {line.kind for line in accepted} <= expected.ACCEPTABLE
    not_equal = [name for name in ALL if expected.line_of(name) in accepted]
    assert len(not_equal) <= len(ALL) / 10


def test_the_page_of_the_documentation_has_the_tables():
    text = page.PAGE.read_text(encoding="utf-8")
    assert text == page.with_tables(text), "python -m tests.conformance.idioms --docs"
