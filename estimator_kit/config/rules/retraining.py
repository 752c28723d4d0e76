"""Which flags go with the modes of retraining, and what is said of the others. No TensorFlow."""

from __future__ import annotations

import datetime
import re

from estimator_kit.config.settings import AllSettings
from estimator_kit.config.settings.retraining import STAGES
from feature_specs.errors import did_you_mean
from input_pipelines.reading import days

# What a cycle decides by itself.
_DECIDED = {
    "train_days": "--window_days says how many days",
    "eval_days": "--eval_window_days says how many days",
    "train_mix": "the days of a window are read as one; give --train_files",
    "warm_start_from": "the section retraining of the spec says where a cycle starts",
    "data_service": "a cycle is trained and scored by one process",
    "export_dir": "the candidate is the cycle's own",
    "max_bad_records": "damaged files are left out whole; --window_min_rows is the limit",
    "max_bad_fraction": "damaged files are left out whole; --window_min_rows is the limit",
}


def problems(config: AllSettings) -> list[str]:
    """What of the flags does not go together with retraining."""
    found = []
    if config.mode == "rollback" and config.to is None:
        found.append("--to is missing; --mode=rollback needs the version that becomes live again")
    if config.mode == "reproduce" and config.cycle is None:
        found.append("--cycle is missing; --mode=reproduce needs the cycle, as 0007")
    for field in ("model_dir", "serving_dir"):
        path = getattr(config, field)
        if path is not None and "://" in path and config.mode in ("retrain", "rollback"):
            found.append(
                f"--{field}: got {path!r}, expected a local or mounted folder: locks and renames, "
                "on which retraining rests, are not to be had elsewhere"
            )
    if config.mode != "retrain":
        return found
    if config.window_days is None:
        found.append("--window_days is missing; --mode=retrain needs it")
    elif config.window_min_days > config.window_days:
        found.append(
            f"--window_min_days={config.window_min_days} is more than "
            f"--window_days={config.window_days}"
        )
    if config.as_of is not None:
        try:
            datetime.date.fromisoformat(config.as_of)
        except ValueError:
            found.append(f"--as_of: got {config.as_of!r}, expected a day, as 2026-01-31")
    for field in ("train_files", "eval_files"):
        for pattern in getattr(config, field):
            try:
                days.of_days(pattern, ("2026-01-01",))
            except ValueError as error:
                found.append(f"--{field}, with --mode=retrain: {error}")
    for field, why in _DECIDED.items():
        if getattr(config, field) not in (None, (), ""):
            found.append(f"--{field} does not go with --mode=retrain: {why}")
    if config.keep_versions < 2:
        found.append(
            "--keep_versions: got 1, expected 2 or more: a server may still be loading the version "
            "before the newest"
        )
    return found + _limit_problems(config)


def stage_limits(config: AllSettings) -> dict[str, float]:
    """Seconds by stage."""
    pairs = (entry.partition("=") for entry in config.stage_limits)
    return {name: float(seconds) for name, _, seconds in pairs}


def _limit_problems(config: AllSettings) -> list[str]:
    found = []
    for entry in config.stage_limits:
        name = entry.partition("=")[0]
        if not re.fullmatch(r"\w+=(\d+(\.\d+)?)", entry):
            found.append(f"--stage_limits: got {entry!r}, expected stage=seconds, as train=7200")
        elif name not in STAGES:
            found.append(f"--stage_limits: no stage {name!r}{did_you_mean(name, STAGES)}")
        elif not float(entry.partition("=")[2]):
            found.append(
                f"--stage_limits: got {entry!r}, expected more than 0 seconds; without an entry a "
                "stage has no limit"
            )
    return found
