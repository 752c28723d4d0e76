"""The pages of a retraining: `cycles/NNNN/report.html` of a cycle, `history.html` of all cycles.

They are made from what cycles have written and can be made again. Nothing reads them.
"""

from __future__ import annotations

import os
from typing import Optional

from estimator_kit.observing.page import page
from estimator_kit.result import read_result
from estimator_kit.retraining import report, serving_dir, state
from estimator_kit.retraining.checks import Drift
from estimator_kit.retraining.promotion import Recorded, Serving
from estimator_kit.retraining.state import CycleFolder


def write(model_dir: str, given: Optional[str] = None) -> str:
    """Writes the history, and the page of the newest cycle.

    Args:
      model_dir: the model directory of the retraining.
      given: the setting `serving_dir`.

    Returns:
      The path of the history.
    """
    page.check_installed()
    from estimator_kit.retraining import history_page

    cycles = state.cycles(model_dir)
    serving = Serving(serving_dir.chosen(given, model_dir), model_dir)
    if cycles:
        _write_cycle(cycles[-1], serving)
    path = os.path.join(model_dir, page.HISTORY)
    reports, versions = [report.of_cycle(cycle) for cycle in cycles], _versions(serving)
    page.write_sections(
        path,
        os.path.basename(os.path.abspath(model_dir)),
        history_page.headline(reports, versions),
        history_page.sections(reports, [cycle.load(Drift) for cycle in cycles], versions),
    )
    return path


def _write_cycle(cycle: CycleFolder, serving: Serving) -> None:
    from estimator_kit.retraining import cycle_page

    has_trained = read_result(cycle.train_dir) is not None
    live = serving.live
    now = {"live_now": live.number if live is not None else None}
    found = report.of_cycle(cycle).model_copy(update=now)
    page.write_sections(
        cycle.at(page.FILE),
        f"Cycle {found.cycle}",
        found.headline,
        cycle_page.sections(found, cycle.load(Drift)),
        model_dir=cycle.train_dir if has_trained else None,
    )


def _versions(serving: Serving) -> list[tuple[Recorded, str]]:
    """See `history_page.Versions`."""
    there = {version.number: version.entry for version in serving.versions()}
    live = max(there, default=None)
    known = {**{entry.version: entry for entry in serving.past()}, **there}
    return [
        (entry, "live" if number == live else "kept" if number in there else "removed")
        for number, entry in sorted(known.items())
    ]
