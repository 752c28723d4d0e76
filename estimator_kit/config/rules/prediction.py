"""Which settings go together in `--mode=predict`. Imports no TensorFlow."""

from __future__ import annotations

from estimator_kit.config.rules import names
from estimator_kit.config.settings import AllSettings


def problems(config: AllSettings) -> list[str]:
    """What does not go together, with and without `--predict_dir`."""
    if config.mode != "predict":
        return []
    found = names.problems("predict_outputs", config.predict_outputs)
    found += names.problems("keep_columns", config.keep_columns)
    if config.top_k is not None and config.export_dir is None:
        found.append(
            "--export_dir is missing. --top_k needs an export; write one from a checkpoint with "
            "--mode=export."
        )
    if config.predict_dir is None:
        if config.predict_processes is not None:
            found.append(
                "--predict_processes is only for --predict_dir, which predicts many files with an "
                "export. Remove --predict_processes."
            )
        return found
    if config.export_dir is None and config.top_k is None:
        found.append(
            "--export_dir is missing. --predict_dir needs an export; write one from a checkpoint "
            "with --mode=export."
        )
    if config.predict_output is not None:
        found.append(
            "--predict_output and --predict_dir do not go together. Give --predict_output for one "
            "file, or --predict_dir for a file of each input."
        )
    if config.predict_limit is not None:
        found.append(
            "--predict_limit does not go with --predict_dir, which predicts all rows. Remove one "
            "of the two."
        )
    return found
