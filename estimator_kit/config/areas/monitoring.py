"""What `monitor` reads: request logs, and labels that come later.

The gate of `retrain` reads the same request logs. Imports no TensorFlow.
"""

from __future__ import annotations

import datetime
import re
from typing import ClassVar, Optional

from estimator_kit.config.areas.base import InStore, Settings, setting
from estimator_kit.config.areas.program import Program


class Monitoring(Settings):
    """What `monitor` reads: request logs, and labels that come later."""

    heading: ClassVar[str] = "Monitoring"

    request_logs: tuple[str, ...] = setting(
        (),
        "Request logs of the server: TFRecord files of tensorflow.serving.PredictionLog, as "
        "TensorFlow Serving writes them. Patterns of files, or folders, of which all files with "
        "tfrecord in their name are read. Separate them by commas. retrain reads them if the gate "
        "compares answers to logged requests.",
        changes="limits",
        in_store=InStore.FILES,
    )
    label_files: tuple[str, ...] = setting(
        (),
        "TFRecord files of tf.train.Examples with labels that came later, each with the key of "
        "the section monitoring of the spec. Patterns, with commas between them.",
        changes="nothing",
        in_store=InStore.FILES,
    )
    request_time: Optional[str] = setting(
        None,
        "A feature of requests with the time in seconds since 1970, for logs without a "
        "timestamp. Without both, the time in the name of a log file counts, such as "
        "requests-20260105T133000Z-1-0.tfrecord.",
        changes="limits",
    )
    request_model: Optional[str] = setting(
        None,
        "The name of the model at the server, if the logs have requests to several models.",
        changes="limits",
    )
    monitor_until: Optional[str] = setting(
        None,
        "The time in UTC, such as 2026-01-31T13:30Z, at which periods are over and labels are due; "
        "by default now.",
        changes="nothing",
    )
    rollback: bool = setting(
        False,
        "If the live version breaks a condition of the spec that says roll_back, make the version "
        "before it live again. Without the flag, the command only ends with status 76.",
        changes="nothing",
    )


def problems(monitoring: Monitoring, program: Program) -> list[str]:
    """What is wrong with the settings of monitoring."""
    if program.mode != "monitor":
        return []
    lines = []
    if monitoring.monitor_until is not None:
        try:
            seconds_of_time(monitoring.monitor_until)
        except ValueError as error:
            lines.append(f"--monitor_until: {error}.")
    return lines


def seconds_of_time(text: str) -> int:
    """The seconds since 1970 of a time in UTC, such as 2026-01-05 or 2026-01-05T13:30Z.

    Raises:
      ValueError: the text is not a time, or is of another zone than UTC.
    """
    expected = f"expected a time in UTC such as 2026-01-31 or 2026-01-31T13:30Z, got {text!r}"
    # From Python 3.11 on, fromisoformat reads other forms, too, such as 20260131 and 2026-W05-6.
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d(?:[T ]\d\d(?::\d\d){0,2})?)Z?", text)
    if match is None:
        raise ValueError(expected)
    try:
        at = datetime.datetime.fromisoformat(match[1])
    except ValueError as error:
        raise ValueError(expected) from error
    return int(at.replace(tzinfo=datetime.timezone.utc).timestamp())
