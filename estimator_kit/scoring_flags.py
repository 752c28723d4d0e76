"""Which flags go with --predict_dir, the predictions of an export into a folder. No TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from estimator_kit.config import ExperimentConfig


def problems(config: ExperimentConfig) -> list[str]:
    """What does not go together in --mode=predict, each problem a line with its remedy."""
    if config.mode != "predict":
        return []
    if config.predict_dir is None:
        return [
            f"--{field} is for --predict_dir, the predictions of an export into a folder"
            for field in ("keep_columns", "predict_processes")
            if getattr(config, field)
        ]
    found = []
    if config.export_dir is None:
        found.append(
            "--export_dir is missing; --predict_dir takes the predictions of an export (write one "
            "of a checkpoint with --mode=export)"
        )
    if config.predict_output is not None:
        found.append(
            "give --predict_output, for one file, or --predict_dir, for a file of each input"
        )
    if config.predict_limit is not None:
        found.append("--predict_limit is for --predict_output; --predict_dir has all rows")
    for i, name in enumerate(config.keep_columns):
        if name in config.keep_columns[:i] or not name:
            what = "there twice" if name else "no name"
            found.append(f"--keep_columns: {name!r} is {what}")
    return found
