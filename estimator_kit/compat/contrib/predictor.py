"""tf.contrib.predictor: calls a SavedModel, or the model of an Estimator, in this process.

A predictor keeps one session open until the process ends. It never changes the model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Optional

import tensorflow.compat.v1 as tf
from tensorflow.python.saved_model.model_utils import export_utils

from ._predictor import Predictor

__all__ = ["from_estimator", "from_saved_model"]

OLD_PATHS = ("predictor", "predictor_factories", "saved_model_predictor")

REMEDIES = {
    "from_contrib_estimator": "Use from_estimator: tf.contrib.learn.Estimator is a "
    "tf.estimator.Estimator here.",
}


def from_saved_model(
    export_dir: str,
    signature_def_key: Optional[str] = None,
    signature_def: Any = None,
    input_names: Optional[Mapping[str, str]] = None,
    output_names: Optional[Mapping[str, str]] = None,
    tags: Any = None,
    graph: Any = None,
    config: Any = None,
) -> Predictor:
    """A predictor of a SavedModel of TensorFlow 1 or 2.

    Args:
      export_dir: the folder of the SavedModel.
      signature_def_key: the signature; "serving_default" if nothing says otherwise.
      signature_def: a signature, instead of its key.
      input_names, output_names: the tensor of each input and output, instead of a signature.
      tags: the tags of the graph, as a comma-separated text or a collection; "serve" if None.
      graph: the graph to load into; a new one if None.
      config: the `tf.ConfigProto` of the session.

    Raises:
      ValueError: the arguments name the inputs and outputs in more than one way, or the model does
        not have the signature.
    """
    ways = [signature_def_key, signature_def, input_names or output_names]
    if sum(way is not None for way in ways) > 1 or (input_names is None) != (output_names is None):
        raise ValueError(
            "You must specify at most one of signature_def_key, signature_def, or input_names "
            "with output_names"
        )
    graph = graph or tf.Graph()
    with graph.as_default():
        session = tf.Session(config=config)
        loaded = tf.saved_model.loader.load(session, _tags(tags), export_dir)
    if input_names is None or output_names is None:
        signature = signature_def or _signature(loaded, signature_def_key, export_dir)
        input_names = {name: info.name for name, info in signature.inputs.items()}
        output_names = {name: info.name for name, info in signature.outputs.items()}
    return Predictor(graph, session, _tensors(graph, input_names), _tensors(graph, output_names))


def _tags(tags: Any) -> Collection[str]:
    if tags is None:
        return [tf.saved_model.tag_constants.SERVING]
    return tags.split(",") if isinstance(tags, str) else list(tags)


def _signature(loaded: Any, key: Optional[str], export_dir: str) -> Any:
    key = key or tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if key not in loaded.signature_def:
        raise ValueError(
            f"Got signature_def_key {key!r} for {export_dir}. Available signatures are "
            f"{sorted(loaded.signature_def)}."
        )
    return loaded.signature_def[key]


def _tensors(graph: Any, names: Mapping[str, str]) -> dict[str, Any]:
    return {name: graph.get_tensor_by_name(tensor) for name, tensor in names.items()}


def from_estimator(
    estimator: Any,
    serving_input_receiver_fn: Any,
    output_key: Optional[str] = None,
    graph: Any = None,
    config: Any = None,
) -> Predictor:
    """A predictor of the last checkpoint of a `tf.estimator.Estimator`.

    Args:
      output_key: the export output; "serving_default" if None.
    """
    graph = graph or tf.Graph()
    with graph.as_default():
        receiver = serving_input_receiver_fn()
        signature = _estimator_signature(estimator, receiver, output_key)
        session = tf.train.MonitoredSession(
            session_creator=tf.train.ChiefSessionCreator(
                config=config, checkpoint_dir=estimator.model_dir
            )
        )
    inputs = {name: info.name for name, info in signature.inputs.items()}
    outputs = {name: info.name for name, info in signature.outputs.items()}
    return Predictor(graph, session, _tensors(graph, inputs), _tensors(graph, outputs))


def _estimator_signature(estimator: Any, receiver: Any, output_key: Optional[str]) -> Any:
    key = output_key or tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    spec = estimator.model_fn(
        receiver.features, None, tf.estimator.ModeKeys.PREDICT, estimator.config
    )
    signatures = export_utils.build_all_signature_defs(
        receiver.receiver_tensors,
        export_utils.get_export_outputs(spec.export_outputs, spec.predictions),
    )
    if key not in signatures:
        raise ValueError(f"output_key must be one of {sorted(signatures)}; got {key}.")
    return signatures[key]
