"""`unfinished.json`: the step of a checkpoint that is being evaluated, exported or reported.

It is written before the checkpoint, and removed after its last export. At the end of a training, it
stays until the report page is written. If a process dies in between, the next start finds it, and
does what is missing before it trains on. Every later write can be repeated: an evaluation whose
metrics are in the history is not made again, nor is an export that has its name. A checkpoint that
a SIGTERM saves in the middle of a training has no such file, because an undisturbed training would
neither save nor evaluate it.
"""

from __future__ import annotations

import os
from typing import Optional

import tensorflow as tf

from feature_specs.files import documents


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
