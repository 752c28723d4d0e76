"""Tells Prometheus and a tracking service how a run ended: `--prometheus_file`, `--tracking`.

    services = Services(config)       before the run: a missing package or class is an error
    services.training(status)         at its end
    services.cycle(cycle, report)     at the end of a cycle of retraining

Both services get what the run has written into its model directory. If they cannot take it, the
outcome of the run does not change.
"""

from __future__ import annotations

import logging
import os
import time

from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.watching import Watching
from estimator_kit.config.modes import InFolder, settings_of
from estimator_kit.observing import prometheus, run_log
from estimator_kit.observing.page import page
from estimator_kit.result import read_result
from estimator_kit.retraining.cycle_files import CycleFolder
from estimator_kit.retraining.cycle_report import Report
from estimator_kit.retraining.cycle_versions import Promoted
from estimator_kit.retraining.training_stage import Trained

_log = logging.getLogger("estimator_kit")


class Services:
    """The services of one run.

    Raises:
      ConfigError: the class of `--tracking` does not exist, or `--prometheus_file` has something
        else than metrics.
      MissingPackageError: a package is not installed.
    """

    def __init__(self, program: Program, run: InFolder, watching: Watching):
        self._model_dir = run.model_dir
        self._prometheus_file = None  # A rollback tells only the tracking service.
        if "prometheus_file" in settings_of(program.mode):
            self._prometheus_file = watching.prometheus_file
        if self._prometheus_file is not None:
            prometheus.check(self._prometheus_file)
        self._tracker = None
        if watching.tracking is not None:
            self._tracker = run_log.make(watching.tracking, run.model_dir)

    def training(self, status: str) -> None:
        """Tells that a training has ended: `done`, `stopped` or `failed`.

        If it failed before it wrote anything, only Prometheus is told, without metrics.
        """
        if self._prometheus_file is None and self._tracker is None:
            return
        result = read_result(self._model_dir)
        if result is not None and result.status != status:
            result = None
        if self._prometheus_file is not None:
            text = prometheus.text_of_run(
                result,
                model_dir=self._model_dir,
                ended=time.time(),
                failed=status != "done",
            )
            prometheus.write(self._prometheus_file, text)
        if self._tracker is not None and result is not None:
            run_log.log_training(
                self._tracker,
                self._model_dir,
                status=status,
                files=[os.path.join(self._model_dir, page.FILE)],
                model=result.export_path,
            )

    def cycle(self, cycle: CycleFolder, report: Report) -> None:
        """Tells the tracking service that a cycle has ended. The cycle tells Prometheus itself."""
        if self._tracker is None:
            return
        candidate = {f"gate/{name}": both.candidate for name, both in report.metrics.items()}
        promoted, trained = cycle.load(Promoted) or Promoted(version=None), cycle.load(Trained)
        began = run_log.log_training(
            self._tracker,
            cycle.train_dir,
            status=report.outcome,
            files=[cycle.at(page.FILE), cycle.at("report.md")],
            model=promoted.path or (trained.export_path if trained is not None else None),
            parameters={"cycle": cycle.name},
            at_end=candidate,
        )
        if promoted.version is None or promoted.path is None or promoted.label is not None:
            return
        if began:
            self.live(promoted.version, promoted.path)
        else:  # A service that is away would keep the cycle waiting once more.
            _log.warning("--tracking was not told that version %d is live", promoted.version)

    def live(self, version: int, path: str) -> None:
        """Tells the tracking service that a version is live."""
        if self._tracker is not None:
            run_log.log_promotion(self._tracker, version, path)
