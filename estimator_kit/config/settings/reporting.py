"""What is measured and drawn for people after a training."""

from __future__ import annotations

from typing import ClassVar, Literal

from estimator_kit.config.settings.base import Settings, setting


class ReportSettings(Settings):
    """What is measured and drawn for people after a training."""

    heading: ClassVar[str] = "The report page"

    report: Literal["on", "off"] = setting(
        "on",
        "Write --model_dir/report.html at the end of a training: one file with charts that opens "
        "without a network. It needs the extra 'report'; without it, a line says how to install "
        "it, and the training succeeds all the same.",
    )
    slices: tuple[str, ...] = setting(
        (),
        "Features whose values divide the evaluation into slices, such as country,device. The "
        "report shows the metric of each slice with its interval. Needs an exporter.",
    )
    importance: bool = setting(
        False,
        "Measure how much the metric of each objective loses when a feature is shuffled among the "
        "rows. Asks the export for up to 20,000 rows five times for each feature.",
    )
    compare: tuple[str, ...] = setting(
        (),
        "Two or more model directories. The page compares their metrics and learning curves, and "
        "lists the flags and the lines of the spec that differ. It is written to compare.html in "
        "the first directory.",
    )
