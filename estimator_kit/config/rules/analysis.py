"""Which settings go together in analysis and in the import of a Schema. Imports no TensorFlow."""

from __future__ import annotations

from estimator_kit.config.rules import names
from estimator_kit.config.settings import AllSettings


def problems(config: AllSettings) -> list[str]:
    """What does not go together in `--mode=analyze` and `--mode=schema`."""
    if config.mode == "analyze" and config.spec:
        return [
            f"--{field} is for a first spec, but with --spec, --mode=analyze refreshes the files "
            "that this spec refers to. Remove one of the two flags."
            for field in ("analysis_dir", "labels")
            if getattr(config, field)
        ]
    if config.mode == "schema" and config.spec:
        if config.analysis_dir:
            return [
                "--spec and --analysis_dir do not go together in --mode=schema. Give --spec to "
                "write it as a Schema, or --analysis_dir to write a first spec from a Schema."
            ]
        if config.labels:
            return ["--labels is for a first spec, but --spec has its own. Remove --labels."]
    if config.mode in ("analyze", "schema"):
        return names.problems("labels", config.labels)
    return []
