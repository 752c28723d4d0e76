"""`tf.data.experimental.CheckpointInputPipelineHook`, which TensorFlow 2.16 removed.

The hook saves the state of the iterators of a training, in the folder of the model's checkpoints
and with the same frequency. When training starts again, the input goes on where it was. The files
are as in TensorFlow 2.15 (`input.ckpt-<step>`, `checkpoint_input`), so each version reads the
other's.

It saves only the iterators of the graph's collection "iterators", and never a variable.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import Any, Optional

NAME = "CheckpointInputPipelineHook"

_HOLDERS = ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2")
_POLICIES = ("fail", "warn", "ignore")


def install(undo: contextlib.ExitStack) -> None:
    """Adds the hook to `tf.data.experimental`; `undo` removes it."""
    hook = _hook_class()
    for name in _HOLDERS:
        experimental = importlib.import_module(name).data.experimental
        if not hasattr(experimental, NAME):
            setattr(experimental, NAME, hook)
            undo.callback(delattr, experimental, NAME)


def _hook_class() -> type:
    import tensorflow.compat.v1 as tf
    from tensorflow.python.data.ops import iterator_ops

    class CheckpointInputPipelineHook(tf.train.SessionRunHook):
        """Saves and restores the state of the input pipeline of `Estimator.train`.

        Args:
          estimator: its model_dir and its RunConfig say where and how often to save.
          external_state_policy: what to do if the state of the input cannot be saved completely,
            such as a random number without a seed: "fail" (the default, None), "warn" or
            "ignore".

        Raises:
          ValueError: the policy is another one.
        """

        def __init__(self, estimator: Any, external_state_policy: Optional[str] = None) -> None:
            policy = external_state_policy or "fail"
            if policy not in _POLICIES:
                raise ValueError(
                    f"external_state_policy: expected one of {', '.join(_POLICIES)}, got {policy!r}"
                )
            config = estimator.config
            self._policy = tf.data.experimental.ExternalStatePolicy[policy.upper()]
            name = "input"
            if config.num_worker_replicas > 1:
                name += f"_{config.task_type}_{config.task_id}"
            self._folder = estimator.model_dir
            self._latest = f"checkpoint_{name}"
            self._path = os.path.join(self._folder, f"{name}.ckpt")
            self._timer = tf.train.SecondOrStepTimer(
                every_secs=config.save_checkpoints_secs, every_steps=config.save_checkpoints_steps
            )

        def begin(self) -> None:
            iterators = tf.get_collection(iterator_ops.GLOBAL_ITERATORS)
            self._saver = tf.train.Saver(
                [
                    iterator_ops._IteratorSaveable(
                        iterator, iterator.name, external_state_policy=self._policy
                    )
                    for iterator in iterators
                ],
                sharded=True,
            )
            self._global_step = tf.train.get_global_step()

        def after_create_session(self, session: Any, coord: Any) -> None:
            self._is_first = True

        def before_run(self, run_context: Any) -> Any:
            # Not earlier: after_create_session of another hook initializes the iterators.
            if self._is_first:
                self._is_first = False
                self._restore_or_save(run_context.session)
            return tf.train.SessionRunArgs(self._global_step)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            if self._timer.should_trigger_for_step(run_values.results + 1):
                step = run_context.session.run(self._global_step)
                if self._timer.should_trigger_for_step(step):
                    self._save(run_context.session, step)

        def end(self, session: Any) -> None:
            step = session.run(self._global_step)
            if step != self._timer.last_triggered_step():
                self._save(session, step)

        def _restore_or_save(self, session: Any) -> None:
            latest = tf.train.latest_checkpoint(self._folder, self._latest)
            if latest:
                self._saver.restore(session, latest)
            else:
                self._save(session, session.run(self._global_step))

        def _save(self, session: Any, step: int) -> None:
            self._timer.update_last_triggered_step(step)
            self._saver.save(
                session,
                self._path,
                global_step=step,
                latest_filename=self._latest,
                write_meta_graph=False,
            )

    CheckpointInputPipelineHook.__qualname__ = NAME
    return CheckpointInputPipelineHook
