"""Settings and modes of earlier versions, and what to write instead of them.

Every `flags.txt` has all settings. One of an earlier version can still be read if the values of
removed settings are those that always hold now, or can be written with other settings. In a
flagfile with another name, which a person writes, only the first is so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Optional

from estimator_kit.config.areas.exports import better
from estimator_kit.config.modes import MODES
from estimator_kit.errors import ConfigError
from feature_specs.errors import did_you_mean

# The modes of earlier versions, and how to write them now.
REMOVED_MODES: Mapping[str, str] = {
    "import_schema": "schema, with --analysis_dir",
    "export_schema": "schema, with --spec",
    "data_service_dispatcher": "data_service, without --data_service",
    "data_service_worker": "data_service, with --data_service",
    "serving_config": "serve, with --serving_config_dir",
    "history": "inspect, with the --model_dir of the retraining",
    "reproduce": "retrain, with --cycle",
}


class Removed(NamedTuple):
    """A setting of earlier versions.

    Attributes:
      value: the value that always holds now, as `flags.txt` has it; None without one.
      instead: what to do instead.
      rewrite: from the value in a `flags.txt` and all values of this file, makes the lines for this
        version. None if a line with another value than `value` cannot be read.
    """

    value: Optional[str]
    instead: str
    rewrite: Optional[Callable[[str, Mapping[str, str]], list[str]]] = None


def _not_needed(value: str, others: Mapping[str, str]) -> list[str]:
    """For settings that never changed what a run computed."""
    return []


def _as(name: str) -> Callable[[str, Mapping[str, str]], list[str]]:
    """For settings that only have another name."""
    return lambda value, others: [f"--{name}={value}"]


def _max_bad(value: str, others: Mapping[str, str]) -> list[str]:
    """The one limit of damaged records; a file with both limits needs a choice."""
    if {"max_bad_records", "max_bad_fraction"} <= {*others}:
        raise ConfigError(
            f"--max_bad_records={others['max_bad_records']} and "
            f"--max_bad_fraction={others['max_bad_fraction']}: only one limit is left. Remove one "
            "of the two lines, or both, and give --max_bad."
        )
    return [f"--max_bad={value}"]


def _in_days(name: str) -> Callable[[str, Mapping[str, str]], list[str]]:
    """For settings that were a number of days."""
    return lambda value, others: [f"--{name}={value}d"]


def _window_min(value: str, others: Mapping[str, str]) -> list[str]:
    """The one line for the least days and the least rows of a window."""
    rows = others.get("window_min_rows", "1")
    return [f"--window_min={value}d" + (f",{rows}rows" if rows != "1" else "")]


def _window_min_rows(value: str, others: Mapping[str, str]) -> list[str]:
    is_written = others.get("window_min_days", "1") != "1"  # By `_window_min`.
    return [] if is_written else [f"--window_min={value}rows"]


_DIRECTION_HELP = "The kit knows which way its metrics improve. For your own metric, write"


def _direction(flag: str) -> Callable[[str, Mapping[str, str]], list[str]]:
    """For the direction of the metric that a flag names."""

    def rewrite(value: str, others: Mapping[str, str]) -> list[str]:
        metric = others.get(flag, "loss")
        return [] if better(metric) == value else [f"--{flag}={value}:{metric}"]

    return rewrite


def _exporters(value: str, others: Mapping[str, str]) -> list[str]:
    """The exporters with their numbers."""
    if "exporters" not in others:
        return []
    numbers = {"best_k": others.get("best_k"), "step": others.get("export_every_steps")}
    names = others.get("exporters", "").split(",")
    entries = [f"{name}:{numbers[name]}" if numbers.get(name) else name for name in names]
    return [f"--exporters={','.join(entries)}"]


REMOVED: Mapping[str, Removed] = {
    "best_direction": Removed(
        None, f"{_DIRECTION_HELP} --best_metric=max:name.", _direction("best_metric")
    ),
    "early_stopping_direction": Removed(
        None,
        f"{_DIRECTION_HELP} --early_stopping_metric=max:name.",
        _direction("early_stopping_metric"),
    ),
    "split_key": Removed(None, "Use --split=key:column.", _not_needed),
    "split_rows": Removed("false", "Use --split=rows.", _not_needed),
    "split_time": Removed(None, "Use --split=time:column.", _not_needed),
    "eval_fraction": Removed(None, "Use --split_eval.", _not_needed),
    "eval_from": Removed(None, "Use --split_eval.", _not_needed),
    "baseline_files": Removed(None, "Use --baseline.", _not_needed),
    "baseline_statistics": Removed(
        None, "Use --baseline, with a file whose name ends with statistics.json.", _not_needed
    ),
    "item_vectors_format": Removed("npy", "Use --transform=item_vectors_parquet.", _not_needed),
    "representative_files": Removed(
        None, "The first 500 rows of --predict_files show the ranges.", _not_needed
    ),
    "best_k": Removed("3", "Use --exporters=best_k:3, with your number.", _exporters),
    "export_every_steps": Removed(None, "Use --exporters=step:1000, with your number.", _exporters),
    "max_bad_records": Removed(None, "Use --max_bad, such as --max_bad=10.", _max_bad),
    "max_bad_fraction": Removed(None, "Use --max_bad, such as --max_bad=1%.", _max_bad),
    "data_service_timeout_secs": Removed("60.0", "Use --cluster_timeout_secs.", _not_needed),
    "profile_input": Removed(
        "false", "Use --profile=auto. A profile also says how the input works.", _not_needed
    ),
    "convert_processes": Removed(None, "Use --processes.", _not_needed),
    "predict_processes": Removed(None, "Use --processes.", _not_needed),
    "tune_processes": Removed("1", "Use --processes.", _as("processes")),
    "intra_op_threads": Removed("0", "Use --threads.", _as("threads")),
    "inter_op_threads": Removed("0", "Use --threads.", _not_needed),
    "export_check_rows": Removed(
        "100", "Each export is checked with 100 rows, and rows with unusual values.", _not_needed
    ),
    "memory_growth": Removed(
        "true",
        "GPU memory is taken when it is needed. TensorFlow reads TF_FORCE_GPU_ALLOW_GROWTH=false.",
        _not_needed,
    ),
    "lock_stale_secs": Removed(
        "120.0", "A lock without a sign of life for 120 seconds is taken over.", _not_needed
    ),
    "keep_cycle_days": Removed(
        None, "--keep_cycles says how many cycles are kept, whatever their age.", _not_needed
    ),
    "window_days": Removed(
        None, "Use --window with a unit, such as --window=7d.", _in_days("window")
    ),
    "eval_window_days": Removed(
        "1", "Use --eval_window with a unit, such as --eval_window=1d.", _in_days("eval_window")
    ),
    "window_min_days": Removed(
        "1", "Use --window_min with a unit, such as --window_min=3d.", _window_min
    ),
    "window_min_rows": Removed(
        "1", "Use --window_min, such as --window_min=1000rows.", _window_min_rows
    ),
    "window_max_age_days": Removed(
        None,
        "Use --window_max_age with a unit, such as --window_max_age=14d.",
        _in_days("window_max_age"),
    ),
    "timeline": Removed(
        "false", "Use --profile=auto, and open its trace in TensorBoard or Perfetto.", _not_needed
    ),
    "webhook_timeout_secs": Removed("10.0", "The webhook may take 10 seconds.", _not_needed),
    "inspect_path": Removed(
        None,
        "Give an export as --export_dir, and a model directory or a checkpoint as --model_dir.",
    ),
    "serving_threads": Removed(
        "16", "16 requests of each protocol run at once. For more, use TensorFlow Serving."
    ),
    "serving_max_request_mib": Removed(
        "16", "A request has at most 16 MiB. Send fewer rows at once, or use TensorFlow Serving."
    ),
    "serving_poll_secs": Removed(
        "1.0",
        "The server looks for versions every second. For TensorFlow Serving, set its flag "
        "--file_system_poll_wait_seconds.",
    ),
    "serving_lame_duck_secs": Removed(
        "5.0",
        "After SIGTERM the server takes requests for 5 more seconds. A second SIGTERM ends it.",
    ),
    "serving_allowed_hosts": Removed(
        None,
        "Only a server on loopback checks names. For other names, give the server an address of "
        "this machine with --serving_host.",
    ),
    "serving_image": Removed(
        None,
        "The image belongs to the installed TensorFlow. Write your own into the copy of "
        "examples/serving that you start.",
    ),
    "serving_batch_timeout_micros": Removed(
        "1000", "A request waits 1000 microseconds for others. Edit batching_parameters.txt."
    ),
}


def mode_hint(name: Any) -> str:
    """What to write instead of a mode that does not exist."""
    if name in REMOVED_MODES:
        return f". The mode was merged into another one. Write {REMOVED_MODES[name]}."
    return did_you_mean(name, MODES)


# An argument for absl, which then ignores these flags.
PASS_OVER = f"--undefok={','.join(REMOVED)}"


def hint(name: str) -> str:
    """What to do instead of a setting that was removed; empty for any other name."""
    removed = REMOVED.get(name) or REMOVED.get(name.removeprefix("no"))
    return f". It was removed. {removed.instead}" if removed is not None else ""


def is_readable(line: str, path: str, *, is_included: bool = False) -> bool:
    """Whether a line of a flagfile sets a removed setting as this version can read it.

    Args:
      line: the line.
      path: the flagfile.
      is_included: whether another flagfile includes it; then no line is rewritten.
    """
    name, value = _parts(line)
    if name not in REMOVED:
        return False
    is_written_by_kit = os.path.basename(path) == "flags.txt" and not is_included
    rewrites = REMOVED[name].rewrite is not None and is_written_by_kit
    return _is_equal(value, REMOVED[name].value) or rewrites


def _is_equal(value: str, constant: Optional[str]) -> bool:
    """Whether two values are equal, as text or as numbers."""
    try:
        return value == constant or float(value) == float(constant or "nan")
    except ValueError:
        return False


def rewritten(lines: Iterable[str]) -> list[str]:
    """The lines of this version that replace lines of removed settings in a `flags.txt`."""
    values = dict(map(_parts, lines))
    new_lines = []
    for name, value in values.items():
        removed = REMOVED.get(name)
        if removed is None or removed.rewrite is None:
            continue
        if not _is_equal(value, removed.value):
            new_lines += removed.rewrite(value, values)
    return new_lines


def _parts(line: str) -> tuple[str, str]:
    """The name and value of a flag; `true` or `false` for a removed switch."""
    name, equals, value = line.strip().lstrip("-").partition("=")
    if equals:
        return name, value
    if name.removeprefix("no") in REMOVED:
        return name.removeprefix("no"), "false" if name.startswith("no") else "true"
    return name, ""
