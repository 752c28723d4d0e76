"""Which records are read, and in which batches."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.settings.base import PositiveInt, Settings, setting
from input_pipelines.reading import days


class DataSettings(Settings):
    """Which records are read, and in which batches."""

    heading: ClassVar[str] = "Records"

    train_files: tuple[str, ...] = setting(
        (),
        "TFRecord files to train on: paths or globs, separated by commas. With --mode=analyze "
        "they may be of another kind, see there.",
    )
    train_days: Optional[str] = setting(
        None,
        "Days to train on: 2026-01-01..2026-01-07, 7d..2026-01-07 (the seven that end with it) "
        "or 2026-01-07. Each takes the place of dt=* in --train_files (data/dt=*/*.tfrecord). A "
        "day without a file is an error.",
    )
    train_mix: tuple[str, ...] = setting(
        (),
        "In the place of --train_files: several patterns and the share of each, as in "
        "a/*.tfrecord=3,b/*.tfrecord=1: of four rows three are of a, in every batch, however "
        "many rows there are of either. A part that ends begins again; an epoch is as many rows "
        "as all parts have together.",
    )
    eval_files: tuple[str, ...] = setting(
        (),
        "TFRecord files to evaluate on, all of them at each evaluation.",
    )
    eval_days: Optional[str] = setting(
        None,
        "The same for --eval_files, as in --eval_days=2026-01-08.",
    )
    predict_files: tuple[str, ...] = setting(
        (),
        "TFRecord files to predict; labels need not be in them. With --predict_dir they may be "
        "of another kind, see there.",
    )
    batch_size: PositiveInt = setting(
        512,
        "Rows a training step.",
    )
    shuffle: bool = setting(
        True,
        "Shuffle the training rows.",
    )
    keep_negatives: Optional[str] = setting(
        None,
        "Train on this share of the rows whose label is 0, as 0.1, or click=0.1 where several "
        "objectives are binary; another part of them in each epoch, the same at each reading. "
        "Those kept weigh 1 / share, in the losses of all objectives, so predictions stay "
        "calibrated. Evaluation reads all rows.",
    )

    def days_of(self, which: str) -> tuple[str, ...]:
        """The days of `train_days` or `eval_days`, first to last; none where it is not given."""
        text = getattr(self, f"{which}_days")
        return days.parse(text) if text is not None else ()

    def patterns_of(self, which: str) -> tuple[str, ...]:
        """The patterns of `train_files` or `eval_files`, one for each day where days are given."""
        window, patterns = self.days_of(which), getattr(self, f"{which}_files")
        if not window:
            return patterns
        return tuple(of_day for p in patterns for of_day in days.of_days(p, window))
