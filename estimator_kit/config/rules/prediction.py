"""Which flags go with --predict_dir, the predictions of an export into a folder. No TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence

from estimator_kit.config.settings import AllSettings


def problems(config: AllSettings) -> list[str]:
    """What does not go together in --mode=predict, each problem a line with its remedy."""
    if config.mode != "predict":
        return []
    found = _name_problems("predict_outputs", config.predict_outputs)
    if config.predict_dir is None:
        return found + [
            f"--{field} is for --predict_dir, the predictions of an export into a folder"
            for field in ("keep_columns", "predict_processes")
            if getattr(config, field)
        ]
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
    return found + _name_problems("keep_columns", config.keep_columns)


def _name_problems(flag: str, names: Sequence[str]) -> list[str]:
    return [
        f"--{flag}: {name!r} is {'there twice' if name else 'no name'}"
        for i, name in enumerate(names)
        if name in names[:i] or not name
    ]
