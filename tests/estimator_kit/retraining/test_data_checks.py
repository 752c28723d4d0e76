"""Checks of the sizes of days, and of duplicate files."""

from __future__ import annotations

import pytest

import feature_specs
from estimator_kit.retraining import data_checks
from estimator_kit.retraining.data_checks import Finding
from estimator_kit.retraining.facts import FileFacts
from estimator_kit.retraining.window import PeriodData
from feature_specs.errors import SpecError
from tests.conftest import DOCUMENT
from tests.estimator_kit.retraining import reports


def spec_of(**period_rows):
    document = {**DOCUMENT, "retraining": {"period_rows": period_rows} if period_rows else {}}
    return feature_specs.parse(document)


def day(number, *files):
    """A day with files, each given as (content, rows)."""
    facts = tuple(
        FileFacts(path=f"dt={number}/{i}", bytes=1, sha256=content, rows=rows)
        for i, (content, rows) in enumerate(files)
    )
    return PeriodData(
        name=str(number), digest="", rows=sum(file.rows for file in facts), files=facts
    )


def sizes(*rows):
    return [day(i, (f"content {i}", count)) for i, count in enumerate(rows)]


@pytest.fixture
def found(monkeypatch):
    """Runs the checks on a window of some days. The last day is for evaluation."""
    monkeypatch.setattr(data_checks, "_against_spec", lambda *_: [])

    def run(spec, days, **options):
        window = reports.window(train=tuple(days[:-1]), evaluate=(days[-1],))
        return data_checks.run(spec, window, None, **options)

    return run


def test_a_day_with_ten_copies_of_one_file(found):
    days = [*sizes(100, 100, 120, 80), day(9, *[("same", 100)] * 10), day(10, ("z", 100))]
    assert found(spec_of(otherwise="stop"), days) == [
        Finding(
            check="period_rows", verdict="stop",
            text="9: 1,000 records, 10 times the median of 100 of the 6 periods of the window, "
            "above max_ratio: 5. Check whether some files are duplicates. If it is right, change "
            "period_rows in the section retraining of the spec.",
        ),
        Finding(
            check="equal_files", verdict="warn",
            text="dt=9/0, dt=9/1 and 8 more have the same content, so their rows count 10 times",
        ),
    ]  # fmt: skip


def test_without_a_word_in_the_spec_it_is_a_warning(found):
    (finding,) = found(spec_of(), sizes(100, 19, 101, 100))
    assert (finding.check, finding.verdict) == ("period_rows", "warn")
    assert finding.text.startswith(
        "1: 19 records, 0.19 times the median of 100 of the 4 periods of the window, below "
        "min_ratio: 0.2. Check whether files are missing. "
    )
    assert found(spec_of(), sizes(100, 20, 500, 100, 100)) == []
    assert [f.text[:3] for f in found(spec_of(max_ratio=4.9), sizes(100, 20, 500, 100, 100))] == [
        "2: "
    ]


def test_the_rows_that_the_filter_keeps_are_compared(found):
    days = [
        PeriodData(name=f"{i}", digest="", rows=rows, files=(), dropped=100 - rows)
        for i, rows in enumerate((50, 50, 9, 50))
    ]
    (finding,) = found(spec_of(), days)
    assert finding.text.startswith(
        "2: 9 of 100 records, 0.18 times the median of 50 of the 4 periods"
    )


def test_a_smaller_set_for_evaluation_is_another_thing(found):
    assert found(spec_of(), sizes(100, 100, 100, 5), other_files=True) == []
    assert len(found(spec_of(), sizes(100, 100, 100, 5))) == 1


def test_a_file_of_training_that_is_scored(found):
    days = [day(1, ("a", 9)), day(2, ("b", 9), ("empty", 0)), day(3, ("a", 9), ("empty", 0))]
    (finding,) = found(spec_of(), days, other_files=True)
    assert finding.text == "dt=1/0, dt=3/0 have the same content, so their rows count 2 times"


@pytest.mark.parametrize("bounds", [{"max_ratio": 1}, {"min_ratio": 1}, {"otherwise": "pass"}])
def test_bounds_that_cannot_be(bounds):
    with pytest.raises(SpecError, match=f"retraining.period_rows.{next(iter(bounds))}: "):
        spec_of(**bounds)
