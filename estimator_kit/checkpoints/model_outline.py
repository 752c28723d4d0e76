"""What a checkpoint of a model contains, found by building its graphs without a session.

    model_outline.outline(model).variables     # {name: shape}, with the slots of its optimizers

A Saver joins the parts of a partitioned variable, as `tf.compat.v1.layers` makes them under a
partitioner, into one tensor with the name of the whole. A saveable, such as a `MutableHashTable`,
stores tensors under separate names. This module runs no session and reads no file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Optional

import tensorflow as tf
from tensorflow.python.training.saving import saveable_object_util

from estimator_kit.errors import ConfigError
from estimator_kit.model import python_ops, raw_features
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.model.names import TOTAL_LOSS
from estimator_kit.model.own_losses import ADDED_LOSS
from estimator_kit.model.places import input_places
from estimator_kit.model.places.places import UNTRACED, AxisPlaces
from estimator_kit.model.user_code import WrongRows
from estimator_kit.optimizers.combining import COMBINED
from estimator_kit.optimizers.moving_average import whole_name
from estimator_kit.tf_estimator import ModeKeys
from input_pipelines.transform.transforms import Transform

_log = logging.getLogger("estimator_kit")

# The shape of a tensor. None, an axis whose length changes during training, fits any length. A
# table whose shape is not known has None in the place of the axes.
Shape = Optional[tuple[Any, ...]]
Shapes = Mapping[str, Any]  # Each value is a `Shape`.

_NOTHING = contextlib.nullcontext()

_v1 = tf.compat.v1
_CONSTANTS = (
    *(_v1.zeros_initializer, _v1.ones_initializer, _v1.constant_initializer),
    *(tf.zeros_initializer, tf.ones_initializer, tf.constant_initializer),
)

_ROWS = 3  # Of the graph of predictions that `outline` makes.

# Of the graph of an evaluation that shows results with another number of rows. Models may work only
# with even batches, for example of pairs of rows.
_MANY_ROWS = 240


class ModelWeights(NamedTuple):
    """The variables of a model without the slots of its optimizers, and its metrics.

    Attributes:
      shapes: the shapes of the variables that make the model itself: the trainable variables, and
        the statistics of layers.
      metrics: the names of the metrics of an evaluation, with `loss` and `global_step`.
      places: what owns the places of a variable's axes; see `input_places`.
    """

    shapes: Shapes
    metrics: frozenset[str]
    places: Mapping[str, AxisPlaces]


@dataclasses.dataclass(frozen=True)
class ModelOutline:
    """The variables and metrics of a model, found by building its graphs once without a session.

    Attributes:
      variables: the shape of every saved variable of the training graph, with optimizer slots.
      weights, metrics, places: see `ModelWeights`.
      trainable: the names of the trainable variables.
      growing: the names in `variables` that are not variables but belong to tables that grow.
      not_exportable: why an export cannot have the graph of predictions, or None.
    """

    variables: Shapes
    weights: frozenset[str]
    trainable: frozenset[str]
    metrics: frozenset[str]
    growing: frozenset[str] = frozenset()
    places: Mapping[str, AxisPlaces] = dataclasses.field(default_factory=dict)
    not_exportable: Optional[str] = None


def outline(model: ModelFn) -> ModelOutline:
    """Builds the graphs of a model, and lists the contents of its training and its evaluation.

    Any error of the model comes up here, before a file is written. The graph of predictions has a
    fixed number of rows, because it then shows outputs with another number.
    """
    with raw_features.asked() as asked:
        train = _build(model, ModeKeys.TRAIN)
        with train[0].as_default():
            stored = _saved()
            variables = {**stored.variables, **stored.growing}
        evaluated = weights_of(model)
        _check_rows(model, evaluated.metrics)
        _check_added_losses(model)
        graph, _ = _build(model, ModeKeys.PREDICT, rows=_ROWS)
        with graph.as_default():
            answering = _saved()
    unread = [name for name in model.spec.raw if name not in asked]
    if unread:
        text = "the model %s does not read %s, which the section `raw` of %s lists"
        _log.info(text, type(model).__name__, ", ".join(unread), model.spec.source)
    inferred = {**answering.variables, **answering.growing}
    for mode, shapes in (("evaluation", evaluated.shapes), ("prediction", inferred)):
        unknown = sorted(shapes.keys() - variables.keys())
        if unknown:
            raise ConfigError(
                f"{type(model).__name__} makes the variables {', '.join(unknown)} only in {mode}, "
                "so no checkpoint would have them. Make the same variables in every mode."
            )
    weights = frozenset(evaluated.shapes)
    return ModelOutline(
        variables,
        weights,
        stored.trainable,
        evaluated.metrics,
        frozenset(stored.growing),
        evaluated.places,
        python_ops.problem(f"{type(model).__name__}.logits", graph),
    )


def _check_added_losses(model: ModelFn) -> None:
    """Raises ConfigError if the model adds a loss only in training, or only in evaluation."""
    trained, evaluated = (model.loss_names[mode] for mode in (ModeKeys.TRAIN, ModeKeys.EVAL))
    for name in sorted(trained ^ evaluated):
        raise ConfigError(
            f"{type(model).__name__}.logits adds the loss {name!r} only in "
            f"{'training' if name in trained else 'evaluation'}, so evaluations would choose the "
            "best model by another loss than training has. Add it in every mode."
        )


def _check_rows(model: ModelFn, metrics: Collection[str]) -> None:
    """Raises ConfigError if a method of the model returns another number of rows than the batch.

    Only a graph of a fixed number of rows shows it. Other errors in this graph may come from the
    number itself.
    """
    own = ("checked_labels", "example_losses")
    overrides = any(getattr(type(model), name) is not getattr(ModelFn, name) for name in own)
    if overrides or any(name.startswith(f"{ADDED_LOSS}/") for name in metrics):
        try:
            _build(model, ModeKeys.EVAL, rows=_MANY_ROWS)
        except WrongRows:
            raise
        except Exception as error:
            _log.debug("the graph of %d rows cannot be made: %s", _MANY_ROWS, error)


def weights_of(model: ModelFn) -> ModelWeights:
    """Builds the evaluation graph of a model, which takes a third of the time of `outline`.

    It has no optimizer slots, so its variables are the model.
    """
    graph, spec = _build(model, ModeKeys.EVAL)
    with graph.as_default():
        stored = _saved()
        kept = {**stored.variables, **stored.growing}
    shapes = {
        name: shape
        for name, shape in kept.items()
        if not name.startswith(f"{COMBINED}/") and name != "global_step"
    }
    metrics = {*spec.eval_metric_ops, "loss", "global_step"} - {TOTAL_LOSS}
    places = {n: p for n, p in input_places.find(graph).items() if n in shapes or n == UNTRACED}
    return ModelWeights(shapes, frozenset(metrics), places)


def build(
    model: ModelFn,
    mode: str,
    rows: Optional[int] = None,
    context: contextlib.AbstractContextManager[Any] = _NOTHING,
) -> tuple[tf.Graph, Any]:
    """A new graph of a model in a mode and its EstimatorSpec, by default of any number of rows.

    `context` is entered in the graph before the model is made.
    """
    graph = tf.Graph()
    # No value is drawn, but with --deterministic an initializer without a seed is an error.
    graph.seed = 1
    with graph.as_default():
        tf.compat.v1.train.get_or_create_global_step()
        examples = tf.compat.v1.placeholder(tf.string, [rows])
        features, labels = Transform(model.spec).features_and_labels(examples)
        with context:
            return graph, model(features, labels, mode)


def _build(model: ModelFn, mode: str, rows: Optional[int] = None) -> tuple[tf.Graph, Any]:
    """`build`, without the ops of TensorFlow's random initializers, a tenth of a graph."""
    values: dict[Any, tf.Tensor] = {}

    def make(next_creator: Any, **arguments: Any) -> Any:
        value, shape = arguments.get("initial_value"), arguments.get("shape")
        drawn = isinstance(value, functools.partial) and _is_random(value.func)
        if drawn and shape is not None:
            dtype, sizes = tf.as_dtype(arguments["dtype"]), tf.TensorShape(shape).as_list()

            def unknown() -> tf.Tensor:
                key = (tf.compat.v1.get_default_graph(), dtype, *sizes)
                if key not in values:
                    values[key] = tf.compat.v1.placeholder(dtype, sizes)
                return values[key]

            arguments["initial_value"] = unknown
        return next_creator(**arguments)

    return build(model, mode, rows, tf.variable_creator_scope(make))


