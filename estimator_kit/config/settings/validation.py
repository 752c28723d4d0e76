"""What rows are compared with."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.settings.base import Count, Settings, setting


class ValidationSettings(Settings):
    """What rows are compared with."""

    heading: ClassVar[str] = "Validation with data"

    validate_rows: Count = setting(
        0,
        "With --mode=validate: hold this many rows of --train_files against the spec, too. 0 "
        "looks at no data, and needs no TensorFlow.",
    )
    baseline_files: tuple[str, ...] = setting(
        (),
        "With --mode=validate: files of before (TFRecord, Parquet, CSV or JSON lines, by their "
        "names, as --train_files may then be); how far --train_files moved from them is "
        "measured, and held against the section drift of the spec.",
    )
    baseline_statistics: Optional[str] = setting(
        None,
        "With --mode=validate: the same, from the statistics.json of an earlier --mode=analyze "
        "in the place of its records.",
    )

    @property
    def has_baseline(self) -> bool:
        return bool(self.baseline_files or self.baseline_statistics)
