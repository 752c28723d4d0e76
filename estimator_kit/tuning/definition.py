"""The settings that all trials of a search share, and how they differ between two starts.

Trials with other settings cannot be compared. So the journal keeps the settings that the search
began with, and each start compares its own with them. Imports no TensorFlow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.settings import settings_of

# What does not change the result of a trial, so that a search may go on with another value.
_NO_PART_OF_A_SEARCH = (
    "model_dir", "search", "tune_processes", "test_files", "log_format", "log_every_secs",
    "exit_code_style", "lock_stale_secs", "report", "tracking", "input_cache_dir",
    "input_cache_gib", "intra_op_threads", "inter_op_threads", "memory_growth", "mode",
    "generate_default_data", "exporters", "exports_to_keep", "export_check_rows",
    "default_signature", "predict_files", "slices", "importance", "summary_steps", "histograms",
    "profile_input", "profile", "timeline", "export_every_steps", "best_k", "keep_checkpoint_max",
)  # fmt: skip


def definition(config: ExperimentConfig) -> dict[str, Any]:
    """The settings that all trials share, by name: every start of a search needs the same."""
    names = settings_of("tune").difference(_NO_PART_OF_A_SEARCH)
    return {name: getattr(config, name) for name in sorted(names)}


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A line for each entry of the search and each flag that differs."""
    found = []
    old, new = before["search"], now["search"]
    pairs = [(f"{key}", old.get(key), new.get(key)) for key in new if key != "parameters"]
    for name in dict.fromkeys([*old["parameters"], *new["parameters"]]):
        each = (old["parameters"].get(name), new["parameters"].get(name))
        pairs.append((f"parameters.{name}", *each))
    for name in sorted({*before["flags"], *now["flags"]}):
        pairs.append((f"--{name}", before["flags"].get(name), now["flags"].get(name)))
    for name, was, is_now in pairs:
        if was != is_now:
            found.append(f"{name}: was {_shown(was)}, is {_shown(is_now)}")
    return found


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        defaults: tuple[Any, ...] = (None, False, {})
        value = {key: each for key, each in value.items() if each not in defaults}
    return "absent" if value is None else json.dumps(value)
