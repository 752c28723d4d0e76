"""The starts of a training in one model directory: its lock, what is left to do, what has changed.

`unfinished.json` is the step of a checkpoint that is being evaluated, exported or reported. It is
written before the checkpoint, and removed after its last export. At the end of a training, it stays
until the report page is written. If a process dies in between, the next start finds it, and does
what is missing before it trains on. Every later write can be repeated: an evaluation whose metrics
are in the history is not made again, nor is an export that has its name. A checkpoint that a
SIGTERM saves in the middle of a training has no such file, because an undisturbed training would
neither save nor evaluate it.

`flags.txt`, `model_params.json` and `feature_spec` tell what the last start was made from. A start
that begins replaces them, so each change is found once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Collection, Iterator
from typing import Optional

import tensorflow as tf

from estimator_kit.checkpoints import reading, run_record
from estimator_kit.config.modes import Train, counted
from estimator_kit.errors import ConfigError, Locked
from estimator_kit.model.model_fn import ModelFn
from feature_specs import meaning
from feature_specs.files import documents, owners
from feature_specs.spec import FeatureSpec


def check_folder(model_dir: str) -> None:
    """Raises ConfigError if the path is a file, or if TensorFlow would find no checkpoint in it."""
    pattern = re.search(r"\\|\[.+\]", model_dir)
    if pattern is not None:
        raise ConfigError(
            f"--model_dir={model_dir}: TensorFlow reads {pattern[0]!r} as a pattern and would "
            "find no checkpoint in this folder. Choose a path without `\\` and `[...]`."
        )
    if tf.io.gfile.exists(model_dir) and not tf.io.gfile.isdir(model_dir):
        raise ConfigError(f"--model_dir={model_dir} is a file. Name a folder.")


@contextlib.contextmanager
def lock(model_dir: str, *, resumed_at: Optional[int]) -> Iterator[None]:
    """Locks the model directory, so that no other start trains in it at the same time.

    A folder in a bucket, which only TensorFlow can reach, has no locks. It is not locked.

    Args:
      model_dir: the folder.
      resumed_at: the step of the checkpoint that this start goes on from, or None.

    Raises:
      Locked: another start trains in it, or has done so since this one looked for a checkpoint.
    """
    if "://" in model_dir:
        yield
        return
    with owners.held(model_dir):
        if (reading.latest_step(model_dir) or 0) != (resumed_at or 0):
            raise Locked(
                f"another start has trained in {model_dir} since this start read it. Start again."
            )
        yield


class _Kept(documents.Document):
    global_step: int


def begin_work(model_dir: str, step: int) -> None:
    """Records that the work on a checkpoint begins."""
    _Kept(global_step=step).save(_path(model_dir))


def end_work(model_dir: str) -> None:
    """Records that nothing is left to do."""
    if tf.io.gfile.exists(_path(model_dir)):
        tf.io.gfile.remove(_path(model_dir))


def unfinished_step(model_dir: str) -> Optional[int]:
    """The step of the checkpoint, or None if nothing is left to do.

    Raises:
      ConfigError: the file is damaged.
    """
    kept = _Kept.load(_path(model_dir))
    return None if kept is None else kept.global_step


def _path(model_dir: str) -> str:
    return os.path.join(model_dir, "unfinished.json")


_log = logging.getLogger("estimator_kit")


def changes(
    command: Train, spec: FeatureSpec, model: ModelFn, aspects: Collection[str]
) -> list[str]:
    """A sentence for each setting, parameter of the model and field of the spec that differs.

    Only those count that change one of these aspects.
    """
    folder = os.path.join(command.run.model_dir, "feature_spec")
    return [
        *run_record.changed_flags(command, counted(command.program.mode, aspects)),
        *run_record.params_changes(command.run.model_dir, model.params, aspects),
        *run_record.changes_since(folder, spec, aspects),
    ]


def other_outputs(command: Train, spec: FeatureSpec, model: ModelFn) -> list[str]:
    """How the outputs of the exports that training writes differ; empty if it writes none."""
    if command.program.mode == "train" or not command.exports.exporters:
        return []
    return changes(command, spec, model, meaning.EXPORTS.aspects)


def say_changes(command: Train, spec: FeatureSpec, model: ModelFn, step: int) -> None:
    """Logs how a training that goes on at a step finds its numbers otherwise than before."""
    differences = changes(command, spec, model, meaning.RESUMED.aspects)
    if differences:
        _log.info(
            "training goes on at step %d otherwise than before: %s", step, "; ".join(differences)
        )
