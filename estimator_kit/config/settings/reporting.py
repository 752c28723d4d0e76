"""What is measured, drawn and told to other services after a training."""

from __future__ import annotations

from typing import ClassVar, Literal, Optional

from estimator_kit.config.settings.base import Settings, setting


class ReportSettings(Settings):
    """What is measured, drawn and told to other services after a training."""

    heading: ClassVar[str] = "The report page and monitoring"

    report: Literal["on", "off"] = setting(
        "on",
        "Write --model_dir/report.html at the end of a training: one file with charts that opens "
        "without a network. It needs the extra 'report'; without it, a line says how to install "
        "it, and the training succeeds all the same.",
        changes="nothing",
    )
    slices: tuple[str, ...] = setting(
        (),
        "Features whose values divide the evaluation into slices, such as country,device. The "
        "report shows the metric of each slice with its interval. Needs an exporter.",
        changes="nothing",
    )
    importance: bool = setting(
        False,
        "Measure how much the metric of each objective loses when a feature is shuffled among the "
        "rows. Asks the export for up to 20,000 rows five times for each feature.",
        changes="nothing",
    )
    compare: tuple[str, ...] = setting(
        (),
        "Two or more model directories. The page compares their metrics and learning curves, and "
        "lists the flags and the lines of the spec that differ. It is written to compare.html in "
        "the first directory.",
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
