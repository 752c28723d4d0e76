"""tf.contrib.cluster_resolver: the names of `tf.distribute.cluster_resolver`."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

_SOURCE = tf.distribute.cluster_resolver

__all__ = [name for name in dir(_SOURCE) if not name.startswith("_")]

OLD_PATHS = ("python.training.cluster_resolver", "python.training.tpu_cluster_resolver")


class TPUClusterResolver(tf.distribute.cluster_resolver.TPUClusterResolver):
    """Finds a TPU by name. The empty name "" means no TPU, as programs with `use_tpu=False` say."""

    def __init__(self, tpu: Optional[str] = None, *args: Any, **kwargs: Any) -> None:
        self._no_tpu = tpu == ""
        if self._no_tpu:
            self.task_type, self.task_id = "worker", 0
        else:
            super().__init__(tpu, *args, **kwargs)

    def master(self, *args: Any, **kwargs: Any) -> Any:
        return "" if self._no_tpu else super().master(*args, **kwargs)

    def get_master(self) -> Any:
        return self.master()

    def cluster_spec(self) -> Any:
        return None if self._no_tpu else super().cluster_spec()

    def get_job_name(self) -> Any:
        return None if self._no_tpu else super().get_job_name()


def __getattr__(name: str) -> Any:
    return getattr(_SOURCE, name)
