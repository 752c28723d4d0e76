"""Keras layers and models in a ModelFn: `self.keras(layer, inputs, mode)`, which calls `call`.

    hidden = self.keras(tf.keras.layers.BatchNormalization(), hidden, mode)

An Estimator's graph takes from a Keras layer its variables alone. The rest is done here: a layer,
and all layers inside it, are told whether this is training; updates, such as those of moving
averages, go to UPDATE_OPS, which `minimize` runs; regularization losses, each once however often a
layer is called, to REGULARIZATION_LOSSES, which ModelFn adds to the loss; variables of layers with
`trainable = False` leave TRAINABLE_VARIABLES.

Keras here is Keras 2: `tf.keras`, which `estimator_kit.compat` makes the package tf_keras after
TensorFlow 2.15. Keras 3 has no updates in a graph, so its layers are refused. `collect` ends the
making of a model; it finds layers that were called past this module, which would be trained in
part. Nothing is kept outside of the graph. The metrics of a Keras model are not taken: those of
the spec's objectives are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.errors import ConfigError

# Graph collections: the layers that were called, and the names of the losses and updates that
# these calls made.
_CALLED = "estimator_kit/keras/called"
_MADE = "estimator_kit/keras/made"

# The tensor that Keras asks where nobody says whether it is training.
_LEARNING_PHASE = "keras_learning_phase"

_REMEDY = "write self.keras(layer, inputs, mode) in the place of layer(inputs)"
_KERAS_3 = (
    "Keras 3, which has no updates in an Estimator's graph; take Keras 2, which tf.keras is here: "
    "`import estimator_kit.compat` first, then `from tensorflow import keras` (or `import tf_keras "
    "as keras`) in the place of `import keras`"
)


def call(layer: Any, inputs: Any, *, training: bool, **arguments: Any) -> Any:
    """The outputs of a Keras layer or model; see the module.

    Variables are named by the variable scope and the layer: `tower/dense/kernel` in a scope
    `tower`. Layers without a name of their own are numbered as they are made, so make the same
    ones in every mode (what differs in training is `training`, not which layers there are).

    Args:
      layer: of `tf.keras`, made in this graph, that is, in `logits`.
      inputs: what the layer takes.
      training: whether dropout drops and batch normalization takes the batch's statistics.
      **arguments: of the layer's call, as `mask`.

    Raises:
      ConfigError: it is no layer of `tf.keras`, was made outside of this graph, or is a stateful
        recurrent layer.
    """
    _check_kind(layer)
    graph = tf.compat.v1.get_default_graph()
    _check_graph(layer, graph)
    # Joining the layers of a functional model made some, too, from placeholders.
    before = _losses_and_updates(layer)
    # Not the name scope: it is numbered by how often it was entered, which may differ by mode.
    scope = tf.compat.v1.get_variable_scope().name
    caller = _caller_class()(layer, f"{scope}/" if scope else None)
    outputs = caller(inputs, training=training, **arguments)
    _check_graph(layer, graph)
    graph.add_to_collection(_CALLED, layer)
    for name in sorted(_losses_and_updates(layer) - before):
        graph.add_to_collection(_MADE, name)
    return outputs


def collect(outputs: Iterable[tf.Tensor]) -> None:
    """Puts what `call` made into the graph's collections; once, after all calls.

    Args:
      outputs: all that the model computes.

    Raises:
      ConfigError: a Keras layer was not called through `call`.
    """
    keys = tf.compat.v1.GraphKeys
    graph = tf.compat.v1.get_default_graph()
    layers, made = graph.get_collection(_CALLED), set(graph.get_collection(_MADE))
    for name in (_CALLED, _MADE):  # A MetaGraph, which training writes, cannot hold them.
        graph.clear_collection(name)
    _check_all_called(layers, outputs, graph)
    if not layers:
        return
    everything = tf.keras.layers.Layer(name="estimator_kit_keras")
    everything.layers = layers  # Keras lists what is in several of them once.
    # A loss of a variable is made anew each time Keras is asked; one of a call is always the same.
    for loss, again in zip(everything.losses, everything.losses):
        if loss is not again or loss.name in made:
            graph.add_to_collection(keys.REGULARIZATION_LOSSES, loss)
    for update in everything.updates:
        if update.name in made:
            graph.add_to_collection(keys.UPDATE_OPS, update)
    frozen = {variable.ref() for variable in everything.non_trainable_variables}
    trainable = graph.get_collection_ref(keys.TRAINABLE_VARIABLES)
    trainable[:] = [variable for variable in trainable if variable.ref() not in frozen]


_caller: Any = None


def _caller_class() -> Any:
    # Made at its first use: importing this module does not load Keras.
    global _caller
    if _caller is None:

        class Caller(tf.keras.layers.Layer):
            """Calls a layer from within a call, in which Keras tells `training` to all layers.

            A layer without that argument whose own layers have it is told in no other way.
            """

            def __init__(self, layer: Any, scope: Optional[str]):
                super().__init__(name="estimator_kit_keras")
                self.layer, self.scope = layer, scope

            def call(self, inputs: Any, training: Any = None, **arguments: Any) -> Any:
                with tf.compat.v1.get_default_graph().name_scope(self.scope):
                    return self.layer(inputs, **arguments)

        _caller = Caller
    return _caller


def _losses_and_updates(layer: Any) -> set[str]:
    return {made.name for made in (*layer.losses, *layer.updates)}


def _check_kind(layer: Any) -> None:
    if not isinstance(layer, tf.keras.layers.Layer):
        if any(base.__module__.startswith("keras.src.layers") for base in type(layer).__mro__):
            raise ConfigError(f"self.keras: the layer {layer.name!r} is of {_KERAS_3}")
        raise ConfigError(f"self.keras: got {layer!r}, expected a layer or model of tf.keras")
    for inner in (layer, *layer.submodules):
        if isinstance(inner, tf.keras.layers.RNN) and inner.stateful:
            raise ConfigError(
                f"self.keras: the layer {inner.name!r} is stateful: it would carry states from "
                "the rows of one batch or request to those of the next; leave stateful out"
            )


def _check_graph(layer: Any, graph: tf.Graph) -> None:
    for variable in layer.variables:
        if getattr(getattr(variable, "handle", variable), "graph", None) is not graph:
            raise ConfigError(
                f"self.keras: the layer {layer.name!r} has variables of another graph: training, "
                "evaluation and export have a graph each; make layers in logits, not before"
            )


def _check_all_called(layers: Any, outputs: Iterable[tf.Tensor], graph: tf.Graph) -> None:
    known = {variable.ref() for layer in layers for variable in layer.variables}
    folders = {_folder(tf.keras.Model.__module__.split(".")[0]), _folder("keras")} - {None}
    for variable in tf.compat.v1.global_variables():
        if variable.ref() in known:
            continue
        makers = [frame.filename for frame in variable.op.traceback]
        if any("legacy_tf_layers" in file for file in makers):
            continue  # tf.compat.v1.layers, which do by themselves what `collect` does.
        found = {f for f in folders if any(file.startswith(str(f)) for file in makers)}
        if not found:
            continue
        if found == {_folder("keras")} and not tf.keras.Model.__module__.startswith("keras."):
            raise ConfigError(f"the variable {variable.op.name} is of a layer of {_KERAS_3}")
        raise ConfigError(
            f"the variable {variable.op.name} is of a Keras layer that was not called through "
            f"self.keras; its regularization losses and updates would be lost: {_REMEDY}"
        )
    if _depends_on(outputs, _LEARNING_PHASE):
        raise ConfigError(
            "a Keras layer that differs in training, such as Dropout, was not called through "
            f"self.keras and would never be told that it is training: {_REMEDY}"
        )


def _folder(package: str) -> Optional[str]:
    """Where the files of an imported package are, or None."""
    file = getattr(sys.modules.get(package), "__file__", None)
    return os.path.join(os.path.dirname(file), "") if file else None


def _depends_on(outputs: Iterable[tf.Tensor], name: str) -> bool:
    waiting, seen = [tensor.op for tensor in outputs], set()
    while waiting:
        op = waiting.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.name.rpartition("/")[2] == name:
            return True
        waiting.extend([*(tensor.op for tensor in op.inputs), *op.control_inputs])
    return False
