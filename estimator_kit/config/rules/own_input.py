"""Which settings go together with rows of a user's function. Imports no TensorFlow."""

from __future__ import annotations

from estimator_kit.config.modes import TRAINING_MODES
from estimator_kit.config.settings import AllSettings

_FILES = "Write the rows to files with ek.write_examples, and use --train_files"

# Modes that work on files, which other modes read again or compare.
_OF_FILES = ("tune", "retrain", "analyze", "check_data")

_WHY = {
    "train_files": "Give one of them",
    "train_mix": "Give one of them",
    "keep_negatives": f"A draw needs the file of each row. {_FILES}",
    "input_cache_dir": f"A cache needs files to compare. {_FILES}",
    "data_service": f"Its workers do not run your code. {_FILES}",
}


def problems(config: AllSettings) -> list[str]:
    """What does not go together with `--input_fn`."""
    if config.input_fn is None:
        if config.input_version is not None:
            return ["--input_version names the rows of --input_fn, which is missing. Give both."]
        return []
    if config.mode in _OF_FILES:
        return [f"--input_fn does not go with --mode={config.mode}, which reads files. {_FILES}."]
    if config.mode not in (*TRAINING_MODES, "evaluate"):
        return []
    trains = config.mode in TRAINING_MODES
    if not trains and config.eval_files:
        return []
    fields = _WHY if trains else ("input_cache_dir",)
    found = [
        f"--input_fn and --{field} do not go together. {_WHY[field]}."
        for field in fields
        if getattr(config, field)
    ]
    if config.corrupt_data_policy != "fail":
        found.append(
            f"--corrupt_data_policy={config.corrupt_data_policy} leaves out records of files. "
            "Leave out bad rows in the function of --input_fn, and remove the flag."
        )
    return found
