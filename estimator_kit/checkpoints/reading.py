"""Checks that a checkpoint fits a model, before a session tries to restore it.

TensorFlow stops at the first variable that differs, deep inside a session. The check here lists all
variables that differ. This module writes nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, Optional

import tensorflow as tf

from estimator_kit.checkpoints import damage
from estimator_kit.checkpoints.saved import Shape, saved
from estimator_kit.compat.tf_estimator import ModeKeys
from estimator_kit.errors import CheckpointError, ConfigError
from estimator_kit.model import python_ops, raw_features
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.model.names import TOTAL_LOSS
from estimator_kit.model.own_losses import ADDED_LOSS
from estimator_kit.model.places import input_places
from estimator_kit.model.places.places import UNTRACED, AxisPlaces
from estimator_kit.model.user_code import WrongRows
from estimator_kit.optimizers.combining import COMBINED
from input_pipelines.transform.transforms import Transform

_log = logging.getLogger("estimator_kit")

Shapes = Mapping[str, Any]  # Each value is a `saved.Shape`.

_OF_READING = {
    tf.errors.DATA_LOSS,
    tf.errors.FAILED_PRECONDITION,  # A folder has the name of a file.
    tf.errors.OUT_OF_RANGE,
    tf.errors.NOT_FOUND,
    tf.errors.UNKNOWN,
}

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
        train = build(model, ModeKeys.TRAIN)
        with train[0].as_default():
            stored = saved()
            variables = {**stored.variables, **stored.growing}
        made = weights_of(model)
        _check_rows(model, made.metrics)
        _check_added_losses(model)
        graph, _ = build(model, ModeKeys.PREDICT, rows=_ROWS)
        with graph.as_default():
            answering = saved()
    unread = [name for name in model.spec.raw if name not in asked]
    if unread:
        text = "the model %s does not read %s, which the section `raw` of %s lists"
        _log.info(text, type(model).__name__, ", ".join(unread), model.spec.source)
    inferred = {**answering.variables, **answering.growing}
    for mode, shapes in (("evaluation", made.shapes), ("prediction", inferred)):
        unknown = sorted(shapes.keys() - variables.keys())
        if unknown:
            raise ConfigError(
                f"{type(model).__name__} makes the variables {', '.join(unknown)} only in {mode}, "
                "so no checkpoint would have them. Make the same variables in every mode."
            )
    weights = frozenset(made.shapes)
    return ModelOutline(
        variables,
        weights,
        stored.trainable,
        made.metrics,
        frozenset(stored.growing),
        made.places,
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
            build(model, ModeKeys.EVAL, rows=_MANY_ROWS)
        except WrongRows:
            raise
        except Exception as error:
            _log.debug("the graph of %d rows cannot be made: %s", _MANY_ROWS, error)


def weights_of(model: ModelFn) -> ModelWeights:
    """Builds the evaluation graph of a model, which takes a third of the time of `outline`.

    It has no optimizer slots, so its variables are the model.
    """
    graph, spec = build(model, ModeKeys.EVAL)
    with graph.as_default():
        stored = saved()
        kept = {**stored.variables, **stored.growing}
    shapes = {
        name: shape
        for name, shape in kept.items()
        if not name.startswith(f"{COMBINED}/") and name != "global_step"
    }
    metrics = {*spec.eval_metric_ops, "loss", "global_step"} - {TOTAL_LOSS}
    places = {n: p for n, p in input_places.find(graph).items() if n in shapes or n == UNTRACED}
    return ModelWeights(shapes, frozenset(metrics), places)


def build(model: ModelFn, mode: str, rows: Optional[int] = None) -> tuple[tf.Graph, Any]:
    """A new graph of a model in a mode and its EstimatorSpec, by default of any number of rows."""
    graph = tf.Graph()
    # No value is drawn, but with --deterministic an initializer without a seed is an error.
    graph.seed = 1
    with graph.as_default():
        tf.compat.v1.train.get_or_create_global_step()
        examples = tf.compat.v1.placeholder(tf.string, [rows])
        features, labels = Transform(model.spec).features_and_labels(examples)
        return graph, model(features, labels, mode)


def shapes_in(checkpoint: str) -> Shapes:
    """The shape of every variable in a checkpoint."""
    try:
        return {name: tuple(shape) for name, shape in tf.train.list_variables(checkpoint)}
    except damage.UNREADABLE as error:
        raise _unreadable(checkpoint, error) from error


def _unreadable(checkpoint: str, error: Exception) -> CheckpointError:
    sentence = damage.damage(checkpoint)
    reason = str(error).strip().splitlines()[0]
    return CheckpointError(sentence or f"{checkpoint} cannot be read: {reason}")


def latest(model_dir: str) -> Optional[str]:
    """The path prefix of the latest checkpoint, or None if the folder has no checkpoint.

    Raises:
      CheckpointError: the folder has checkpoints, but the file `checkpoint`, which names the latest
        one, is missing or damaged. TensorFlow would start at step 0 and overwrite them.
    """
    state = os.path.join(model_dir, "checkpoint")
    found, names_none = None, False
    try:
        found = tf.train.latest_checkpoint(model_dir)
    except ValueError:  # The file is empty or damaged.
        names_none = True
    if found is None:
        left = list(damage.steps_of(model_dir).values())
        if left:
            raise CheckpointError(
                f"{state} does not exist or names no checkpoint, but its folder has {len(left)}. "
                f'Write the line model_checkpoint_path: "{os.path.basename(left[-1])}" into it, or '
                "choose another --model_dir."
            )
        if names_none:
            raise CheckpointError(
                f"{state} names no checkpoint, and its folder has none. Remove the file to start "
                "at step 0."
            )
    return found


def latest_step(model_dir: str) -> Optional[int]:
    """The global step of the latest checkpoint, or None if the folder has no checkpoint."""
    checkpoint = latest(model_dir)
    if checkpoint is None:
        return None
    try:
        return int(tf.train.load_variable(checkpoint, "global_step"))
    except damage.UNREADABLE as error:
        raise _unreadable(checkpoint, error) from error


def check_fit(checkpoint: str, shapes: Shapes, *, ignore_extra: bool = False) -> None:
    """Compares a checkpoint with the variables that a model will restore.

    Args:
      checkpoint: its path prefix.
      shapes: the variables that the model restores.
      ignore_extra: allow variables in the checkpoint that the model does not have, for example
        optimizer slots in a prediction.

    Raises:
      CheckpointError: a variable is missing, has another shape, or is left over. The message lists
        all of them.
    """
    found = shapes_in(checkpoint)
    differences = []
    for name in sorted({*found, *shapes}):
        if name not in found:
            differences.append(f"{name}: {_text(shapes[name])} in the model, not in the checkpoint")
        elif name not in shapes:
            if not ignore_extra:
                shape = list(found[name])
                differences.append(f"{name}: {shape} in the checkpoint, not in the model")
        elif not have_equal_shapes(found[name], shapes[name]):
            differences.append(
                f"{name}: {list(found[name])} in the checkpoint, {_text(shapes[name])} in the model"
            )
    if differences:
        listing = "\n".join(f"  {difference}" for difference in differences)
        raise CheckpointError(
            f"the checkpoint {checkpoint} does not fit the model; {len(differences)} variables "
            f"differ:\n{listing}\nUndo the change of the spec or the model, or train into a new "
            "--model_dir (with --warm_start_from, to keep what still fits)."
        )


def have_equal_shapes(found: tuple[int, ...], wanted: Shape) -> bool:
    """Whether a shape in a checkpoint fits one of a model; see `saved.Shape`."""
    if wanted is None:
        return True
    return len(found) == len(wanted) and all(n in (None, m) for m, n in zip(found, wanted))


def _text(shape: Shape) -> str:
    return "a table" if shape is None else str(list(shape))


def find_checkpoint(path: str) -> str:
    """The checkpoint prefix of a checkpoint, a model directory or a SavedModel.

    Raises:
      ConfigError: the path is something else, or the model directory has no checkpoint.
    """
    saved_model = os.path.join(path, "variables", "variables")
    if tf.io.gfile.exists(saved_model + ".index"):
        return saved_model
    if tf.io.gfile.isdir(path):
        found = latest(path)
        if found is not None:
            return found
    elif tf.io.gfile.exists(path + ".index"):
        return path
    raise ConfigError(
        f"warm start (--warm_start_from): expected a checkpoint, a model directory with a "
        f"checkpoint, or a SavedModel, got {path!r}. Correct the path, or train that model first."
    )


@contextlib.contextmanager
def naming_damage(*places: Optional[str]) -> Iterator[None]:
    """Replaces an error that comes from a damaged checkpoint by a CheckpointError.

    Args:
      places: checkpoints, or model directories, which stand for their latest checkpoints.
    """
    try:
        yield
    except (tf.errors.OpError, IndexError) as error:
        if isinstance(error, tf.errors.OpError) and error.error_code not in _OF_READING:
            raise
        for place in places:
            found = _checkpoint_of(place) if place else None
            sentence = damage.damage(found) if found else None
            if sentence is not None:
                raise CheckpointError(sentence) from error
        raise


def _checkpoint_of(place: str) -> Optional[str]:
    try:
        return find_checkpoint(place)
    except ConfigError:
        return None
