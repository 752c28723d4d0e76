"""`ModelFn`: a class whose instances are the `model_fn` of a `tf.estimator.Estimator`.

    class Squared(ek.ModelFn):
        class Params(ek.ModelFn.Params):
            width: int = 32

        def logits(self, features, mode):
            hidden = dense_layer(self.dense_input(features, "deep"), self.params.width, "hidden")
            return dense_layer(hidden, self.logits_dimension, "logits")

Override `logits`, and if needed `loss`, `optimizers` or `train_op`. Never override `__call__`,
which connects them to the objectives of the spec. A `ModelFn` keeps no state between calls and
builds no session.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

import tensorflow as tf

from estimator_kit.compat.tf_estimator import ModeKeys, estimator
from estimator_kit.embeddings import dynamic_problems, dynamic_tables
from estimator_kit.errors import ConfigError
from estimator_kit.model import (
    batch_tensors,
    group_checks,
    initial_values,
    input_layer,
    tensor_equality,
    user_code,
)
from estimator_kit.model.computing import Computing
from estimator_kit.model.keras import layers
from estimator_kit.model.logits import Logits as Logits
from estimator_kit.model.logits import check_rows, split_logits
from estimator_kit.model.model_params import ModelParams, checked_params
from estimator_kit.model.objectives import Objective, joint, make_objectives
from estimator_kit.model.objectives.streaming import Metric, streaming_sum
from estimator_kit.model.places import input_places
from estimator_kit.optimizers import schedules
from estimator_kit.optimizers.choice import OptimizerChoice, make_optimizer, minimize, not_frozen
from estimator_kit.optimizers.combining import Weights, check_combination, parse_combination
from estimator_kit.optimizers.combining.base import MakeGradients
from estimator_kit.optimizers.moving_average import AveragedSaver
from estimator_kit.optimizers.sync_replicas import Synchronous
from feature_specs.spec import FeatureSpec
from input_pipelines.input_fns import PADDING
from input_pipelines.transform.transforms import Features

# Tensors that hooks fetch by name from the training graph.
ROWS_TENSOR = "estimator_kit/rows"
LOSS_TENSOR = "estimator_kit/loss"
LOSSES_SCOPE = "estimator_kit/losses"  # One tensor an objective.

# The graph collection of (name, tensor) for additional predictions.
_OUTPUTS = "estimator_kit/outputs"

# The signature with the predictions of all objectives.
PREDICT_EXAMPLES = "predict_examples"

# The metric that replaces the `loss` of Estimator. See `read_metrics`.
TOTAL_LOSS = "total_loss"


def read_metrics(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of `Estimator.evaluate` as floats. `loss` is over rows instead of batches."""
    metrics = {name: float(value) for name, value in evaluation.items()}
    metrics["loss"] = metrics.pop(TOTAL_LOSS, metrics["loss"])
    return metrics


