"""What predicts, and where predictions go."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.settings.base import PositiveInt, Settings, setting


class PredictionSettings(Settings):
    """What predicts, and where predictions go."""

    heading: ClassVar[str] = "Prediction"

    export_dir: Optional[str] = setting(
        None,
        "With --mode=predict and --mode=evaluate: the export (a SavedModel) to use instead of the "
        "latest checkpoint, or a folder of versions, of which the newest is used. You do not need "
        "--spec if the export keeps its feature spec. With --mode=transform: the export to "
        "transform.",
    )
    predict_output: Optional[str] = setting(
        None,
        "Where predictions go: a .jsonl file (one JSON object a row) or a .tfrecord file (one "
        "Example a row), in the order of the input. Standard output, as JSON, when not given.",
    )
    predict_limit: Optional[PositiveInt] = setting(
        None,
        "Predict this many rows, then end.",
    )
    predict_outputs: tuple[str, ...] = setting(
        (),
        "With --mode=predict: the outputs to write, in this order, as "
        "click/class_ids,click/classes. All of them when not given, which for 10,000 classes is "
        "20,000 numbers a row.",
    )
    predict_dir: Optional[str] = setting(
        None,
        "With --mode=predict and --export_dir: the folder for the predictions of many files, "
        "which may also be tables (Parquet, CSV or JSON lines, by their names; the export says "
        "how rows become records, so no --spec is needed). Each file of --predict_files gets "
        "one of its kind and name, row by row; with _MANIFEST.json and, at the end, _SUCCESS. "
        "Started again, the same command predicts the files that are missing; a folder that "
        "holds something else is never touched.",
    )
    keep_columns: tuple[str, ...] = setting(
        (),
        "With --predict_dir: columns of the tables, or features of the records, that stand "
        "before the predictions of each row, as user_id.",
    )
    predict_processes: Optional[PositiveInt] = setting(
        None,
        "With --predict_dir: processes that share the files, one a core when not given, or "
        "fewer for small data. Each loads the export.",
    )
