"""The pages of a retraining: `cycles/NNNN/report.html` of a cycle, `history.html` of all cycles.

They are made from what cycles have written and can be made again. Nothing reads them.
"""

from __future__ import annotations

import datetime
from typing import Any, Optional

from estimator_kit.observing.page import page
from estimator_kit.result import read_result
from estimator_kit.retraining import report, serving_dir, state
from estimator_kit.retraining.promotion import Serving
from estimator_kit.retraining.state import CycleFolder


def write(model_dir: str, given: Optional[str] = None) -> str:
    """Writes the history, and the page of the newest cycle.

    Args:
      model_dir: the model directory of the retraining.
      given: the setting `serving_dir`.

    Returns:
      The path of the history.
    """
    cycles = state.cycles(model_dir)
    serving = Serving(serving_dir.chosen(given, model_dir), model_dir)
    if cycles:
        _write_cycle(cycles[-1], serving)
    return page.write_history(model_dir, [_with_drift(c) for c in cycles], _versions(serving))


def _write_cycle(cycle: CycleFolder, serving: Serving) -> None:
    has_trained = read_result(cycle.train_dir) is not None
    live = serving.live
    document = {**_with_drift(cycle), "live_now": live.number if live is not None else None}
    page.write_cycle(
        cycle.at(page.FILE),
        report.headline(document),
        document,
        train_dir=cycle.train_dir if has_trained else None,
    )


def _with_drift(cycle: CycleFolder) -> dict[str, Any]:
    document = report.of_cycle(cycle)
    return {**document, "drift": cycle.read("drift"), "reasons": report.reasons(document)}


def _versions(serving: Serving) -> list[dict[str, Any]]:
    """All versions that were ever live, the oldest first."""
    there = {version.number: version.entry() for version in serving.versions()}
    live = max(there, default=None)
    known = {**{entry["version"]: entry for entry in serving.past()}, **there}
    return [
        {
            "version": number,
            "cycle": entry.get("cycle"),
            "rollback_of": entry.get("rollback_of"),
            "parent": entry.get("parent"),
            "at": _time(entry.get("at")),
            "state": "live" if number == live else "kept" if number in there else "removed",
        }
        for number, entry in sorted(known.items())
    ]


def _time(seconds: Optional[float]) -> str:
    if seconds is None:
        return "unknown"
    at = datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)
    return at.strftime("%Y-%m-%d %H:%M UTC")
