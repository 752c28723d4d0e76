"""tf.contrib.tpu: TPUEstimator and its configuration, and the operations for TPUs.

TPUEstimator is tensorflow-estimator's; it trains on CPUs and GPUs with `use_tpu=False`. The
operations build the same graph as in TensorFlow 1.15; only a TPU can run most of them.
"""

from __future__ import annotations

# Explicit, because some of these are also names of modules.
from tensorflow.python.tpu.device_assignment import device_assignment as device_assignment
from tensorflow.python.tpu.tpu_optimizer import CrossShardOptimizer as CrossShardOptimizer

from . import _sources

__all__ = """
    AsyncCheckpointSaverHook CrossShardOptimizer DeviceAssignment InfeedQueue
    InputPipelineConfig RunConfig TPUConfig TPUEstimator TPUEstimatorSpec Topology
    batch_parallel bfloat16_scope core cross_replica_sum device_assignment
    export_estimator_savedmodel infeed_dequeue infeed_dequeue_tuple infeed_enqueue
    infeed_enqueue_tuple initialize_system outfeed_dequeue outfeed_dequeue_tuple outfeed_enqueue
    outfeed_enqueue_tuple outside_compilation repeat replicate rewrite shard shutdown_system
    while_loop
""".split()

OLD_PATHS = (
    "proto.compilation_result_pb2",
    "python.ops.tpu_ops",
    *(
        f"python.tpu.{name}"
        for name in (
            "async_checkpoint",
            "bfloat16",
            "device_assignment",
            "error_handling",
            "functional",
            "session_support",
            "tensor_tracer",
            "topology",
            "tpu",
            "tpu_config",
            "tpu_context",
            "tpu_estimator",
            "tpu_feed",
            "tpu_function",
            "tpu_optimizer",
            "tpu_sharding",
            "tpu_system_metadata",
            "training_loop",
            "util",
        )
    ),
)

REMEDIES = {
    "EstimatorSpec": "Use tf.estimator.EstimatorSpec, or tf.contrib.tpu.TPUEstimatorSpec.",
    "TPUDistributionStrategy": "Use tf.distribute.TPUStrategy, or train without a strategy on a "
    "CPU or GPU.",
    "keras_to_tpu_model": "Build the Keras model under tf.distribute.TPUStrategy, or train the "
    "model itself on a CPU or GPU.",
    "keras_support": "Build the Keras model under tf.distribute.TPUStrategy, or train the model "
    "itself on a CPU or GPU.",
    "profiler": "Use tf.profiler.experimental of TensorFlow 2.",
}

_ESTIMATOR = "tensorflow_estimator.python.estimator.tpu"
_PYTHON = "tensorflow.python.tpu"

__getattr__ = _sources.lookup(
    __name__,
    [
        *(
            f"{_ESTIMATOR}.{name}"
            for name in ("tpu_estimator", "tpu_config", "tpu_context", "error_handling", "util")
        ),
        *(
            f"{_PYTHON}.{name}"
            for name in (
                "tpu",
                "tpu_replication",
                "tpu_feed",
                "bfloat16",
                "training_loop",
                "topology",
                "device_assignment",
                "tpu_function",
                "tpu_optimizer",
                "tpu_sharding",
                "tpu_system_metadata",
                "tensor_tracer",
                "async_checkpoint",
                "functional",
                "ops.tpu_ops",
            )
        ),
        "tensorflow.core.protobuf.tpu.compilation_result_pb2",
        _PYTHON,
    ],
)
