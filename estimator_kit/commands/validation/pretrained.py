"""The check of `--mode=validate` for the files of pretrained vectors.

Imports no TensorFlow. `feature_specs.embeddings.pretrained_files` says how much of a file it
checks.
"""

from __future__ import annotations

import os

from estimator_kit.config.experiment_config import ExperimentConfig
from feature_specs.embeddings import pretrained_files
from feature_specs.spec import FeatureSpec


def report(config: ExperimentConfig, spec: FeatureSpec) -> list[str]:
    """A line for each column with pretrained vectors, followed by its warning if it has one.

    A run that continues from a checkpoint does not read these files, so they may be missing then.

    Raises:
      SpecError: files are missing or do not fit.
    """
    columns = pretrained_files.columns_with(spec)
    if not columns:
        return []
    if config.model_dir and os.path.exists(os.path.join(config.model_dir, "checkpoint")):
        return [
            "  pretrained vectors: not checked, because the checkpoint in --model_dir has them: "
            f"{', '.join(columns)}"
        ]
    lines = []
    for looked in pretrained_files.check(spec):
        lines.append(f"  pretrained {looked.column}: {looked.file}: {looked.text}")
        if looked.warning is not None:
            lines.append(f"  warning: {looked.warning}")
    return lines
