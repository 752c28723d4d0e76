"""tf.contrib.distribute: the strategies of `tf.distribute`, with the arguments of tf.contrib.

`num_gpus` chooses the first GPUs of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from . import _sources

__all__ = """
    AllReduceCrossDeviceOps AllReduceCrossTowerOps CollectiveAllReduceStrategy CrossDeviceOps
    DistributeConfig DistributionStrategy MirroredStrategy OneDeviceStrategy
    ParameterServerStrategy ReplicaContext TPUStrategy get_cross_replica_context
    get_distribution_strategy get_loss_reduction get_replica_context get_strategy
    has_distribution_strategy has_strategy in_cross_replica_context initialize_tpu_system
    require_replica_context
""".split()

OLD_PATHS = tuple(
    f"python.{name}"
    for name in """
        collective_all_reduce_strategy cross_device_ops mirrored_strategy one_device_strategy
        parameter_server_strategy tpu_strategy
    """.split()
)

_LOOP = "Train with a tf.estimator.Estimator and RunConfig(train_distribute=strategy)."

REMEDIES = {
    "Monitor": _LOOP,
    "MultiWorkerAllReduce": "Use CollectiveAllReduceStrategy.",
    "StandardInputStep": _LOOP,
    "StandardSingleLossStep": _LOOP,
    "Step": _LOOP,
    "run_standard_tensorflow_server": "Call tf.estimator.train_and_evaluate in each process of the "
    "cluster; it starts the server.",
}

__getattr__ = _sources.lookup(
    __name__,
    [
        "tensorflow._api.v2.compat.v1.distribute",
        "tensorflow.python.distribute.distribute_lib",
    ],
)

DistributionStrategy = tf.distribute.Strategy
OneDeviceStrategy = tf.distribute.OneDeviceStrategy
get_distribution_strategy = tf.distribute.get_strategy
has_distribution_strategy = tf.distribute.has_strategy
initialize_tpu_system = tf.tpu.experimental.initialize_tpu_system


class DistributeConfig(NamedTuple):
    """For RunConfig(experimental_distribute=...)."""

    train_distribute: Any = None
    eval_distribute: Any = None
    remote_cluster: Any = None


class MirroredStrategy(tf.distribute.MirroredStrategy):
    """One replica of the variables on each GPU of this machine."""

    def __init__(
        self,
        devices: Optional[Sequence[str]] = None,
        num_gpus: Optional[int] = None,
        num_gpus_per_worker: Optional[int] = None,
        cross_device_ops: Any = None,
        auto_shard_dataset: bool = False,
        cross_tower_ops: Any = None,
    ) -> None:
        """Give `devices` or `num_gpus`; without them it takes all GPUs, or the CPU.

        `auto_shard_dataset` is ignored: tf.data shards datasets by `tf.data.Options`.
        """
        if num_gpus is not None and num_gpus_per_worker is not None:
            raise ValueError(
                "You cannot specify both `num_gpus` and `num_gpus_per_worker`. Give `num_gpus`."
            )
        count = num_gpus if num_gpus is not None else num_gpus_per_worker
        if devices is not None and count is not None:
            raise ValueError("Must only specify one of `devices` and `num_gpus`.")
        if count is not None:
            devices = [f"/device:GPU:{place}" for place in range(count)] or ["/device:CPU:0"]
        super().__init__(devices, cross_device_ops or cross_tower_ops)


class CollectiveAllReduceStrategy(tf.distribute.experimental.MultiWorkerMirroredStrategy):
    """One replica of the variables on each worker of TF_CONFIG."""

    def __init__(self, num_gpus_per_worker: int = 0, communication: Any = None) -> None:
        """`num_gpus_per_worker` is ignored: each worker uses the GPUs that it sees."""
        if communication is None:
            communication = tf.distribute.experimental.CollectiveCommunication.AUTO
        super().__init__(communication)


class ParameterServerStrategy(tf.distribute.experimental.ParameterServerStrategy):
    """Variables on the parameter servers of TF_CONFIG."""

    def __init__(self, num_gpus_per_worker: int = 0) -> None:
        """`num_gpus_per_worker` is ignored: each worker uses the GPUs that it sees."""
        super().__init__()


class TPUStrategy(tf.distribute.experimental.TPUStrategy):
    """One replica of the variables on each core of a TPU."""

    def __init__(
        self,
        tpu_cluster_resolver: Any = None,
        steps_per_run: Optional[int] = None,
        device_assignment: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(tpu_cluster_resolver, steps_per_run, device_assignment)


def AllReduceCrossDeviceOps(  # noqa: N802
    all_reduce_alg: str = "nccl",
    num_packs: int = 1,
    agg_small_grads_max_bytes: int = 0,
    agg_small_grads_max_group: int = 10,
) -> Any:
    """How gradients are added: "nccl" or "hierarchical_copy". The last two are ignored."""
    if all_reduce_alg == "hierarchical_copy":
        return tf.distribute.HierarchicalCopyAllReduce(num_packs)
    return tf.distribute.NcclAllReduce(num_packs)


AllReduceCrossTowerOps = AllReduceCrossDeviceOps
