"""One version of a model: a SavedModel in a session, which runs its signatures by name.

It uses a session, like TensorFlow Serving, and not `tf.saved_model.load`. Closing a session frees
the memory of the model, and the functions in the program's global context do not grow with each
version. It runs the session with `_make_callable_from_options`, like tf.keras' v1 backend, because
`run` and `make_callable` refuse shapes that differ from the placeholder's. TensorFlow Serving lets
the ops check them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from estimator_kit.checkpoints import kept_files
from estimator_kit.serving.private_features import PrivateFeatures


class _Plan(NamedTuple):
    """How to run a signature with some inputs and outputs; made once.

    Attributes:
      call: runs the session, or None if all outputs are inputs.
      fed: the inputs in the order of the call's arguments.
      outputs: each output with its place in the results of the call, or with the input that it is.
    """

    call: Optional[Callable[..., Any]]
    fed: tuple[str, ...]
    outputs: tuple[tuple[str, Union[int, str]], ...]


class LoadedModel:
    """A version in memory.

    Args:
      path: the folder of the SavedModel.
      version: its number.
      threads: the threads of its session; 0 lets TensorFlow choose.
      longest_run_secs: the time limit of `run`; 0 for no limit.
      private: the attribute.

    Attributes:
      path, version: the arguments.
      signatures: `{name: SignatureDef}`, without the signature that initializes the model.
      private: what is private in its requests; None if that is not known.

    Raises:
      ExportError: a vocabulary of the export was changed.
      OSError, tf.errors.OpError, ValueError, RuntimeError: the model does not load, or needs the
        ops of a package that is not installed.
    """

    def __init__(
        self,
        path: str,
        version: int,
        *,
        threads: int = 0,
        longest_run_secs: float = 0.0,
        private: Optional[PrivateFeatures] = None,
    ):
        self.path = path
        self._longest_run_ms = int(1000 * longest_run_secs)
        self.version = version
        self.private = private
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=threads,
            inter_op_parallelism_threads=threads,
            gpu_options=tf.compat.v1.GPUOptions(allow_growth=True),
        )
        kept_files.check_export(path)
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
        self._plans: dict[tuple[str, tuple[str, ...], tuple[str, ...]], _Plan] = {}
        self._lock = threading.Lock()

    def run(
        self, signature: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Runs a signature. The names of inputs and outputs must exist in it.

        Inputs have the types of the signature. The ops of the model check their shapes.

        Raises:
          tf.errors.OpError: an op fails, or the run takes longer than `longest_run_secs`.
        """
        key = (signature, tuple(sorted(inputs)), tuple(outputs))
        plan = self._plans.get(key) or self._plan(*key)
        results = plan.call(*[inputs[name] for name in plan.fed]) if plan.call is not None else ()
        return {
            name: inputs[source] if isinstance(source, str) else _array(results[source])
            for name, source in plan.outputs
        }

    def _plan(self, signature: str, names: tuple[str, ...], wanted: tuple[str, ...]) -> _Plan:
        definition = self.signatures[signature]
        fed = {definition.inputs[name].name: name for name in names}
        fetched = [definition.outputs[name].name for name in wanted]
        computed = sorted(set(fetched) - set(fed))
        outputs = tuple(
            (name, fed[tensor] if tensor in fed else computed.index(tensor))
            for name, tensor in zip(wanted, fetched)
        )
        options = config_pb2.CallableOptions(feed=sorted(fed), fetch=computed)
        options.run_options.timeout_in_ms = self._longest_run_ms
        with self._lock:  # Only one thread at a time may change a graph.
            call = self._session._make_callable_from_options(options) if computed else None
            plan = _Plan(call, tuple(fed[tensor] for tensor in sorted(fed)), outputs)
            # Requests may choose any of very many subsets of outputs.
            if len(self._plans) < 1000:
                self._plans[signature, names, wanted] = plan
        return plan

    def close(self) -> None:
        """Frees the model. No request may be running."""
        self._plans.clear()
        self._session.close()
        del self._session


def _array(value: Any) -> np.ndarray:
    if not isinstance(value, bytes):
        return np.asarray(value)
    array = np.empty([], np.object_)  # TensorFlow returns a scalar string as bytes.
    array[()] = value
    return array
