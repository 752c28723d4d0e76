"""Which settings go together in analysis and in the import of a Schema. Imports no TensorFlow."""

from __future__ import annotations

from estimator_kit.config.rules import names
from estimator_kit.config.settings import AllSettings


def problems(config: AllSettings) -> list[str]:
    """What does not go together in `--mode=analyze` and `--mode=import_schema`."""
    if config.mode == "analyze" and config.spec:
        return [
            f"--{field} is for a first spec, but with --spec, --mode=analyze refreshes the files "
            "that this spec refers to. Remove one of the two flags."
            for field in ("analysis_dir", "labels")
            if getattr(config, field)
        ]
    if config.mode in ("analyze", "import_schema"):
        return names.problems("labels", config.labels)
    return []