class ModelFn(abc.ABC):
    """A model over a feature spec.

    Args:
      spec: the feature spec.
      params: the parameters, as an instance of `Params` or a mapping. Unknown names are errors.

    Attributes:
      spec, params: the checked arguments.
      objectives: `{name: Objective}`, in the order of the spec.
      warm_start: the values that a new training takes from another model, or None. The kit sets it
        before it trains.
      together: the description of a cluster whose processes make each step together, or None. The
        kit sets it.
      computing: how training computes the dense part. The kit sets it.
    """

    Params: type[ModelParams] = ModelParams

    def __init__(
        self, spec: FeatureSpec, params: Union[ModelParams, Mapping[str, Any], None] = None
    ):
        self.spec = spec
        if not (isinstance(self.Params, type) and issubclass(self.Params, ModelParams)):
            raise ConfigError(
                f"{type(self).__name__}.Params is not a subclass of ModelParams. Derive it from "
                "ek.ModelFn.Params."
            )
        self.params: Any = checked_params(type(self).__name__, self.Params, params)
        self.objectives: dict[str, Objective] = make_objectives(spec)
        self.warm_start: Any = None
        self.together: Optional[Synchronous] = None
        self.computing = Computing()
        for choice in (self.params.optimizer, *(self.params.optimizers or {}).values()):
            make_optimizer(choice, self.params.learning_rate)
        if self.params.schedule is not None:
            schedules.parse_schedule(self.params.schedule)
        self._combination = parse_combination(self.params.combine)
        self._check_combination()
        dynamic_problems.check_model(self)
        self.check_spec()

    # --- To override -----------------------------------------------------------------------------

    @abc.abstractmethod
    def logits(self, features: Features, mode: str) -> Logits:
        """The logits of all objectives.

        Args:
          features: `{column: float32 [rows, n] | int64 ids [rows] | ragged ids [rows, None]}`.
            `dense_input` and `linear_logits` turn a group of columns into one tensor.
            `numeric_input` and `ragged_input` return single columns in their shapes.
          mode: a `tf.estimator.ModeKeys`, for layers that differ in training, such as dropout.

        Returns:
          float32 [rows, self.logits_dimension], which the kit splits among the objectives in order,
          or `{objective: float32 [rows, its logits_dimension]}`.
        """

    def check_spec(self) -> None:  # noqa: B027 - most models need no check
        """Raises ConfigError for a spec that this model does not support. Called by `__init__`."""

    def groups(self) -> tuple[str, ...]:
        """The groups of the spec that the model reads. The log names the other groups."""
        return tuple(self.spec.groups)

    def checked_labels(
        self, labels: Mapping[str, tf.Tensor], weights: Mapping[str, tf.Tensor]
    ) -> Mapping[str, tf.Tensor]:
        """The labels of training and evaluation, after checks that involve several labels.

        Args:
          labels: the labels by name, [rows], with their weights and groups.
          weights: the weights by objective, float32 [rows]. 0 masks the row.
        """
        return labels

    def loss(self, losses: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The scalar that training minimizes, from the scalar loss of each objective.

        By default it is the sum weighted by `loss_weight`. The kit adds the regularization losses.
        The metric `loss` of an evaluation uses the same function. A model that overrides it cannot
        use the parameter `combine`, which would bypass it.
        """
        return tf.add_n(
            [losses[name] * self.spec.objectives[name].loss_weight for name in self.objectives]
        )

    def shared_prefix(self) -> Optional[str]:
        """A regular expression for the names of the last variables that all objectives share.

        GradNorm uses their gradients. By default, the field `shared` names them.
        """
        return None

    def training_losses(
        self, labels: Mapping[str, tf.Tensor], weights: Mapping[str, tf.Tensor]
    ) -> Mapping[str, tf.Tensor]:
        """Scalar losses by objective that replace the losses of the objectives in training.

        Use it for a model that learns from more than its logits. By default it is empty. Evaluation
        always uses the losses of the objectives.

        Args:
          labels: the labels by name, [rows].
          weights: the weights by objective, float32 [rows].
        """
        return {}

    def optimizers(self) -> Sequence[tuple[str, Any]]:
        """(prefix of variable names, optimizer) for the parts of the model. See `minimize`.

        Make the optimizers with `self.make_optimizer`. The parameter `optimizers` replaces them.
        """
        return [("", self.make_optimizer(self.params.optimizer, self.params.learning_rate))]

    def first_values(self) -> Mapping[str, Any]:
        """The start values of variables in a new training: arrays by variable name.

        They replace the initializers. By default, the model has none. A warm start overwrites them.
        """
        return {}

    def train_op(self, loss: tf.Tensor) -> tf.Operation:
        """The op of a training step. It must also increment the global step."""
        return self._minimized(loss)

    # --- To use ----------------------------------------------------------------------------------

    @property
    def logits_dimension(self) -> int:
        """The number of logits per row, of all objectives together."""
        return sum(objective.logits_dimension for objective in self.objectives.values())

    def make_optimizer(self, optimizer: OptimizerChoice, learning_rate: float) -> Any:
        """`ek.make_optimizer` with the schedule and warm-up of the model's parameters."""
        p = self.params
        factor = None
        if p.schedule is not None or p.warm_up_steps:
            schedule = schedules.parse_schedule(p.schedule or "constant")
            step = tf.compat.v1.train.get_or_create_global_step()
            factor = schedules.factor_at(step.read_value(), schedule, p.warm_up_steps)
        return make_optimizer(optimizer, learning_rate, factor=factor)

    def dense_input(self, features: Features, group: str) -> tf.Tensor:
        """The columns of a group as float32 [rows, width]. See `input_layer.dense_input`."""
        return input_layer.dense_input(self.spec, group, features)

    def field_input(self, features: Features, group: str) -> tf.Tensor:
        """The embeddings of a group, with equal dimensions: float32 [rows, fields, dimension]."""
        group_checks.check_field_group(self.spec, group)
        names = group_checks.columns_of(self.spec, group)
        dense = input_layer.dense_columns(self.spec, names, features)
        return input_layer.fields_of(self.spec, group, dense)

    def sequence_input(self, features: Features, group: str) -> tuple[tf.Tensor, tf.Tensor]:
        """The steps of a sequence group, float32 [rows, steps, width], and their number [rows]."""
        return input_layer.sequence_input(self.spec, group, features)

    def numeric_input(self, features: Features, column: str) -> tf.Tensor:
        """A numeric column in its shape, such as an image: float32 [rows, *shape].

        In `features`, `dense_input` and the built-in models it has the shape [rows, n].
        """
        return input_layer.numeric_input(self.spec, column, features)

    def ragged_input(self, features: Features, group: str) -> dict[str, tf.RaggedTensor]:
        """The columns of a ragged group: `{column: numbers or ids [rows, None]}`.

        A list of lists has the shape [rows, None, None]. The id -1 means missing.
        """
        return input_layer.ragged_input(self.spec, group, features)

    def linear_logits(self, features: Features, group: str) -> tf.Tensor:
        """A linear model over a group: float32 [rows, self.logits_dimension]."""
        return input_layer.linear_logits(self.spec, group, features, self.logits_dimension)

    def keras(self, layer: Any, inputs: Any, mode: str, **arguments: Any) -> Any:
        """Calls a layer or model of `tf.keras` that was made in `logits`.

        Call Keras layers only through this method. It tells them whether this is training, and
        collects their updates and regularization losses. See `keras.layers.call`.
        """
        training = mode == ModeKeys.TRAIN
        return layers.call(layer, inputs, training=training, **arguments)

    def add_output(self, name: str, value: tf.Tensor) -> None:
        """Adds a tensor [rows, ...] of `logits` as a prediction and a signature with this name."""
        tf.compat.v1.add_to_collection(_OUTPUTS, (name, value))

    # --- Not to override -------------------------------------------------------------------------

    def __call__(
        self,
        features: Features,
        labels: Optional[Mapping[str, tf.Tensor]] = None,
        mode: str = ModeKeys.PREDICT,
        params: Optional[Mapping[str, Any]] = None,
        config: Any = None,
    ) -> Any:
        """The model_fn: an `EstimatorSpec` for the mode.

        `params`, which an Estimator passes from its argument of this name, overrides `self.params`.
        """
        del config  # The RunConfig. It is part of the signature, but not used.
        if params:
            merged = {**self.params.model_dump(), **params}
            other = self._with_params(merged)
            other.warm_start = self.warm_start
            other.together = self.together
            other.computing = self.computing
            return other(features, labels, mode)
        training = mode == ModeKeys.TRAIN
        with dynamic_tables.in_mode(training=training), tensor_equality.warned():
            return self._estimator_spec(features, labels, mode)

    def _estimator_spec(
        self, features: Features, labels: Optional[Mapping[str, tf.Tensor]], mode: str
    ) -> Any:
        for name, values in features.items():  # Columns and weights of columns.
            if name in self.spec.columns and self.spec.columns[name].is_numbers(self.spec):
                input_places.mark(name, values)
        widths = {name: o.logits_dimension for name, o in self.objectives.items()}
        # Not in a name scope: Keras layers and tf.Variable would get other names.
        with (
            user_code.explained(self, "logits", "features", features),
            self.computing.applied(type(self).__name__, training=mode == ModeKeys.TRAIN),
        ):
            returned = self.logits(features, mode)
        with tf.name_scope("logits"):
            logits = split_logits(type(self).__name__, returned, widths)
        # Cleared, because TensorFlow would try to write the collection into each MetaGraph.
        outputs = dict(tf.compat.v1.get_collection_ref(_OUTPUTS))
        tf.compat.v1.get_default_graph().clear_collection(_OUTPUTS)
        layers.collect([*logits.values(), *outputs.values()])
        model = type(self).__name__
        if mode == ModeKeys.PREDICT:
            return self._predict_spec(mode, logits, outputs)
        if labels is None:
            raise ValueError(f"mode {mode!r} needs labels, but the input_fn returns none")
        padding = labels.get(PADDING)
        with tf.name_scope("labels"):
            labels, weights = self.labels_and_weights(labels)
        with tf.name_scope("logits"):
            logits = check_rows(model, logits, tf.shape(next(iter(labels.values())))[0])
        losses = joint.losses_of(self.objectives, logits, labels, weights)
        if mode == ModeKeys.TRAIN:
            with user_code.explained(self, "training_losses", "labels", labels):
                losses.update(self.training_losses(labels, weights))
        if mode == ModeKeys.TRAIN and not isinstance(self._combination, Weights):
            loss = self._combination.total(losses, self.spec)
        else:
            with user_code.explained(self, "loss", "losses", losses):
                loss = self.loss(losses)
        if not isinstance(loss, tf.Tensor) or loss.shape.rank != 0:
            raise ConfigError(f"{model}.loss returned {loss}, expected one number, as a tensor")
        regularization = tf.compat.v1.losses.get_regularization_losses()
        if regularization:
            loss = tf.add_n([loss, *regularization])
        loss = tf.identity(loss, name=LOSS_TENSOR)
        with tf.name_scope("rows"):
            rows = tf.shape(next(iter(logits.values())))[0]
            if padding is not None:
                rows = tf.where(padding, 0, rows)
        rows = tf.identity(rows, name=ROWS_TENSOR)
        if mode == ModeKeys.EVAL:
            metrics = self._metrics(logits, labels, weights, rows)
            for name, value in self._combination.factors(self.spec).items():
                metrics[f"loss_factor/{name}"] = (value, tf.identity(value))
            # Only metrics of `tf.estimator.add_metrics` read the predictions here.
            predictions, _ = self._predictions(logits, outputs)
            return estimator.EstimatorSpec(
                mode,
                predictions=predictions,
                loss=loss,
                eval_metric_ops=metrics,
                scaffold=self._averages(),
            )
        for name, value in losses.items():
            value = tf.identity(value, name=f"{LOSSES_SCOPE}/{name}")
            tf.compat.v1.summary.scalar(f"loss/{name}", value)
        for name, value in self._combination.factors(self.spec).items():
            tf.compat.v1.summary.scalar(f"loss_factor/{name}", value)
        train_op = self._step(loss, losses, regularization)
        batch_tensors.name_means(self.objectives, logits, labels, weights)
        batch_tensors.name_images(self.spec, features)
        together = self.together
        return estimator.EstimatorSpec(
            mode,
            loss=loss,
            train_op=train_op,
            training_hooks=[together.hook] if together is not None else [],
            scaffold=initial_values.scaffold(self.spec, self.warm_start, self.first_values()),
        )

    def _check_combination(self) -> None:
        own = {n for n in ("loss", "train_op") if getattr(type(self), n) is not getattr(ModelFn, n)}
        check_combination(
            self._combination, self.params.combine, self.spec, type(self).__name__, own
        )

    def _with_params(self, params: Mapping[str, Any]) -> ModelFn:
        """The same model with other parameters."""
        return type(self)(self.spec, params)

    def labels_and_weights(
        self, labels: Mapping[str, tf.Tensor]
    ) -> tuple[Mapping[str, tf.Tensor], Mapping[str, tf.Tensor]]:
        """The checked labels of an input_fn, and the weights by objective, float32 [rows].

        A batch of padding has weight 0. See `input_fns.train_input_fn`.
        """
        padding = labels.get(PADDING)
        labels = {name: value for name, value in labels.items() if name != PADDING}
        weights = {n: joint.weights_of(o, labels) for n, o in self.objectives.items()}
        if padding is not None:
            weights = {n: tf.where(padding, tf.zeros_like(w), w) for n, w in weights.items()}
        with user_code.explained(self, "checked_labels", "labels", labels):
            return self.checked_labels(labels, weights), weights

    def _step(
        self, loss: tf.Tensor, losses: Mapping[str, tf.Tensor], regularization: Sequence[tf.Tensor]
    ) -> tf.Operation:
        """The op of a training step, including the update of the combination of losses."""
        combination = self._combination
        if isinstance(combination, Weights):
            step = self.train_op(loss)
            dynamic_tables.check_trained(tf.compat.v1.trainable_variables())
            return step
        variables = not_frozen(tf.compat.v1.trainable_variables(), self.params.freeze)
        after = combination.after_step(losses, self.spec, variables, self.shared_prefix())
        gradients = combination.gradients(losses, self.spec, regularization)
        # With gradients, the model overrides no method of this step. See `check_combination`.
        step = self.train_op(loss) if gradients is None else self._minimized(loss, gradients)
        if after is None:
            return step
        with tf.control_dependencies([step]):
            return after()

    def _minimized(
        self, loss: tf.Tensor, gradients: Optional[MakeGradients] = None
    ) -> tf.Operation:
        p = self.params
        return minimize(
            loss,
            self._chosen_optimizers(),
            clip_norm=p.clip_norm,
            clip_value=p.clip_value,
            freeze=p.freeze,
            accumulate=p.accumulate,
            average=p.moving_average,
            gradients=gradients,
            together=self.together,
        )

    def _predict_spec(
        self, mode: str, logits: Mapping[str, tf.Tensor], added: Mapping[str, tf.Tensor]
    ) -> Any:
        joint, by_objective = self._predictions(logits, added)
        outputs: dict[str, Any] = {}
        for name, objective in self.objectives.items():
            predictions = by_objective[name]
            outputs[f"predict/{name}"] = estimator.export.PredictOutput(predictions)
            with tf.name_scope(f"objectives/{name}/signatures"):
                signatures = objective.export_outputs(predictions)
            outputs.update({f"{method}/{name}": output for method, output in signatures.items()})
        for name, value in added.items():
            outputs[name] = estimator.export.PredictOutput({name: value})
        outputs[PREDICT_EXAMPLES] = estimator.export.PredictOutput(joint)
        # tf.estimator requires this signature. An export may choose another default.
        outputs["serving_default"] = estimator.export.PredictOutput(joint)
        return estimator.EstimatorSpec(
            mode, predictions=joint, export_outputs=outputs, scaffold=self._averages()
        )

    def _predictions(
        self, logits: Mapping[str, tf.Tensor], added: Mapping[str, tf.Tensor]
    ) -> tuple[dict[str, tf.Tensor], dict[str, dict[str, tf.Tensor]]]:
        """All predictions by `<objective>/<name>` or added name, and `{objective: predictions}`."""
        by_objective = {}
        for name, objective in self.objectives.items():
            with tf.name_scope(f"objectives/{name}/predictions"):
                by_objective[name] = objective.predictions(logits[name])
        joint = {
            f"{name}/{key}": value
            for name, predictions in by_objective.items()
            for key, value in predictions.items()
        }
        return {**joint, **added}, by_objective

    def _averages(self) -> Any:
        """The Scaffold that restores averaged weights, or None without `moving_average`."""
        if self.params.moving_average is None:
            return None
        weights = not_frozen(tf.compat.v1.trainable_variables(), self.params.freeze)
        return tf.compat.v1.train.Scaffold(saver=AveragedSaver(weights))

    def _chosen_optimizers(self) -> Sequence[tuple[str, Any]]:
        p = self.params
        if p.optimizers is not None:
            return [
                (prefix, self.make_optimizer(choice, p.learning_rate))
                for prefix, choice in p.optimizers.items()
            ]
        pairs = self.optimizers()
        if p.schedule is not None or p.warm_up_steps:
            for prefix, optimizer in pairs:
                if not getattr(optimizer, "follows_schedule", False):
                    raise ConfigError(
                        f"{type(self).__name__}.optimizers makes the optimizer for {prefix!r} "
                        "without self.make_optimizer, so it would ignore the parameters schedule "
                        "and warm_up_steps. Use self.make_optimizer, or remove the parameters."
                    )
        return pairs

    def _metrics(
        self,
        logits: Mapping[str, tf.Tensor],
        labels: Mapping[str, tf.Tensor],
        weights: Mapping[str, tf.Tensor],
        rows: tf.Tensor,
    ) -> dict[str, Metric]:
        # In batches of static shape, `rows` is a constant, which would be added once too often at
        # the end of the input.
        with tf.name_scope("metrics/rows"):
            with tf.control_dependencies(list(labels.values())):
                rows = tf.identity(rows)
            result: dict[str, Metric] = {"rows": streaming_sum(rows, "rows")}
        result.update(joint.metrics_of(self.objectives, logits, labels, weights))
        with tf.name_scope("metrics/total_loss"):
            result[TOTAL_LOSS] = self._total_loss(result)
        return result

    def _total_loss(self, metrics: Mapping[str, Metric]) -> Metric:
        """The model's loss over all rows. Estimator's `loss` is a mean over batches."""
        # As in training, the loss of an objective without weight is 0.
        losses = {name: metrics[f"loss/{name}"] for name in self.objectives}
        values = {
            name: tf.cast(tf.where(tf.math.is_nan(value), tf.zeros_like(value), value), tf.float32)
            for name, (value, _) in losses.items()
        }
        total = tf.add_n([self.loss(values), *tf.compat.v1.losses.get_regularization_losses()])
        return total, tf.group(*(update for _, update in losses.values()))
