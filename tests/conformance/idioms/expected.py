"""What is known of cells that are not equal to plain `tf.estimator`. Everything else must be equal.

Each entry is a reason and the patterns (`fnmatch`) of the ids of cells. `FAILS` is the list of
errors that are still to be mended, as of `DATE`: whoever mends one removes its line.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping
from typing import Optional

from tests.conformance.idioms.run import EQUAL, Outcome
from tests.conformance.idioms.run import IMPOSSIBLE as _IMPOSSIBLE
from tests.conformance.idioms.run import REFUSED as _REFUSED

DATE = "2026-11-26"

Reasons = Mapping[str, Collection[str]]

# Refused before a file is written, for a technical reason.
REFUSED: Reasons = {}

# Fails today.
FAILS: Reasons = {}

# Not possible in plain tf.estimator either.
IMPOSSIBLE: Reasons = {}


def reason(name: str, reasons: Reasons) -> Optional[str]:
    """The reason why a cell is on a list, or None."""
    for text, patterns in reasons.items():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            return text
    return None


def check(name: str, outcome: Outcome) -> Optional[str]:
    """What is wrong with the outcome of a cell, or None if it is as expected."""
    what = f"{name}: {outcome.kind}. {outcome.text}"
    if reason(name, IMPOSSIBLE) is not None:
        fails = outcome.kind == _IMPOSSIBLE
        return None if fails else f"now runs; remove it from IMPOSSIBLE. {what}"
    if reason(name, REFUSED) is not None:
        return None if outcome.kind == _REFUSED else f"is not refused. {what}"
    if reason(name, FAILS) is not None:
        works = outcome.kind == EQUAL
        return f"now works; remove it from FAILS. {what}" if works else None
    return None if outcome.kind == EQUAL else what


def unknown(names: Collection[str]) -> list[str]:
    """Patterns of the lists that fit no cell."""
    lists = [*REFUSED.values(), *FAILS.values(), *IMPOSSIBLE.values()]
    patterns = [pattern for patterns in lists for pattern in patterns]
    return [p for p in patterns if not any(fnmatch.fnmatchcase(name, p) for name in names)]


def markdown(names: Collection[str], families: Mapping[str, str]) -> str:
    """The table of the documentation: a row for each family.

    Args:
      names: the ids of all cells.
      families: the family of each cell.
    """
    lines = ["| family | cells | equal | refused | fail today | fail in tf.estimator, too |",
             "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for family in dict.fromkeys(families[name] for name in names):
        members = [name for name in names if families[name] == family]
        counts = [sum(reason(n, kind) is not None for n in members)
                  for kind in (REFUSED, FAILS, IMPOSSIBLE)]  # fmt: skip
        row = [family, len(members), len(members) - sum(counts), *counts]
        lines.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join(lines) + "\n"
