"""tf.contrib.training: HParams, training steps with clipped gradients, and evaluation in a loop.

HParams, `checkpoints_iterator` and the hooks need nothing else. The loops and `create_train_op`
come from the package tf_slim.
"""

from __future__ import annotations

from typing import Any, Callable

import tensorflow.compat.v1 as tf
from tensorflow.python.training import checkpoint_utils
from tensorflow.python.training import evaluation as _evaluation

from . import _slim
from ._hparam_values import parse_values as parse_values
from ._hparams import HParams as HParams

_OF_SLIM = """
    SummaryAtEndHook add_gradients_summaries clip_gradient_norms clip_gradient_norms_fn
    create_train_op evaluate_repeatedly multiply_gradients train
""".split()

__all__ = [
    "GreedyLoadBalancingStrategy",
    "HParams",
    "StopAfterNEvalsHook",
    "byte_size_load_fn",
    "checkpoints_iterator",
    "evaluate_once",
    "get_or_create_eval_step",
    "parse_values",
    "wait_for_new_checkpoint",
    *_OF_SLIM,
]

OLD_PATHS = tuple(
    f"python.training.{name}"
    for name in "device_setter evaluation feeding_queue_runner hparam training".split()
)

_RESAMPLE = "Use tf.data.experimental.rejection_resample or tf.data.Dataset.sample_from_datasets."
_BUCKET = "Use tf.data.experimental.bucket_by_sequence_length, which buckets a tf.data.Dataset."
_STATES = "Split the sequences in a tf.data.Dataset, and keep the states in variables."

REMEDIES = {
    "FeedingQueueRunner": "Use tf.data.Dataset.from_generator.",
    "Hparams": "The name is HParams.",
    "NextQueuedSequenceBatch": _STATES,
    "RandomStrategy": "Use GreedyLoadBalancingStrategy, or the default of "
    "tf.train.replica_device_setter.",
    "SequenceQueueingStateSaver": _STATES,
    "batch_sequences_with_states": _STATES,
    "bucket": "Use tf.data.experimental.group_by_window, which groups a tf.data.Dataset.",
    "bucket_by_sequence_length": _BUCKET,
    "rejection_sample": _RESAMPLE,
    "resample_at_rate": _RESAMPLE,
    "stratified_sample": _RESAMPLE,
    "weighted_resample": _RESAMPLE,
}

StopAfterNEvalsHook = _evaluation._StopAfterNEvalsHook
checkpoints_iterator = tf.train.checkpoints_iterator
evaluate_once = _evaluation._evaluate_once
get_or_create_eval_step = _evaluation._get_or_create_eval_step
wait_for_new_checkpoint = checkpoint_utils.wait_for_new_checkpoint


def __getattr__(name: str) -> Any:
    if name in _OF_SLIM:
        training = _slim.load("tf_slim.training.training")
        holder = training if hasattr(training, name) else _slim.load("tf_slim.training.evaluation")
        return getattr(holder, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class GreedyLoadBalancingStrategy:
    """For `tf.train.replica_device_setter`: each variable goes to the task with the least load."""

    def __init__(self, num_tasks: int, load_fn: Callable[[Any], float]) -> None:
        self._loads = [0.0] * num_tasks
        self._load_fn = load_fn

    def __call__(self, op: Any) -> int:
        task = self._loads.index(min(self._loads))
        self._loads[task] += self._load_fn(op)
        return task


def byte_size_load_fn(op: Any) -> int:
    """The load of a variable: the bytes of its elements.

    Raises:
      ValueError: its shape is not fully known.
    """
    shape = tf.TensorShape(op.get_attr("shape"))
    if not shape.is_fully_defined():
        raise ValueError(f"byte_size_load_fn: {op.name} needs a known shape, got {shape}")
    return int(shape.num_elements()) * int(tf.as_dtype(op.get_attr("dtype")).size)