def _is_random(initializer: Any) -> bool:
    """Whether it is one of TensorFlow's, and not one whose number a slot or row starts with."""
    is_of_tensorflow = type(initializer).__module__.startswith("tensorflow.")
    return is_of_tensorflow and not isinstance(initializer, _CONSTANTS)


class _Saved(NamedTuple):
    """The tensors that a Saver stores of the current graph.

    Attributes:
      variables: the shape of each variable, with its parts joined.
      growing: the shapes of the other tensors, which belong to tables that grow.
      trainable: the names in `variables` of trainable variables.
    """

    variables: Mapping[str, Shape]
    growing: Mapping[str, Shape]
    trainable: frozenset[str]


def _saved() -> _Saved:
    """What a Saver would store of the current graph. It may add ops to the graph."""
    v1 = tf.compat.v1
    tables = v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS)
    saveables = saveable_object_util.validate_and_slice_inputs(
        saveable_object_util.op_list_to_dict(tables)
    )
    return _Saved(
        {whole_name(v): _shape_of(v) for v in v1.global_variables()},
        {part.name: _dims(part.tensor.shape) for each in saveables for part in each.specs},
        frozenset(whole_name(v) for v in v1.trainable_variables()),
    )


def _shape_of(variable: Any) -> Shape:
    info = getattr(variable, "_save_slice_info", None)
    return _dims(variable.shape) if info is None else tuple(info.full_shape)


def _dims(shape: tf.TensorShape) -> Shape:
    return None if shape.rank is None else tuple(shape.as_list())
