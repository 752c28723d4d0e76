"""Which predictions are written, and where they go. Imports no TensorFlow."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.areas.base import InStore, PositiveInt, Settings, name_problems, setting
from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.run import FromExport


class Prediction(Settings):
    """Which predictions are written, and where they go."""

    heading: ClassVar[str] = "Prediction"

    predict_output: Optional[str] = setting(
        None,
        "The file for the predictions, in the order of --predict_files: .jsonl (one JSON object "
        "for each row) or .tfrecord (one Example for each row). By default, the program prints "
        "JSON to standard output.",
        changes="nothing",
    )
    predict_limit: Optional[PositiveInt] = setting(
        None,
        "Stop after this many rows.",
        changes="nothing",
    )
    predict_outputs: tuple[str, ...] = setting(
        (),
        "The outputs to write, in this order, such as click/class_ids,click/classes. By "
        "default all outputs, which for 10,000 classes are 20,000 numbers a row.",
        changes="outputs",
    )
    top_k: Optional[PositiveInt] = setting(
        None,
        "With --export_dir and the head next_item: write the names and scores of this many best "
        "items for each row, instead of the scores of all items. The export decides whether items "
        "that a row has seen are left out (exclude_seen in the spec).",
        changes="outputs",
    )
    predict_dir: Optional[str] = setting(
        None,
        "With --export_dir: the folder for the predictions of many files. The files may also "
        "be tables (Parquet, CSV or JSON lines, by their names); the export says how rows "
        "become records, so --spec is not needed. Each file of --predict_files gets an output "
        "file of its kind and name, with the same order of rows. The folder also gets "
        "_MANIFEST.json and, at the end, _SUCCESS. If you start the same command again, it "
        "predicts the files that are missing. It never changes a folder that holds anything "
        "else.",
        changes="nothing",
        in_store=InStore.FOLDER,
    )
    keep_columns: tuple[str, ...] = setting(
        (),
        "Columns of the tables, or features of the records, to write before the predictions of "
        "each row, such as user_id. --mode=transform with two_tower: the "
        "feature that names an item.",
        changes="outputs",
    )


def problems(prediction: Prediction, program: Program, export: FromExport) -> list[str]:
    """What does not go together, with and without `--predict_dir`."""
    if program.mode != "predict":
        return []
    lines = name_problems("predict_outputs", prediction.predict_outputs)
    lines += name_problems("keep_columns", prediction.keep_columns)
    if prediction.top_k is not None and export.export_dir is None:
        lines.append(
            "--export_dir is missing. --top_k needs an export; write one from a checkpoint with "
            "--mode=export."
        )
    if prediction.predict_dir is None:
        if program.processes is not None:
            lines.append(
                "--processes is only for --predict_dir, which predicts many files with an "
                "export. Remove --processes."
            )
        return lines
    if export.export_dir is None and prediction.top_k is None:
        lines.append(
            "--export_dir is missing. --predict_dir needs an export; write one from a checkpoint "
            "with --mode=export."
        )
    if prediction.predict_output is not None:
        lines.append(
            "--predict_output and --predict_dir do not go together. Give --predict_output for one "
            "file, or --predict_dir for a file of each input."
        )
    if prediction.predict_limit is not None:
        lines.append(
            "--predict_limit does not go with --predict_dir, which predicts all rows. Remove one "
            "of the two."
        )
    return lines
