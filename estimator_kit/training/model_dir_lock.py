"""The lock of a model directory: only one start trains in it at a time."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Optional

import tensorflow as tf

from estimator_kit.checkpoints import reading
from estimator_kit.errors import ConfigError, Locked
from feature_specs.files import owners


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
