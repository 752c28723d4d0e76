"""The mode, the lines of the log, and how much of this machine a run uses.

Imports no TensorFlow.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Optional

from pydantic import Field

from estimator_kit.config.areas.base import MOST_PROCESSES, Settings, Threads, setting
from feature_specs.entry import PositiveFloat

Mode = Literal[
    "train_and_evaluate", "train", "tune", "evaluate", "predict", "export", "validate", "analyze",
    "inspect", "transform", "convert", "schema", "check_data", "data_service", "serve", "retrain",
    "rollback", "promote", "monitor", "report",
]  # fmt: skip
TRAINING_MODES = ("train_and_evaluate", "train")
# They work on one retraining directory.
RETRAINING_MODES = ("retrain", "rollback", "promote", "monitor")


class Program(Settings):
    """The mode, the lines of the log, and how much of this machine a run uses."""

    heading: ClassVar[str] = "The program"

    mode: Mode = setting(
        "train_and_evaluate",
        "What to do; --help lists the modes. The mode may also be the first word after the "
        "program.",
        changes="nothing",
    )
    log_format: Literal["text", "json"] = setting(
        "text",
        "json: write each line as one JSON object with time, level and message, and the numbers of "
        "progress and evaluations under their names.",
        changes="nothing",
    )
    log_every_secs: PositiveFloat = setting(
        10.0,
        "Seconds between two lines of progress, if the output is not a terminal.",
        changes="nothing",
    )
    exit_code_style: Literal["kit", "kubernetes"] = setting(
        "kit",
        "kubernetes: exit with status 0 instead of 99 (nothing to do), which a Kubernetes Job "
        "would treat as a failure.",
        changes="nothing",
    )
    deterministic: bool = setting(
        False,
        "Two trainings with the same start give the same checkpoint, bit for bit, on the same "
        "machine, TensorFlow and number of threads. TensorFlow then adds in a fixed order, "
        "which is slower, and fails at an op that has no fixed order. Without this flag, the "
        "rows are the same and sums differ in their last bits.",
        changes="nothing",
    )
    processes: Optional[Annotated[int, Field(ge=1, le=MOST_PROCESSES, strict=True)]] = setting(
        None,
        "How many processes share the work: the files of --mode=convert and of --predict_dir, by "
        "default one for each core, or the trials of --mode=tune, by default one at a time. The "
        "output does not depend on it.",
        changes="nothing",
    )
    copies_dir: Optional[str] = setting(
        None,
        "The folder for local copies of what is in stores (s3://, gs://, abfs://, hdfs://). Files "
        "are fetched once, and folders that a run writes are put back. The default is "
        "~/.cache/estimator_kit/copies.",
        changes="nothing",
    )
    copies_gib: Optional[PositiveFloat] = setting(
        None,
        "The most GiB of these copies. The default is what is there and half of the free disk.",
        changes="nothing",
    )
    threads: Threads = setting(
        0,
        "Threads inside one op, and ops that run at the same time; 0 lets TensorFlow choose.",
        changes="nothing",
    )
