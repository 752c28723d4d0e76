"""Finds the damaged file of a checkpoint, and the latest earlier checkpoint that can be read.

TensorFlow's errors do not always name the file. Reading a whole checkpoint takes a while, so the
kit does it only after an error that may come from a damaged one. This module changes no file, and
never chooses another checkpoint itself; that is up to the user.
"""

from __future__ import annotations

import os
import re
from typing import Optional

import tensorflow as tf

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
    found = {}
    for path in tf.io.gfile.glob(os.path.join(folder, "model.ckpt-*.index")):
        prefix = path[: -len(".index")]
        step = prefix.rpartition("-")[2]
        if step.isdecimal():
            found[int(step)] = prefix
    return dict(sorted(found.items()))


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
