"""Replaces `tensorflow.python.tpu.async_checkpoint`, removed in TensorFlow 2.16.

`AsyncCheckpointSaverHook` is a `tf.estimator.CheckpointSaverHook` that writes each checkpoint in a
thread, while training goes on. It writes the same files at the same steps as the hook of TensorFlow
2.15:

- A checkpoint is skipped if the one before it is still being written after 0.1 seconds.
- The checkpoint of the last step is always written, and training waits for it.
- Listeners are called in the thread, and cannot stop training.

An error in the thread is raised in training, at the next checkpoint or at the end. The hook also
works where eager execution is not disabled; the hook of TensorFlow 2.15 fails there.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Optional

import tensorflow as tf

# How long training waits for the checkpoint before, so that a small one is not skipped.
_PATIENCE_S = 0.1

_Hook: Any = tf.compat.v1.train.CheckpointSaverHook


class AsyncCheckpointSaverHook(_Hook):
    """Saves checkpoints every N steps or seconds, and does not stop training for it.

    Args:
      checkpoint_dir: the folder of the checkpoints.
      save_secs: the seconds from one checkpoint to the next. Give this or `save_steps`.
      save_steps: the steps from one checkpoint to the next.
      saver: the `tf.compat.v1.train.Saver` to use. None: the saver of the scaffold or graph.
      checkpoint_basename: how the names of the files start.
      scaffold: the `tf.compat.v1.train.Scaffold` whose saver is used.
      listeners: `tf.estimator.CheckpointSaverListener`s.
    """

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: Optional[int] = None,
        save_steps: Optional[int] = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Optional[Sequence[Any]] = None,
    ) -> None:
        super().__init__(
            checkpoint_dir,
            save_secs=save_secs,
            save_steps=save_steps,
            saver=saver,
            checkpoint_basename=checkpoint_basename,
            scaffold=scaffold,
            listeners=listeners,
        )
        self._thread: Optional[threading.Thread] = None
        self._error: Optional[BaseException] = None
        self._started_step: Optional[int] = None

    def end(self, session: Any) -> None:
        """Waits for the checkpoint in work, and writes one of the last step."""
        self._wait()
        last_step = session.run(self._global_step_tensor)
        if last_step != self._started_step:
            super()._save(session, last_step)
        for listener in self._listeners:
            listener.end(session, last_step)

    def _save(self, session: Any, step: int) -> bool:
        if self._thread is not None:
            self._thread.join(_PATIENCE_S)
        if self._thread is not None and self._thread.is_alive():
            tf.compat.v1.logging.info(
                "Checkpoint of step %d: skipped, because the one of step %d is still being "
                "written.",
                step,
                self._started_step,
            )
            return False
        self._wait()
        self._started_step = step
        self._thread = threading.Thread(target=self._write, args=(session, step))
        self._thread.start()
        return False

    def _write(self, session: Any, step: int) -> None:
        try:
            with session.graph.as_default():  # A new thread is in eager mode.
                super()._save(session, step)
        except BaseException as error:
            self._error = error

    def _wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
        error, self._error = self._error, None
        if error is not None:
            raise error
