"""Training steps that several processes make together: `--strategy=sync_replicas`.

TensorFlow's `SyncReplicasOptimizer` (Chen et al., Revisiting Distributed Synchronous SGD, 2016)
collects the gradients of a number of batches on the parameter servers, applies their mean, and lets
all processes continue. With backup workers it collects fewer batches than there are processes, and
drops late batches.

The mean of a dense gradient is over all batches of the step. The mean for a row of a table is over
the batches that contain the row, as TensorFlow's accumulators count. Limits on gradients apply to
the mean.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf


@dataclasses.dataclass
class Synchronous:
    """How the processes of a cluster make a step together, as one task sees it.

    Attributes:
      replicas: the number of processes that train.
      aggregate: the number of batches that a step waits for.
      is_chief: whether this task applies the steps.
      hook: the hook that the session of the last built graph needs.
      waiting: the names of the ops in that graph that wait for the step of all processes. They end
        a loop, as the input's reader does, when the chief ends.
    """

    replicas: int
    aggregate: int
    is_chief: bool
    hook: Optional[Any] = None
    waiting: frozenset[str] = frozenset()

    def step(
        self,
        pairs: Sequence[tuple[Any, Any]],
        apply: Callable[[Sequence[tuple[Any, Any]]], tf.Operation],
        global_step: Any,
    ) -> tf.Operation:
        """The op that submits the gradients of a batch. It ends when the step is done.

        Args:
          pairs: (gradient, variable). In a sparse gradient, each id occurs once.
          apply: makes the op that applies gradients, from the means of the gradients.
          global_step: the global step, which each step increments once.
        """
        optimizer = tf.compat.v1.train.SyncReplicasOptimizer(
            _Applying(apply),
            replicas_to_aggregate=self.aggregate,
            total_num_replicas=self.replicas,
        )
        in_order = [(_in_order(gradient), variable) for gradient, variable in pairs]
        step = optimizer.apply_gradients(in_order, global_step=global_step)
        # With 0 tokens, all processes wait for the first step. With the default number of tokens,
        # the first step would not be made by all processes.
        hook = optimizer.make_session_run_hook(self.is_chief, num_tokens=0)
        # Processes that wait for a token when the chief ends treat this as the end of their input.
        queue = optimizer._sync_token_queue
        closing = queue.close() if self.is_chief else None
        self.waiting = frozenset(
            op.name for op in queue.queue_ref.consumers() if op.type == "QueueDequeueV2"
        )
        self.hook = _OwnThreads(hook, closing)
        return step


class _Applying(tf.compat.v1.train.Optimizer):
    """The optimizer that SyncReplicasOptimizer wraps: several optimizers for their variables."""

    def __init__(self, apply: Callable[[Sequence[tuple[Any, Any]]], tf.Operation]):
        super().__init__(use_locking=False, name="together")
        self._apply = apply

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Optional[str] = None
    ) -> tf.Operation:
        with tf.control_dependencies([self._apply(list(grads_and_vars))]):
            return tf.compat.v1.assign_add(global_step, 1).op


class _OwnThreads(tf.compat.v1.train.SessionRunHook):
    """Gives the thread of a hook a separate coordinator. The session's would wait long for it.

    Args:
      hook: the hook.
      at_end: an op to run at the end, or None.
    """

    def __init__(self, hook: Any, at_end: Optional[tf.Operation]):
        self._hook, self._at_end = hook, at_end
        self._coordinator = tf.compat.v1.train.Coordinator()

    def begin(self) -> None:
        self._hook.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._coordinator = tf.compat.v1.train.Coordinator()
        self._hook.after_create_session(session, self._coordinator)

    def end(self, session: Any) -> None:
        self._coordinator.request_stop()
        if self._at_end is not None:
            with contextlib.suppress(tf.errors.OpError):  # The thread may have closed it.
                session.run(self._at_end)


def _in_order(gradient: Any) -> Any:
    """The rows of a sparse gradient in the order of their ids, as the accumulators expect them."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    order = tf.argsort(gradient.indices)
    values, ids = tf.gather(gradient.values, order), tf.gather(gradient.indices, order)
    return tf.IndexedSlices(values, ids, gradient.dense_shape)
