"""One version of a model: a SavedModel in a session, asked by the names of its signatures.

A session, as TensorFlow Serving's own, and not `tf.saved_model.load`: closing it gives back what
the model held, and the functions of a program's global context do not grow with every version. It
is asked by way of `_make_callable_from_options`, as tf.keras' v1 backend does, since `run` and
`make_callable` refuse a shape that the placeholder has not, which TensorFlow Serving leaves to ops.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from estimator_kit.embeddings import dynamic_package

DEFAULT_SIGNATURE = "serving_default"


class LoadedModel:
    """A version in memory.

    Args:
      path: of the SavedModel.
      version: its number.
      intra_op_threads, inter_op_threads: of its session; 0 lets TensorFlow choose.
      memory_growth: whether memory of a GPU is taken as it is needed, and not all of it at once.
      longest_run_secs: after which `run` gives up; 0 is never.

    Attributes:
      path, version: as given.
      signatures: `{name: SignatureDef}`, without the one that initializes.

    Raises:
      OSError, tf.errors.OpError, ValueError, RuntimeError: it cannot be loaded, or needs ops of a
        package that is not there.
    """

    def __init__(
        self,
        path: str,
        version: int,
        *,
        intra_op_threads: int = 0,
        inter_op_threads: int = 0,
        memory_growth: bool = False,
        longest_run_secs: float = 0.0,
    ):
        self.path = path
        self._longest_run_ms = int(1000 * longest_run_secs)
        self.version = version
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=intra_op_threads,
            inter_op_parallelism_threads=inter_op_threads,
            gpu_options=tf.compat.v1.GPUOptions(allow_growth=memory_growth),
        )
        dynamic_package.load_ops_of(path)
        self._session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
        try:
            with self._session.graph.as_default():
                meta_graph = tf.compat.v1.saved_model.load(self._session, ["serve"], path)
        except BaseException:
            self._session.close()
            raise
        self.signatures: dict[str, Any] = {
            name: signature
            for name, signature in meta_graph.signature_def.items()
            if not name.startswith("__")
        }
        self._callables: dict[tuple[str, tuple[str, ...], tuple[str, ...]], Any] = {}
        self._lock = threading.Lock()

    def run(
        self, signature: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Outputs of a signature for its inputs; both are named as there, and have to exist.

        Inputs have the signature's types. Their shapes are for the model's ops to judge.

        Raises:
          tf.errors.OpError: an op fails, or `longest_run_secs` are over.
        """
        names, wanted = tuple(sorted(inputs)), tuple(outputs)
        definition = self.signatures[signature]
        fed = {definition.inputs[name].name: inputs[name] for name in names}
        fetched = [definition.outputs[name].name for name in wanted]
        made = sorted(set(fetched) - set(fed))
        if not made:
            return {name: fed[tensor] for name, tensor in zip(wanted, fetched)}
        call = self._callables.get((signature, names, wanted))
        if call is None:
            options = config_pb2.CallableOptions(feed=sorted(fed), fetch=made)
            options.run_options.timeout_in_ms = self._longest_run_ms
            with self._lock:  # A graph is changed by one thread at a time.
                call = self._session._make_callable_from_options(options)
                # Any subset of outputs may be asked for, and there may be many.
                if len(self._callables) < 1000:
                    self._callables[signature, names, wanted] = call
        found = dict(zip(made, map(_array, call(*(fed[name] for name in sorted(fed))))))
        return {name: {**fed, **found}[tensor] for name, tensor in zip(wanted, fetched)}

    def close(self) -> None:
        """Gives back what the model holds. No request may be under way."""
        self._callables.clear()
        self._session.close()
        del self._session


def _array(value: Any) -> np.ndarray:
    if not isinstance(value, bytes):
        return np.asarray(value)
    array = np.empty([], np.object_)  # Of one string without a dimension, TensorFlow makes bytes.
    array[()] = value
    return array
