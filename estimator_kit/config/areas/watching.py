"""What is measured, drawn and told to other services in a training and after it.

Imports no TensorFlow.
"""

from __future__ import annotations

import re
from typing import ClassVar, Literal, Optional

from estimator_kit.config.areas.base import PositiveInt, Settings, setting
from estimator_kit.config.areas.training import Training

# A trace of more steps is too large to look at.
_MOST = 1000

# The steps of `auto`: the first ten fill buffers and caches.
AUTO = range(11, 111)


def steps_of(text: str) -> range:
    """The steps of a range, first to last, both included.

    Raises:
      ValueError: the text is not a range of steps; the message says what was expected.
    """
    if text == "auto":
        return AUTO
    match = re.fullmatch(r"\s*(\d{1,18})\.\.(\d{1,18})\s*", text)
    if match is None:
        raise ValueError(
            f"expected a first and a last step, such as 100..200, or auto, got {text!r}"
        )
    first, last = int(match[1]), int(match[2])
    if not 1 <= first <= last:
        raise ValueError(
            f"expected a first step of at least 1 and a last step that is not before it, got "
            f"{text!r}"
        )
    if last - first + 1 > _MOST:
        raise ValueError(f"expected at most {_MOST:,} steps, got {last - first + 1:,} ({text!r})")
    return range(first, last + 1)


class Watching(Settings):
    """What is measured, drawn and told to other services in a training and after it."""

    heading: ClassVar[str] = "The report page and monitoring"

    summary_steps: PositiveInt = setting(
        100,
        "Steps between two summaries of the training for TensorBoard.",
        changes="nothing",
    )
    histograms: bool = setting(
        False,
        "Write the distribution of the values of each trainable variable for TensorBoard at each "
        "summary. Reads whole tables.",
        changes="nothing",
    )
    profile: Optional[str] = setting(
        None,
        "Profile these steps of this start, such as 100..200, or auto for a hundred of the first "
        "steps. Report the ten most expensive ops, how the time of a step divides into input, host "
        "and devices, which stage of the input is slowest, and what to change. The trace stays "
        "below --model_dir/plugins/profile; TensorBoard shows it with the extra 'profile'.",
        changes="nothing",
    )
    report: Literal["on", "off"] = setting(
        "on",
        "Write --model_dir/report.html at the end of a training: one file with charts that opens "
        "without a network. It needs the extra 'report'; without it, a line says how to install "
        "it, and the training succeeds all the same.",
        changes="nothing",
    )
    prometheus_file: Optional[str] = setting(
        None,
        "A file for the textfile collector of Prometheus, such as "
        "/var/lib/node_exporter/ads.prom. Each training and each cycle of retraining updates it at "
        "its end. Needs the extra 'prometheus'.",
        changes="nothing",
    )
    tracking: Optional[str] = setting(
        None,
        "mlflow, or your own estimator_kit.Tracker as package.module:ClassName. At the end of a "
        "training or a cycle, it gets the flags, the metrics by step, the report page and the path "
        "of the SavedModel; after a promotion or rollback also the live version. mlflow needs the "
        "extra 'mlflow' and reads MLFLOW_TRACKING_URI.",
        changes="nothing",
    )


def problems(watching: Watching, training: Training) -> list[str]:
    """What is wrong with `--profile`."""
    lines = []
    if watching.profile is not None:
        try:
            steps = steps_of(watching.profile)
        except ValueError as error:
            lines.append(f"--profile: {error}.")
        else:
            too_late = training.max_steps is not None and steps[0] > training.max_steps
            if too_late and steps != AUTO:
                lines.append(
                    f"--profile: expected a first step of at most --max_steps={training.max_steps}"
                    f", got {watching.profile!r}. Choose earlier steps, or raise --max_steps."
                )
    return lines
