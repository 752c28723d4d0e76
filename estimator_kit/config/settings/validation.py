"""What --mode=validate compares rows with."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.settings.base import Count, Settings, setting


class ValidationSettings(Settings):
    """What --mode=validate compares rows with."""

    heading: ClassVar[str] = "Validation with data"

    validate_rows: Count = setting(
        0,
        "Also compare this many rows of --train_files with the spec. 0 reads no data and needs "
        "no TensorFlow.",
        changes="nothing",
    )
    baseline_files: tuple[str, ...] = setting(
        (),
        "Earlier files to compare --train_files with: TFRecord, Parquet, CSV or JSON lines, by "
        "their names. The report shows how far --train_files drifted from them, and compares "
        "the drift with the section drift of the spec.",
        changes="nothing",
    )
    baseline_statistics: Optional[str] = setting(
        None,
        "As --baseline_files, but with the statistics.json of an earlier --mode=analyze "
        "instead of records.",
        changes="nothing",
    )

    @property
    def has_baseline(self) -> bool:
        return bool(self.baseline_files or self.baseline_statistics)
