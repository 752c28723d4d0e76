"""Which settings of files, days, mixes and damaged data go together. Imports no TensorFlow."""

from __future__ import annotations

import re

from estimator_kit.config.modes import TRAINING_MODES
from estimator_kit.config.settings import AllSettings
from input_pipelines.reading import files

_FILES = (
    "train_files",
    "eval_files",
    "predict_files",
    "baseline_files",
    "convert_files",
    "representative_files",
)


def problems(config: AllSettings) -> list[str]:
    """What does not go together in the choice of records, and in what is done with bad ones."""
    found = []
    reads_rows = config.mode == "validate" and (config.validate_rows > 0 or config.has_baseline)
    if reads_rows and not config.train_files:
        found.append(
            "--train_files is missing. --validate_rows, --baseline_files and --baseline_statistics "
            "look at its rows."
        )
    for field in ("max_bad_records", "max_bad_fraction"):
        if getattr(config, field) is not None and config.corrupt_data_policy == "fail":
            found.append(
                f"--{field} is a limit for --corrupt_data_policy=skip_record or quarantine, but "
                "the policy fail stops at the first bad record. Choose another policy, or remove "
                f"--{field}."
            )
    if config.input_cache_gib is not None and config.input_cache_dir is None:
        found.append(
            "--input_cache_gib is a limit of --input_cache_dir, which is missing. Give the folder "
            "too."
        )
    if config.baseline_files and config.baseline_statistics:
        found.append(
            "--baseline_files and --baseline_statistics do not go together. Give one of them."
        )
    found += [
        f"--{field}: got an empty name. Remove it."
        for field in _FILES
        if "" in getattr(config, field)
    ]
    selection = _selection_problems(config)
    found += selection
    if config.mode in TRAINING_MODES and not selection:
        found += _overlap_problems(config)
    return found


def _selection_problems(config: AllSettings) -> list[str]:
    found = []
    for which in ("train", "eval"):
        try:
            window = config.days_of(which)
        except ValueError as error:
            found.append(f"--{which}_days: {error}")
            continue
        fields = ("train_files", "train_mix") if which == "train" else ("eval_files",)
        if window and not any(getattr(config, field) for field in fields):
            found.append(f"--{which}_files is missing. --{which}_days chooses days from it.")
        for field in fields if window else ():
            for entry in getattr(config, field):
                pattern = entry.rpartition("=")[0] if field == "train_mix" else entry
                try:
                    files.of_days(pattern, window)
                except ValueError as error:
                    found.append(f"--{field}, with --{which}_days: {error}")
    if config.train_mix and config.train_files:
        found.append("--train_files and --train_mix do not go together. Give one of them.")
    for entry in config.train_mix:
        if not re.fullmatch(r".+=0*([1-9]\d{0,3}|10000)", entry):
            found.append(
                "--train_mix: expected pattern=share with a whole number from 1 to 10000, such as "
                f"data/ads/*.tfrecord=3, got {entry!r}."
            )
    return found


def _overlap_problems(config: AllSettings) -> list[str]:
    shared = set(config.patterns_of("train")) & set(config.patterns_of("eval"))
    if not shared:
        return []
    return [
        f"--train_files and --eval_files share {', '.join(sorted(shared))}. Evaluate a model on "
        "files that it is not trained on."
    ]
