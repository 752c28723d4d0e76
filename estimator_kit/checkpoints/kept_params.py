"""Compares the parameters of a model with the parameters that its model directory was trained with.

    kept_params.check(model_dir, type(model).__name__, model.params)

Most parameters show in the shapes of variables, but an activation, the heads of an attention or a
temperature do not: the checkpoint fits, and the model answers otherwise. So parameters that change
the logits of given variables must be as they were (`feature_specs.meaning.aspects`). All others may
change. `model_params.json` has all of them, with defaults, because a later version of a model can
have other defaults. A directory without it has `flags.txt`, completed with today's defaults. What
the directory does not say contradicts nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from typing import Any, Optional

import pydantic
from pydantic import JsonValue

from estimator_kit.checkpoints import run_record
from estimator_kit.errors import CheckpointError
from estimator_kit.model.model_params import ModelParams, changes_of
from feature_specs.files import documents
from feature_specs.meaning import compared

NAME = "model_params.json"
_FLAG = "--model_params="


class _Kept(documents.Root[dict[str, JsonValue]]):
    """`model_params.json`."""


def write(model_dir: str, params: ModelParams) -> None:
    """Stores the parameters with which a training begins or goes on, defaults included."""
    _Kept(params.model_dump(mode="json")).save(os.path.join(model_dir, NAME))


def check(model_dir: str, model: str, params: ModelParams) -> None:
    """Raises CheckpointError if a parameter differs that changes the logits of given variables."""
    changed = changes(model_dir, params, compared.CHECKPOINT.aspects)
    if changed:
        listing = "\n".join(f"  {change}" for change in changed)
        raise CheckpointError(
            f"the parameters of the model {model} differ from the parameters that {model_dir} was "
            f"trained with:\n{listing}\nWith other values, the same variables give other answers. "
            "Go back to the old values with --model_params, or train into a new --model_dir (with "
            "--warm_start_from, to take these variables)."
        )


def changes(model_dir: str, params: ModelParams, aspects: Collection[str]) -> list[str]:
    """How parameters differ in these aspects since the last start: a sentence for each."""
    kept = _kept(model_dir, type(params)) or {}
    return [
        f"{name}: was {json.dumps(kept[name])}, is {json.dumps(value)}"
        for name, value in params.model_dump(mode="json").items()
        if name in kept
        and kept[name] != value
        and changes_of(type(params), name).intersection(aspects)
    ]


def _kept(model_dir: str, kind: type[ModelParams]) -> Optional[dict[str, JsonValue]]:
    """The values with which the directory was trained, as JSON; None if it does not say."""
    kept = _Kept.load(os.path.join(model_dir, NAME))
    if kept is not None:
        return kept.root
    lines = run_record.read_flags(model_dir)
    if not lines:
        return None
    given: dict[str, Any] = {}
    for line in lines:
        name, equal, text = line.removeprefix(_FLAG).partition("=")
        if line.startswith(_FLAG) and equal and name in kind.model_fields:
            try:
                given[name] = json.loads(text)
            except ValueError:
                return None
    try:
        return kind.model_validate(given).model_dump(mode="json")
    except pydantic.ValidationError:  # Of an older version of the model.
        return None
