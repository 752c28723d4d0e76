"""Checks that a checkpoint fits a model, before a session restores it, and names a damaged file.

TensorFlow stops at the first variable that differs, deep inside a session. `check_fit` lists all
variables that differ. TensorFlow's errors do not always name a damaged file. Reading a whole
checkpoint takes a while, so `damage` does it only after an error that may come from a damaged one.
This module changes no file, and never chooses another checkpoint itself; that is up to the user.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator
from typing import Optional

import tensorflow as tf

from estimator_kit.checkpoints.model_outline import Shape, Shapes
from estimator_kit.errors import CheckpointError, ConfigError

# The errors that TensorFlow raises when it reads a tensor of a damaged checkpoint.
UNREADABLE = (tf.errors.OpError, ValueError, IndexError, RuntimeError)


def damage(checkpoint: str) -> Optional[str]:
    """Says what is damaged in a checkpoint, and what to do. None if all of it can be read.

    Args:
      checkpoint: its path prefix.
    """
    reason = _why_unreadable(checkpoint)
    if reason is None:
        return None
    return f"{_file_of(checkpoint, reason)} is damaged: {reason.rstrip('.')}. {_remedy(checkpoint)}"


def steps_of(folder: str) -> dict[int, str]:
    """The checkpoints of a model directory as `{step: path prefix}`, ordered by step."""
    checkpoints = {}
    for path in tf.io.gfile.glob(os.path.join(folder, "model.ckpt-*.index")):
        prefix = path[: -len(".index")]
        step = prefix.rpartition("-")[2]
        if step.isdecimal():
            checkpoints[int(step)] = prefix
    return dict(sorted(checkpoints.items()))


def _why_unreadable(checkpoint: str) -> Optional[str]:
    try:
        reader = tf.train.load_checkpoint(checkpoint)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except UNREADABLE as error:
        return str(error).strip().splitlines()[0]
    return None


def _file_of(checkpoint: str, reason: str) -> str:
    """The damaged file, or a pattern if it is not known which file is damaged."""
    if re.search(r"\bindex\b|sstable|\.index", reason):
        return f"{checkpoint}.index"
    files = sorted(tf.io.gfile.glob(f"{checkpoint}.data-*"))
    shard = re.search(r"shard (\d+) ", reason)
    if len(files) > 1 and shard is not None:
        files = [path for path in files if f".data-{int(shard[1]):05d}-of-" in path]
    return files[0] if len(files) == 1 else f"{checkpoint}.data-*"


def _remedy(checkpoint: str) -> str:
    folder, name = os.path.split(checkpoint)
    step = name.rpartition("-")[2]
    steps = steps_of(folder)
    for earlier in sorted(steps, reverse=True):
        before = steps[earlier]
        if step.isdecimal() and earlier < int(step) and _why_unreadable(before) is None:
            return (
                f"The checkpoint before it, {before}, can be read. To go on from there, write the "
                f'line model_checkpoint_path: "{os.path.basename(before)}" into '
                f"{os.path.join(folder, 'checkpoint')}."
            )
    return "No checkpoint before it can be read. Choose another --model_dir."


_log = logging.getLogger("estimator_kit")

_OF_READING = {
    tf.errors.DATA_LOSS,
    tf.errors.FAILED_PRECONDITION,  # A folder has the name of a file.
    tf.errors.OUT_OF_RANGE,
    tf.errors.NOT_FOUND,
    tf.errors.UNKNOWN,
}


def shapes_in(checkpoint: str) -> Shapes:
    """The shape of every variable in a checkpoint."""
    try:
        return {name: tuple(shape) for name, shape in tf.train.list_variables(checkpoint)}
    except UNREADABLE as error:
        raise _unreadable(checkpoint, error) from error


def _unreadable(checkpoint: str, error: Exception) -> CheckpointError:
    sentence = damage(checkpoint)
    reason = str(error).strip().splitlines()[0]
    return CheckpointError(sentence or f"{checkpoint} cannot be read: {reason}")


def latest(model_dir: str) -> Optional[str]:
    """The path prefix of the latest checkpoint, or None if the folder has no checkpoint.

    Raises:
      CheckpointError: the folder has checkpoints, but the file `checkpoint`, which names the latest
        one, is missing or damaged. TensorFlow would start at step 0 and overwrite them.
    """
    state = os.path.join(model_dir, "checkpoint")
    checkpoint, names_none = None, False
    try:
        checkpoint = tf.train.latest_checkpoint(model_dir)
    except ValueError:  # The file is empty or damaged.
        names_none = True
    if checkpoint is None:
        steps = steps_of(model_dir)
        left = list(steps.values())
        if list(steps) == [0] and not tf.io.gfile.exists(state):
            return None  # The first save was cut off. It has the start values, nothing else.
        if left:
            raise CheckpointError(
                f"{state} does not exist or names no checkpoint, but its folder has {len(left)}. "
                f'Write the line model_checkpoint_path: "{os.path.basename(left[-1])}" into it, or '
                "choose another --model_dir."
            )
        if names_none:
            raise CheckpointError(
                f"{state} names no checkpoint, and its folder has none. Remove the file to start "
                "at step 0."
            )
    return checkpoint


def latest_step(model_dir: str) -> Optional[int]:
    """The global step of the latest checkpoint, or None if the folder has no checkpoint."""
    checkpoint = latest(model_dir)
    if checkpoint is None:
        return None
    try:
        return int(tf.train.load_variable(checkpoint, "global_step"))
    except UNREADABLE as error:
        raise _unreadable(checkpoint, error) from error


def check_fit(checkpoint: str, shapes: Shapes, *, ignore_extra: bool = False) -> None:
    """Compares a checkpoint with the variables that a model will restore.

    Args:
      checkpoint: its path prefix.
      shapes: the variables that the model restores.
      ignore_extra: allow variables in the checkpoint that the model does not have, for example
        optimizer slots in a prediction.

    Raises:
      CheckpointError: a variable is missing, has another shape, or is left over. The message lists
        all of them.
    """
    stored = shapes_in(checkpoint)
    differences = []
    for name in sorted({*stored, *shapes}):
        if name not in stored:
            differences.append(f"{name}: {_text(shapes[name])} in the model, not in the checkpoint")
        elif name not in shapes:
            if not ignore_extra:
                shape = list(stored[name])
                differences.append(f"{name}: {shape} in the checkpoint, not in the model")
        elif not have_equal_shapes(stored[name], shapes[name]):
            differences.append(
                f"{name}: {list(stored[name])} in the checkpoint, {_text(shapes[name])} in the "
                "model"
            )
    if differences:
        listing = "\n".join(f"  {difference}" for difference in differences)
        raise CheckpointError(
            f"the checkpoint {checkpoint} does not fit the model; {len(differences)} variables "
            f"differ:\n{listing}\nUndo the change of the spec or the model, or train into a new "
            "--model_dir (with --warm_start_from, to keep what still fits)."
        )


def have_equal_shapes(stored: tuple[int, ...], wanted: Shape) -> bool:
    """Whether a shape in a checkpoint fits one of a model; see `model_outline.Shape`."""
    if wanted is None:
        return True
    return len(stored) == len(wanted) and all(n in (None, m) for m, n in zip(stored, wanted))


def _text(shape: Shape) -> str:
    return "a table" if shape is None else str(list(shape))


def find_checkpoint(path: str) -> str:
    """The checkpoint prefix of a checkpoint, a model directory or a SavedModel.

    Raises:
      ConfigError: the path is something else, or the model directory has no checkpoint.
    """
    saved_model = os.path.join(path, "variables", "variables")
    if tf.io.gfile.exists(saved_model + ".index"):
        return saved_model
    if tf.io.gfile.isdir(path):
        checkpoint = latest(path)
        if checkpoint is not None:
            return checkpoint
    elif tf.io.gfile.exists(path + ".index"):
        return path
    raise ConfigError(
        f"warm start (--warm_start_from): expected a checkpoint, a model directory with a "
        f"checkpoint, or a SavedModel, got {path!r}. Correct the path, or train that model first."
    )


@contextlib.contextmanager
def naming_damage(*places: Optional[str]) -> Iterator[None]:
    """Replaces an error that comes from a damaged checkpoint by a CheckpointError.

    Args:
      places: checkpoints, or model directories, which stand for their latest checkpoints.
    """
    try:
        yield
    except (tf.errors.OpError, IndexError) as error:
        if isinstance(error, tf.errors.OpError) and error.error_code not in _OF_READING:
            raise
        for place in places:
            checkpoint = _checkpoint_of(place) if place else None
            sentence = damage(checkpoint) if checkpoint else None
            if sentence is not None:
                raise CheckpointError(sentence) from error
        raise


def _checkpoint_of(place: str) -> Optional[str]:
    try:
        return find_checkpoint(place)
    except ConfigError:
        return None
