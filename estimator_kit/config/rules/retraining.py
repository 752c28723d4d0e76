"""Which settings go together in the modes of retraining. Imports no TensorFlow."""

from __future__ import annotations

import datetime
import re

from estimator_kit.config.modes import RETRAINING_MODES
from estimator_kit.config.settings import AllSettings
from estimator_kit.config.settings.retraining import STAGES
from feature_specs.errors import did_you_mean
from input_pipelines.reading import files

# Settings that a cycle decides itself, and what to use instead.
_WHOLE_FILES = (
    "A cycle leaves out whole files that are damaged. Use --window_min_rows as the limit."
)
_DECIDED = {
    "train_days": "Use --window_days for the number of days.",
    "eval_days": "Use --eval_window_days for the number of days.",
    "train_mix": "A cycle reads all days of its window as one. Use --train_files.",
    "warm_start_from": "The section retraining of the spec says where a cycle starts. Remove the "
    "flag.",
    "data_service": "One process trains and evaluates a cycle. Remove the flag.",
    "export_dir": "A cycle writes its own candidate. Remove the flag.",
    "max_bad_records": _WHOLE_FILES,
    "max_bad_fraction": _WHOLE_FILES,
}


def problems(config: AllSettings) -> list[str]:
    """What does not go together in retraining."""
    if config.mode not in RETRAINING_MODES:
        return []
    found = []
    for field in ("model_dir", "serving_dir"):
        path = getattr(config, field)
        if path is not None and "://" in path and config.mode in ("retrain", "rollback"):
            found.append(
                f"--{field}: expected a local or mounted folder, got {path!r}. Retraining needs "
                "locks and atomic renames, which other file systems do not have."
            )
    if config.mode != "retrain":
        return found
    if config.window_days is not None and config.window_min_days > config.window_days:
        found.append(
            f"--window_min_days: expected at most --window_days={config.window_days}, got "
            f"{config.window_min_days}."
        )
    if config.as_of is not None:
        try:
            datetime.date.fromisoformat(config.as_of)
        except ValueError:
            found.append(f"--as_of: expected a day such as 2026-01-31, got {config.as_of!r}.")
    for field in ("train_files", "eval_files"):
        for pattern in getattr(config, field):
            try:
                files.of_days(pattern, ("2026-01-01",))
            except ValueError as error:
                found.append(f"--{field}, with --mode=retrain: {error}")
    for field, why in _DECIDED.items():
        if getattr(config, field) not in (None, (), ""):
            found.append(f"--{field} does not go with --mode=retrain. {why}")
    if config.keep_versions < 2:
        found.append(
            "--keep_versions: expected at least 2, because a server may still be loading the "
            "version before the newest, got 1."
        )
    return found + _limit_problems(config)


def stage_limits(config: AllSettings) -> dict[str, float]:
    """The seconds that each stage may take."""
    pairs = (entry.partition("=") for entry in config.stage_limits)
    return {name: float(seconds) for name, _, seconds in pairs}


def _limit_problems(config: AllSettings) -> list[str]:
    found = []
    for entry in config.stage_limits:
        name = entry.partition("=")[0]
        if not re.fullmatch(r"\w+=(\d+(\.\d+)?)", entry):
            found.append(
                f"--stage_limits: expected stage=seconds, such as train=7200, got {entry!r}."
            )
        elif name not in STAGES:
            found.append(f"--stage_limits: unknown stage {name!r}{did_you_mean(name, STAGES)}")
        elif not float(entry.partition("=")[2]):
            found.append(
                f"--stage_limits: expected more than 0 seconds, got {entry!r}. Leave the stage out "
                "if it has no limit."
            )
    return found
