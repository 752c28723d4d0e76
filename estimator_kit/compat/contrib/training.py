"""tf.contrib.training: HParams, training steps with clipped gradients, and evaluation in a loop.

HParams, `checkpoints_iterator` and the hooks need nothing else. The loops and `create_train_op` are
those of the package tf_slim.
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.training import checkpoint_utils
from tensorflow.python.training import evaluation as _evaluation
from tensorflow.python.training.device_setter import (
    GreedyLoadBalancingStrategy as GreedyLoadBalancingStrategy,
)
from tensorflow.python.training.device_setter import byte_size_load_fn as byte_size_load_fn

from . import _slim
from ._hparam_values import parse_values as parse_values
from ._hparams import HParams as HParams

_OF_SLIM = """
    SummaryAtEndHook add_gradients_summaries clip_gradient_norms clip_gradient_norms_fn
    create_train_op evaluate_repeatedly multiply_gradients train
""".split()

__all__ = [
    "FeedingQueueRunner",
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
        return getattr(_slim.load("tf_slim.training"), name)
    if name == "FeedingQueueRunner":
        from tensorflow_estimator.python.estimator.inputs.queues import feeding_queue_runner

        return feeding_queue_runner._FeedingQueueRunner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
