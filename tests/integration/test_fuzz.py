"""No input ends the program with status 70, a traceback, a signal or a hang.

`tests.integration.fuzz` draws random flags, specs, records, tables, TF_CONFIGs and files of earlier
runs. The seed comes from the clock, and is printed. FUZZ_SEED sets another seed. FUZZ_CASE selects
cases: 17, or 0-99 if a case fails only after other cases in its process.
"""

from __future__ import annotations

import os
import pathlib
import sys
import time
from collections import defaultdict
from typing import Any

import pytest

from tests.integration.fuzz import batches, cases, start

# The number of cases of a test, and of tests.
_CASES, _TESTS = 500, 10

# How many problems a failure reports in full.
_TOLD = 5


@pytest.fixture(scope="module")
def base(once):
    return once("fuzz", start.make)


def _numbers(default: range) -> range:
    """The cases that FUZZ_CASE selects, by default the given ones."""
    first, _, last = os.environ.get("FUZZ_CASE", "").partition("-")
    return range(int(first), int(last or first) + 1) if first else default


def _run(seed: str, default: range, base: pathlib.Path, work: pathlib.Path) -> None:
    seed = os.environ.get("FUZZ_SEED", seed)
    numbers = _numbers(default)
    reports, begun = [], time.monotonic()
    for report in batches.run(seed, numbers, base, work):
        reports.append(report)
    seconds = time.monotonic() - begun
    which = f"seed {seed}, cases {numbers[0]} to {numbers[-1]}, {seconds:.0f} s"
    text = f"{which}\n{batches.table(reports)}"
    print(f"\n{text}", file=sys.__stderr__, flush=True)
    assert [report["ended"] for report in reports] == list(numbers)
    wrong = [report for report in reports if report["problem"] is not None]
    told = "\n\n".join(batches.sentence(report, seed) for report in wrong[:_TOLD])
    assert not wrong, f"{len(wrong)} of {len(reports)} cases went wrong\n{told}\n\n{text}"
    if numbers == default:
        _check_reach(reports, text)


def _check_reach(reports: list[dict[str, Any]], text: str) -> None:
    """Checks that cases of each kind end with 0 and with another status.

    Otherwise all cases fail at the first check, or the changes have no effect.
    """
    statuses = defaultdict(set)
    for report in reports:
        statuses[report["kind"]].add(report["status"])
    assert set(statuses) == set(cases.KINDS)
    for kind, found in statuses.items():
        assert 0 in found and len(found) > 1, f"{kind} ends only with {sorted(found)}\n{text}"


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(_TESTS))
def test_5000_cases(base, tmp_path, part):
    numbers = range(part * _CASES, (part + 1) * _CASES)
    _run(f"{time.time_ns()}", numbers, base, tmp_path / "work")
