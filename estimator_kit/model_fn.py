"""`ModelFn`: a class whose instance is an ordinary `model_fn` of a `tf.estimator.Estimator`.

    class Squared(ek.ModelFn):
        class Params(ek.ModelFn.Params):
            width: int = 32

        def logits(self, features, mode):
            hidden = dense_layer(self.dense_input(features, "deep"), self.params.width, "hidden")
            return dense_layer(hidden, self.logits_dimension, "logits")

Override `logits`, and where needed `loss`, `optimizers` or `train_op`; never `__call__`, which ties
them to the objectives of the spec. It holds no state between calls and builds no session.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Optional, Union

import pydantic
import tensorflow as tf

from estimator_kit import first_values, input_layer, schedules
from estimator_kit.errors import ConfigError
from estimator_kit.moving_average import AveragedSaver
from estimator_kit.objectives import Objective, make_objectives
from estimator_kit.objectives.streaming import Metric, streaming_sum
from estimator_kit.optimizers import OptimizerChoice, make_optimizer, minimize, not_frozen
from estimator_kit.tf_estimator import ModeKeys, estimator
from feature_specs.errors import did_you_mean
from feature_specs.schema import FeatureSpec
from input_pipelines.transforms import Features

Logits = Union[tf.Tensor, Mapping[str, tf.Tensor]]

# Tensors that hooks fetch by name from the training graph.
ROWS_TENSOR = "estimator_kit/rows"
LOSS_TENSOR = "estimator_kit/loss"

# The graph collection of (name, tensor) for predictions beside those of the objectives.
_OUTPUTS = "estimator_kit/outputs"

# The metric that replaces `loss` in what Estimator returns; see `read_metrics`.
TOTAL_LOSS = "total_loss"


def read_metrics(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """Metrics of `Estimator.evaluate` as floats, with `loss` taken over rows, not over batches."""
    metrics = {name: float(value) for name, value in evaluation.items()}
    metrics["loss"] = metrics.pop(TOTAL_LOSS, metrics["loss"])
    return metrics


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    return text


Prefix = Annotated[str, pydantic.AfterValidator(_pattern)]


class ModelParams(pydantic.BaseModel):
    """Parameters of every model; a model adds its own in a nested `Params` class.

    What is said of prefixes: regular expressions that a variable's name must begin with.

    Attributes:
      optimizer: a name from `optimizers.OPTIMIZERS`, or `{name: {field: value}}`. Adagrad, because
        its steps adapt to each row of an embedding table and cost nothing for the rows that a
        batch does not touch.
      learning_rate: above 0.
      optimizers: in the place of all optimizers that the model has by itself, one for each prefix
        of variable names, the first that fits: `{linear/: {ftrl: {learning_rate: 0.1}}, "":
        lazy_adam}`. One without a `learning_rate` has that of the model.
      schedule: how the rates change with the global step, of `schedules.SCHEDULES`, as in
        `{cosine: {decay_steps: 10000}}`; None for no change.
      warm_up_steps: steps in which the rates rise to what they are, before the schedule.
      freeze: prefixes of variables that are not trained; no gradient of them is computed.
      clip_norm: limit on the norm of all gradients together; None for no limit.
      clip_value: limit on each number of the gradients; None for no limit.
      accumulate: batches whose gradients are averaged for one step; `max_steps`, schedules and
        checkpoints still count batches.
      moving_average: decay of a moving average of the weights, which evaluation, prediction and
        exports use in their place; None for none. See `moving_average` for what it costs.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    optimizer: OptimizerChoice = "adagrad"
    learning_rate: float = pydantic.Field(default=0.05, gt=0, allow_inf_nan=False)
    optimizers: Optional[dict[Prefix, OptimizerChoice]] = pydantic.Field(None, min_length=1)
    schedule: Optional[Union[str, dict[str, Any]]] = None
    warm_up_steps: int = pydantic.Field(default=0, ge=0, strict=True)
    freeze: tuple[Prefix, ...] = ()
    clip_norm: Optional[float] = pydantic.Field(default=None, gt=0)
    clip_value: Optional[float] = pydantic.Field(default=None, gt=0)
    accumulate: int = pydantic.Field(default=1, ge=1, strict=True)
    moving_average: Optional[float] = pydantic.Field(default=None, gt=0, lt=1)


