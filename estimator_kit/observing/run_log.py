"""Logs a run to a `Tracker`, from the files that the run has written.

    tracker = make("mlflow", model_dir)          before the run: an unknown class is an error
    log_training(tracker, model_dir, ...)        at its end, however it ended
    log_promotion(tracker, version, path)        if a version of retraining went live

It reads what the report page reads, so a run costs nothing while it trains. An error of a tracker
is a warning. After an error in `metrics`, the run still gets its end.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from estimator_kit.checkpoints import run_record
from estimator_kit.config import choices
from estimator_kit.errors import ConfigError
from estimator_kit.observing.page import numbers
from estimator_kit.observing.tracking import MLflowTracker, Tracker
from feature_specs.errors import did_you_mean
from feature_specs.files import file_systems
from input_pipelines import eager

_log = logging.getLogger("estimator_kit")

_BUILT_IN = ("mlflow",)


def make(tracking: str, model_dir: str) -> Tracker:
    """The tracker of `--tracking`: `mlflow`, or a subclass of `Tracker` as package.module:Class.

    Raises:
      ConfigError: the class does not exist.
      MissingPackageError: its package is not installed.
    """
    kind: type[Tracker]
    if tracking == "mlflow":
        kind = MLflowTracker
    elif ":" not in tracking:
        raise ConfigError(
            f"--tracking: unknown service {tracking!r}{did_you_mean(tracking, _BUILT_IN)} "
            "Write your own class as package.module:ClassName."
        )
    else:
        with eager.kept():
            kind = choices.find(
                "tracker",
                tracking,
                Tracker,  # type: ignore[type-abstract]
                base_name="estimator_kit.Tracker",
                example="my_services.tracking:MyTracker",
            )
    path = file_systems.absolute(model_dir)
    return kind(os.path.basename(path), path)


def log_training(
    tracker: Tracker,
    model_dir: str,
    *,
    status: str,
    files: Sequence[str] = (),
    model: Optional[str] = None,
    parameters: Optional[Mapping[str, str]] = None,
    at_end: Optional[Mapping[str, Any]] = None,
) -> bool:
    """Logs a training, or the training of a cycle of retraining; returns whether it could begin.

    Args:
      tracker: gets everything.
      model_dir: the model directory of the training.
      status, files, model: see `Tracker.end`. Files that do not exist are left out.
      parameters: more parameters than the flags.
      at_end: metrics to add to the last step, such as the metrics of the gate.
    """
    began = False
    with _warning(tracker, "the run"):
        flags = numbers.flags_by_name(run_record.read_flags(model_dir))
        flag_values = {name: "; ".join(values) for name, values in flags.items()}
        tracker.start({**flag_values, **(parameters or {})})
        began = True
    if not began:
        return False
    with _warning(tracker, "the metrics of the run"):
        by_step = _metrics(model_dir)
        if at_end:
            by_step.setdefault(max(by_step, default=0), {}).update(_finite(at_end))
        tracker.metrics({step: by_step[step] for step in sorted(by_step)})
    with _warning(tracker, "the end of the run"):
        tracker.end(status, [path for path in files if os.path.exists(path)], model)
    return True


def log_promotion(tracker: Tracker, version: int, path: str) -> None:
    """Logs that a version of retraining is live."""
    with _warning(tracker, f"that version {version} is live"):
        tracker.promoted(version, path)


@contextlib.contextmanager
def _warning(tracker: Tracker, what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # The address of a service may have a user and a password.
        text = re.sub(r"//[^/\s]+@", "//", str(error))
        _log.warning(
            "%s could not log %s: %s: %s", type(tracker).__name__, what, type(error).__name__, text
        )


def _metrics(model_dir: str) -> dict[int, dict[str, float]]:
    by_step: dict[int, dict[str, float]] = {}
    for entry in numbers.read_training(model_dir):
        values = entry.model_dump(exclude={"step", "losses"})
        values.update({f"losses/{name}": value for name, value in entry.losses.items()})
        named = {f"training/{name}": value for name, value in values.items()}
        by_step.setdefault(entry.step, {}).update(_finite(named))
    for step, metrics in numbers.read_evaluations(model_dir):
        by_step.setdefault(step, {}).update(_finite(metrics))
    return by_step


def _finite(values: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, (int, float)) and math.isfinite(value)
    }
