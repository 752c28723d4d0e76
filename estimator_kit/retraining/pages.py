"""The pages of a retraining: `cycles/NNNN/report.html` of a training, `history.html` of all cycles.

They are made from what cycles have written and can be made again. Nothing reads them.
"""

from __future__ import annotations

from estimator_kit import result_file
from estimator_kit.observing.page import page
from estimator_kit.retraining import state


def write(model_dir: str) -> str:
    """Writes the history, and the page of the newest cycle where it has trained.

    Returns:
      The path of the history.
    """
    cycles = state.cycles(model_dir)
    if cycles and result_file.read_result(cycles[-1].train_dir) is not None:
        page.write(cycles[-1].train_dir, to=cycles[-1].at(page.FILE))
    reports = [cycle.read("report") for cycle in cycles]
    return page.write_history(model_dir, [report for report in reports if report is not None])
