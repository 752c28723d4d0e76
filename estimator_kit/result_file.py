"""Reads and writes `result.json`, the `RunResult` of the last run in a model directory."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Optional

from pydantic import Field

from estimator_kit import storage
from estimator_kit.result import RunResult
from feature_specs.files import documents


class _Kept(storage.Form):
    """The part of `result.json` that is read."""

    mode: Optional[str] = None
    status: Optional[str] = None
    stop_reason: Optional[str] = None
    global_step: Optional[int] = None
    steps_planned: Optional[int] = None
    scores: Optional[str] = None
    rows_lost: int = 0
    metrics: dict[str, Optional[float]] = Field({})
    exports: dict[str, str] = Field({})


def write_result(result: RunResult, model_dir: str) -> None:
    """Writes `result.json`."""
    write_to(result, result_path(model_dir))


def write_to(result: RunResult, path: str, **also: Any) -> None:
    """Writes a result to any path, with additional entries."""
    documents.write_json(path, document(result, **also))


def document(result: RunResult, **also: Any) -> dict[str, Any]:
    """The content of the file, for JSON."""
    return {**dataclasses.asdict(result), "export_path": result.export_path, **also}


def read_result(model_dir: str) -> Optional[dict[str, Any]]:
    """The result of the last run in a model directory, or None if the directory has no result.

    Raises:
      ConfigError: the file is damaged.
    """
    return storage.read_json(result_path(model_dir), _Kept)


def kept_result(model_dir: str) -> RunResult:
    """The result of the last run in a model directory, which must have one."""
    kept, names = read_result(model_dir) or {}, {f.name for f in dataclasses.fields(RunResult)}
    return RunResult(**{name: value for name, value in kept.items() if name in names})


def result_path(model_dir: str) -> str:
    """The file of the last run in a model directory."""
    return os.path.join(model_dir, "result.json")


def evaluation_path(model_dir: str, eval_name: str) -> str:
    """The file of an evaluation by `--mode=evaluate`."""
    return os.path.join(model_dir, f"evaluation-{eval_name}.json")