class ModelFn(abc.ABC):
    """A model over a feature spec.

    Args:
      spec: what a record holds and what is to be learned.
      params: values for `Params`, as an instance or a mapping. Unknown names are errors.

    Attributes:
      spec, params: as given, checked.
      objectives: `{name: Objective}` in the order of the spec.
      warm_start: what the first checkpoint takes from another model, or None. Set by the kit
        before it trains.
    """

    Params: type[ModelParams] = ModelParams

    def __init__(
        self, spec: FeatureSpec, params: Union[ModelParams, Mapping[str, Any], None] = None
    ):
        self.spec = spec
        if not (isinstance(self.Params, type) and issubclass(self.Params, ModelParams)):
            raise ConfigError(f"{type(self).__name__}.Params is no subclass of ModelParams")
        self.params: Any = self._checked_params(params)
        self.objectives: dict[str, Objective] = make_objectives(spec)
        self.warm_start: Any = None
        for choice in (self.params.optimizer, *(self.params.optimizers or {}).values()):
            make_optimizer(choice, self.params.learning_rate)
        if self.params.schedule is not None:
            schedules.parse_schedule(self.params.schedule)
        self.check_spec()

    # --- To override -----------------------------------------------------------------------------

    @abc.abstractmethod
    def logits(self, features: Features, mode: str) -> Logits:
        """The logits of all objectives.

        Args:
          features: `{column: float32 [rows, n] | int64 ids [rows] | ragged ids [rows, None]}`;
            `dense_input` and `linear_logits` turn a group of them into one tensor.
          mode: a `tf.estimator.ModeKeys`; for what differs in training, such as dropout.

        Returns:
          float32 [rows, self.logits_dimension], split among the objectives in their order, or
          `{objective: float32 [rows, its logits_dimension]}`.
        """

    def check_spec(self) -> None:  # noqa: B027 - most models of a user's own need no check
        """Raises ConfigError for a spec that this model cannot take; called when it is made."""

    def groups(self) -> tuple[str, ...]:
        """The groups of the spec that the model reads; the rest is named in the log."""
        return tuple(self.spec.groups)

    def loss(self, losses: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The scalar that training minimizes, from the scalar loss of each objective.

        By default their sum weighted by `loss_weight`. Regularization losses are added to it.
        """
        return tf.add_n(
            [losses[name] * self.spec.objectives[name].loss_weight for name in self.objectives]
        )

    def training_losses(
        self, labels: Mapping[str, tf.Tensor], weights: Mapping[str, tf.Tensor]
    ) -> Mapping[str, tf.Tensor]:
        """Scalar losses by objective that training takes in the place of the objectives' own.

        For a model that learns from more than its logits; none by default. Evaluation always has
        the objectives' losses.

        Args:
          labels: by label, [rows].
          weights: by objective, float32 [rows].
        """
        return {}

    def optimizers(self) -> Sequence[tuple[str, Any]]:
        """(prefix of variable names, optimizer) for the parts of the model; see `minimize`.

        Make them with `self.make_optimizer`. The parameter `optimizers` takes their place.
        """
        return [("", self.make_optimizer(self.params.optimizer, self.params.learning_rate))]

    def train_op(self, loss: tf.Tensor) -> tf.Operation:
        """The op of a training step; it must also count the global step."""
        p = self.params
        return minimize(
            loss, self._chosen_optimizers(), clip_norm=p.clip_norm, clip_value=p.clip_value,
            freeze=p.freeze, accumulate=p.accumulate, average=p.moving_average,
        )  # fmt: skip

    # --- To use ----------------------------------------------------------------------------------

    @property
    def logits_dimension(self) -> int:
        """Logits a row of all objectives together."""
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
        """The columns of a group as float32 [rows, width]; see `input_layer.dense_input`."""
        return input_layer.dense_input(self.spec, group, features)

    def field_input(self, features: Features, group: str) -> tf.Tensor:
        """The embeddings of a group, of one dimension: float32 [rows, fields, dimension]."""
        names = input_layer.columns_of(self.spec, group)
        dense = input_layer.dense_columns(self.spec, names, features)
        return input_layer.fields_of(self.spec, group, dense)

    def sequence_input(self, features: Features, group: str) -> tuple[tf.Tensor, tf.Tensor]:
        """The steps of a sequence group, float32 [rows, steps, width], and their number [rows]."""
        return input_layer.sequence_input(self.spec, group, features)

    def linear_logits(self, features: Features, group: str) -> tf.Tensor:
        """A linear model over a group: float32 [rows, self.logits_dimension]."""
        return input_layer.linear_logits(self.spec, group, features, self.logits_dimension)

    def add_output(self, name: str, value: tf.Tensor) -> None:
        """Makes a tensor [rows, ...] of `logits` a prediction, and a signature, of that name."""
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

        `params`, which an Estimator passes on from its own argument, overrides the instance's.
        """
        del config  # The RunConfig; part of the signature, needed by no built-in model.
        if params:
            merged = {**self.params.model_dump(), **params}
            other = type(self)(self.spec, merged)
            other.warm_start = self.warm_start
            return other(features, labels, mode)
        logits = self._split(self.logits(features, mode))
        model = type(self).__name__
        if mode == ModeKeys.PREDICT:
            return self._predict_spec(mode, logits)
        if labels is None:
            raise ValueError(f"mode {mode!r} needs labels, and the input_fn gives none")
        weights = {name: self._weights(name, labels) for name in self.objectives}
        losses = {
            name: objective.loss(
                logits[name],
                labels[objective.label_name],
                weights[name],
                labels.get(f"{objective.label_name}/group"),
            )
            for name, objective in self.objectives.items()
        }
        if mode == ModeKeys.TRAIN:
            losses.update(self.training_losses(labels, weights))
        loss = self.loss(losses)
        if not isinstance(loss, tf.Tensor) or loss.shape.rank != 0:
            raise ConfigError(f"{model}.loss returned {loss}, expected one number, as a tensor")
        regularization = tf.compat.v1.losses.get_regularization_losses()
        if regularization:
            loss = tf.add_n([loss, *regularization])
        loss = tf.identity(loss, name=LOSS_TENSOR)
        rows = tf.identity(tf.shape(next(iter(logits.values())))[0], name=ROWS_TENSOR)
        if mode == ModeKeys.EVAL:
            metrics = self._metrics(logits, labels, weights, rows)
            return estimator.EstimatorSpec(
                mode, loss=loss, eval_metric_ops=metrics, scaffold=self._averages()
            )
        for name, value in losses.items():
            tf.compat.v1.summary.scalar(f"loss/{name}", value)
        return estimator.EstimatorSpec(
            mode,
            loss=loss,
            train_op=self.train_op(loss),
            scaffold=first_values.scaffold(self.spec, self.warm_start),
        )

    def _predict_spec(self, mode: str, logits: Mapping[str, tf.Tensor]) -> Any:
        joint: dict[str, tf.Tensor] = {}
        outputs: dict[str, Any] = {}
        for name, objective in self.objectives.items():
            predictions = objective.predictions(logits[name])
            joint.update({f"{name}/{key}": value for key, value in predictions.items()})
            outputs[f"{name}/predict"] = estimator.export.PredictOutput(predictions)
            for method, output in objective.export_outputs(predictions).items():
                outputs[f"{name}/{method}"] = output
        for name, value in tf.compat.v1.get_collection(_OUTPUTS):
            joint[name] = value
            outputs[name] = estimator.export.PredictOutput({name: value})
        outputs["serving_default"] = estimator.export.PredictOutput(joint)
        return estimator.EstimatorSpec(
            mode, predictions=joint, export_outputs=outputs, scaffold=self._averages()
        )

    def _averages(self) -> Any:
        """The Scaffold that restores averaged weights, or None where there are none."""
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
                        f"{type(self).__name__}.optimizers makes the one for {prefix!r} without "
                        "self.make_optimizer, so that it would not follow the parameters schedule "
                        "and warm_up_steps; use that, or drop these"
                    )
        return pairs

    def _metrics(
        self,
        logits: Mapping[str, tf.Tensor],
        labels: Mapping[str, tf.Tensor],
        weights: Mapping[str, tf.Tensor],
        rows: tf.Tensor,
    ) -> dict[str, Metric]:
        result: dict[str, Metric] = {"rows": streaming_sum(rows, "rows")}
        for name, objective in self.objectives.items():
            label = objective.label_name
            with tf.compat.v1.variable_scope(f"metrics/{name}"):
                metrics = objective.metrics(
                    logits[name],
                    labels[label],
                    weights[name],
                    labels.get(f"{label}/true_probability"),
                    labels.get(f"{label}/group"),
                )
            result.update({f"{key}/{name}": metric for key, metric in metrics.items()})
        result[TOTAL_LOSS] = self._total_loss(result)
        return result

    def _total_loss(self, metrics: Mapping[str, Metric]) -> Metric:
        """The model's loss over all rows; Estimator's own is a mean over batches of any size."""
        # As in training, an objective without any weight costs nothing.
        losses = {name: metrics[f"loss/{name}"] for name in self.objectives}
        values = {
            name: tf.cast(tf.where(tf.math.is_nan(value), tf.zeros_like(value), value), tf.float32)
            for name, (value, _) in losses.items()
        }
        total = tf.add_n([self.loss(values), *tf.compat.v1.losses.get_regularization_losses()])
        return total, tf.group(*(update for _, update in losses.values()))

    def _weights(self, name: str, labels: Mapping[str, tf.Tensor]) -> tf.Tensor:
        label = self.objectives[name].label_name
        if f"{label}/weight" in labels:
            return labels[f"{label}/weight"]
        value = labels[label]
        # A label may be a vector; a weight is one number a row.
        return tf.ones_like(value if value.shape.rank == 1 else value[:, 0], tf.float32)

    def _split(self, logits: Logits) -> dict[str, tf.Tensor]:
        widths = {name: o.logits_dimension for name, o in self.objectives.items()}
        model = type(self).__name__
        for value in logits.values() if isinstance(logits, Mapping) else [logits]:
            if not isinstance(value, tf.Tensor) or value.dtype != tf.float32:
                raise ConfigError(f"{model}.logits returned {value}, expected float32 tensors")
        if isinstance(logits, Mapping):
            if set(logits) != set(widths):
                raise ConfigError(
                    f"{model}.logits returned logits for {', '.join(sorted(logits))}; "
                    f"the objectives are {', '.join(sorted(widths))}"
                )
            parts = {name: logits[name] for name in widths}
        else:
            if logits.shape.rank != 2 or logits.shape[1] != self.logits_dimension:
                raise ConfigError(
                    f"{model}.logits returned the shape {logits.shape}, expected "
                    f"[rows, {self.logits_dimension}] for {', '.join(widths)}"
                )
            parts = dict(zip(widths, tf.split(logits, list(widths.values()), axis=1)))
        for name, part in parts.items():
            if part.shape.rank != 2 or part.shape[1] != widths[name]:
                raise ConfigError(
                    f"{model}.logits returned the shape {part.shape} for {name!r}, expected "
                    f"[rows, {widths[name]}]"
                )
        return parts

    def _checked_params(self, params: Union[ModelParams, Mapping[str, Any], None]) -> ModelParams:
        if isinstance(params, self.Params):
            return params
        values = params.model_dump() if isinstance(params, ModelParams) else dict(params or {})
        try:
            return self.Params.model_validate(values)
        except pydantic.ValidationError as error:
            known = self.Params.model_fields
            problems = []
            for item in error.errors():
                name = ".".join(map(str, item["loc"]))
                if item["type"] == "extra_forbidden":
                    problems.append(f"unknown parameter {name!r}{did_you_mean(name, known)}")
                else:
                    problems.append(f"{name}: got {item['input']!r}, {item['msg']}")
            raise ConfigError(f"model {type(self).__name__}: {'; '.join(problems)}") from error
