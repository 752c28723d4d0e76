"""Calls Keras layers and models in a ModelFn: `self.keras(layer, inputs, mode)` uses `call`.

    hidden = self.keras(tf.keras.layers.BatchNormalization(), hidden, mode)

An Estimator's graph gets only the variables of a Keras layer. This module does the rest:

- It tells a layer, and all layers inside it, whether this is training.
- It adds updates, such as updates of moving averages, to UPDATE_OPS, which `minimize` runs.
- It adds regularization losses to REGULARIZATION_LOSSES, which ModelFn adds to the loss. A
  loss is added once, even if a layer is called several times.
- It removes the variables of layers with `trainable = False` from TRAINABLE_VARIABLES.
- It keeps the averages of batch normalization in layers that the parameter `freeze` names.

Keras here means Keras 2, which is `tf.keras`. After TensorFlow 2.15, `estimator_kit.compat` makes
it the package tf_keras. Keras 3 has no updates in a graph, so its layers are rejected. `collect`
finishes a model. It finds layers that were called without this module, which would be trained only
partly. The module keeps nothing outside of the graph. The metrics of a Keras model are not used.
The metrics come from the objectives of the spec.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model import computing
from estimator_kit.optimizers import freezing

# Graph collections: the layers that were called, and the names of the losses and updates that these
# calls made.
_CALLED = "estimator_kit/keras/called"
_MADE = "estimator_kit/keras/made"

# The tensor that Keras reads if a call does not say whether it is training.
_LEARNING_PHASE = "keras_learning_phase"

_REMEDY = "Write self.keras(layer, inputs, mode) instead of layer(inputs)."
_KERAS_3 = (
    "Keras 3, which has no updates in an Estimator's graph. Use Keras 2, which is tf.keras here: "
    "first `import estimator_kit.compat`, then `from tensorflow import keras` (or `import tf_keras "
    "as keras`) instead of `import keras`."
)


def call(layer: Any, inputs: Any, *, training: bool, **arguments: Any) -> Any:
    """Calls a Keras layer or model and returns its outputs. See the module docstring.

    The names of variables contain the variable scope and the layer: `tower/dense/kernel` in the
    scope `tower`. Unnamed layers are numbered in the order in which they are made. Make the same
    layers in every mode: only `training` may differ.

    Args:
      layer: a layer or model of `tf.keras`, made in this graph, that is, in `logits`.
      inputs: the inputs of the layer.
      training: whether to apply dropout, and to use the statistics of the batch in batch
        normalization.
      **arguments: more arguments of the layer's call, such as `mask`. Without it, a layer that
        takes a mask gets the mask of its inputs, as after `Embedding(mask_zero=True)`.

    Raises:
      ConfigError: the object is not a layer of `tf.keras`, was made outside of this graph, or is a
        stateful recurrent layer.
    """
    _check_kind(layer)
    computing.refuse_keras()
    graph = tf.compat.v1.get_default_graph()
    _check_graph(layer, graph)
    # Building a functional model has already made losses and updates, from placeholders.
    before = _losses_and_updates(layer)
    for inner in (layer, *layer.submodules):
        # Its base class, which is not public, is the base of SyncBatchNormalization, too.
        if isinstance(inner, tf.keras.layers.BatchNormalization.__mro__[1]):
            _keep_averages_if_frozen(inner)
    # The name scope is not used, because its number may differ between modes.
    scope = tf.compat.v1.get_variable_scope().name
    caller = _caller_class()(layer, f"{scope}/" if scope else None)
    outputs = caller(inputs, arguments, training=training)
    _check_graph(layer, graph)
    graph.add_to_collection(_CALLED, layer)
    for name in sorted(_losses_and_updates(layer) - before):
        graph.add_to_collection(_MADE, name)
    return outputs


def collect(outputs: Iterable[tf.Tensor]) -> None:
    """Adds the results of `call` to the graph's collections. Call it once, after all calls.

    Args:
      outputs: all outputs of the model.

    Raises:
      ConfigError: a Keras layer was not called through `call`.
    """
    keys = tf.compat.v1.GraphKeys
    graph = tf.compat.v1.get_default_graph()
    layers, result_names = graph.get_collection(_CALLED), set(graph.get_collection(_MADE))
    for name in (_CALLED, _MADE):  # A MetaGraph, which training writes, cannot store them.
        graph.clear_collection(name)
    _check_all_called(layers, outputs)
    if not layers:
        return
    everything = tf.keras.layers.Layer(name="estimator_kit_keras")
    everything.layers = layers  # Keras lists an object of several layers once.
    # Keras makes the loss of a variable again at each access. The loss of a call is always the
    # same.
    for loss, again in zip(everything.losses, everything.losses):
        if loss is not again or loss.name in result_names:
            graph.add_to_collection(keys.REGULARIZATION_LOSSES, loss)
    for update in everything.updates:
        if update.name in result_names:
            graph.add_to_collection(keys.UPDATE_OPS, update)
    frozen = {variable.op.name for variable in everything.non_trainable_variables}
    trainable = graph.get_collection_ref(keys.TRAINABLE_VARIABLES)
    trainable[:] = [variable for variable in trainable if variable.op.name not in frozen]


_caller: Any = None


def _caller_class() -> Any:
    # Made at the first use, so that importing this module does not load Keras.
    global _caller
    if _caller is None:

        class Caller(tf.keras.layers.Layer):
            """Calls a layer inside a call, so that Keras passes `training` to all inner layers.

            This is the only way for a layer without this argument whose inner layers have it. It
            takes no mask and casts nothing, so the layer gets its inputs with their mask, and
            decides itself whether to use it.
            """

            def __init__(self, layer: Any, scope: Optional[str]):
                super().__init__(name="estimator_kit_keras", autocast=False)
                self.layer, self.scope = layer, scope

            def call(self, inputs: Any, arguments: Any, training: Any = None) -> Any:
                with tf.compat.v1.get_default_graph().name_scope(self.scope):
                    return self.layer(inputs, **arguments)

        _caller = Caller
    return _caller


def _keep_averages_if_frozen(layer: Any) -> None:
    """Batch normalization uses its averages in training if it is frozen, as the kit's layer does.

    Its names, which decide this, are complete only when it is called.
    """
    call = layer.call

    def checked(inputs: Any, training: Any = None, **arguments: Any) -> Any:
        weights, averages = layer.trainable_weights, layer.non_trainable_weights
        names = [[variable.op.name for variable in part] for part in (averages, weights)]
        frozen = freezing.keeps_averages(*names)
        return call(inputs, training=False if frozen else training, **arguments)

    layer.call = checked


def _losses_and_updates(layer: Any) -> set[str]:
    return {loss_or_update.name for loss_or_update in (*layer.losses, *layer.updates)}


def _check_kind(layer: Any) -> None:
    if not isinstance(layer, tf.keras.layers.Layer):
        if any(base.__module__.startswith("keras.src.layers") for base in type(layer).__mro__):
            raise ConfigError(f"self.keras: the layer {layer.name!r} belongs to {_KERAS_3}")
        raise ConfigError(f"self.keras: got {layer!r}, expected a layer or model of tf.keras")
    for inner in (layer, *layer.submodules):
        if isinstance(inner, tf.keras.layers.RNN) and inner.stateful:
            raise ConfigError(
                f"self.keras: the layer {inner.name!r} is stateful. It would carry states from the "
                "rows of one batch or request to the next. Remove stateful."
            )


def _check_graph(layer: Any, graph: tf.Graph) -> None:
    try:
        variables = layer.variables
    except ValueError:  # A Sequential model without an Input makes them when it is called.
        variables = [v for inner in layer.submodules for v in getattr(inner, "variables", ())]
    for variable in variables:
        if getattr(getattr(variable, "handle", variable), "graph", None) is not graph:
            raise ConfigError(
                f"self.keras: the layer {layer.name!r} has variables of another graph. Training, "
                "evaluation and export have separate graphs. Make layers in logits, not before."
            )


def _check_all_called(layers: Any, outputs: Iterable[tf.Tensor]) -> None:
    # By name, because a layer with mixed precision has its variables in wrappers.
    called_variables = {variable.op.name for layer in layers for variable in layer.variables}
    folders = {_folder(tf.keras.Model.__module__.split(".")[0]), _folder("keras")} - {None}
    for variable in tf.compat.v1.global_variables():
        if variable.op.name in called_variables:
            continue
        makers = [frame.filename for frame in variable.op.traceback]
        if any("legacy_tf_layers" in file for file in makers):
            continue  # tf.compat.v1.layers fill the collections themselves.
        packages = {f for f in folders if any(file.startswith(str(f)) for file in makers)}
        if not packages:
            continue
        if packages == {_folder("keras")} and not tf.keras.Model.__module__.startswith("keras."):
            raise ConfigError(f"the variable {variable.op.name} belongs to a layer of {_KERAS_3}")
        raise ConfigError(
            f"the variable {variable.op.name} belongs to a Keras layer that was not called through "
            f"self.keras, so its regularization losses and updates would be lost. {_REMEDY}"
        )
    if _depends_on(outputs, _LEARNING_PHASE):
        raise ConfigError(
            "a Keras layer that differs in training, such as Dropout, was not called through "
            f"self.keras, so it would not know that it is training. {_REMEDY}"
        )


def _folder(package: str) -> Optional[str]:
    """The folder of an imported package, or None."""
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
