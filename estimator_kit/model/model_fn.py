"""`ModelFn`: a class whose instances are the `model_fn` of a `tf.estimator.Estimator`.

    class Squared(ek.ModelFn):
        class Params(ek.ModelParams):
            width: int = 32

        def logits(self, features, mode):
            hidden = dense_layer(self.dense_input(features, "deep"), self.params.width, "hidden")
            return dense_layer(hidden, self.logits_dimension, "logits")

Override `logits`, and if needed the other methods of the first section. Never override `__call__`,
which connects them to the objectives of the spec. A `ModelFn` keeps no state between calls and
builds no session. What only one mode makes is in `model.modes`.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Optional, Union

import tensorflow as tf

from estimator_kit.embeddings import growing_ids
from estimator_kit.errors import ConfigError
from estimator_kit.model import (
    gathers,
    graph_collections,
    group_checks,
    input_layer,
    outputs,
    own_losses,
    own_session,
    raw_features,
    table_gradients,
    tensor_equality,
    user_code,
)
from estimator_kit.model.catalogue import Catalogue, Columns
from estimator_kit.model.computing import Computing
from estimator_kit.model.heads import Head, joint, make_heads
from estimator_kit.model.keras import layers
from estimator_kit.model.logits import Logits as Logits
from estimator_kit.model.logits import split_logits, tensors_of
from estimator_kit.model.model_params import ModelParams, checked_params
from estimator_kit.model.modes import evaluation, labeled, prediction, training
from estimator_kit.model.modes.prediction import Hook
from estimator_kit.model.own_losses import ExampleLosses
from estimator_kit.model.places import input_places
from estimator_kit.optimizers import freezing, schedules
from estimator_kit.optimizers.choice import OptimizerChoice, make_optimizer
from estimator_kit.optimizers.combining import check_combination, parse_combination
from estimator_kit.optimizers.moving_average import AveragedSaver
from estimator_kit.optimizers.sync_replicas import Synchronous
from estimator_kit.tf_estimator import ModeKeys
from feature_specs.spec import FeatureSpec
from input_pipelines import eager
from input_pipelines.input_fns import PADDING
from input_pipelines.transform.transforms import Features

# The methods of the section `To override`.
OVERRIDABLE = (
    "logits", "check_spec", "groups", "checked_labels", "loss", "shared_prefix", "example_losses",
    "metrics", "hooks", "optimizers", "first_values", "scaffold", "train_op",
)  # fmt: skip


class ModelFn(abc.ABC):
    """A model over a feature spec.

    Args:
      spec: the feature spec.
      params: the parameters, as an instance of `Params` or a mapping. Unknown names are errors.

    Attributes:
      spec, params: the checked arguments.
      heads: `{name: Head}`, in the order of the spec.
      warm_start: the values that a new training takes from another model, or None. The kit sets it
        before it trains.
      together: the description of a cluster whose processes make each step together, or None. The
        kit sets it.
      last_step: the global step at which training ends, or None if it is not known. `accumulate`
        makes a step there of the batches that are left. The kit sets it.
      computing: how training computes the dense part. The kit sets it.
      catalogue: the items that an evaluation ranks, or None. The kit sets it if the model has
        `catalogue_columns`.
      combination: how training combines the losses of several objectives, from `params.combine`.
      loss_names: `own_losses.Added.names` in each mode whose graph was made.
    """

    Params: type[ModelParams] = ModelParams

    # Whether training makes the sigmoid of a binary logit a probability. With False, evaluations do
    # not report `calibration`, and the default gate of a retraining judges no probabilities.
    calibrated: ClassVar[bool] = True

    def __init__(
        self, spec: FeatureSpec, params: Union[ModelParams, Mapping[str, Any], None] = None
    ):
        self.spec = spec
        user_code.check_methods(type(self), ModelFn)
        if not (isinstance(self.Params, type) and issubclass(self.Params, ModelParams)):
            raise ConfigError(
                f"{type(self).__name__}.Params is not a subclass of ModelParams. Derive it from "
                "ek.ModelParams."
            )
        if hasattr(self, "training_losses"):
            raise ConfigError(
                f"{type(self).__name__}.training_losses: the kit no longer calls this method. "
                "Rename it to example_losses, which returns one loss for each row. Training and "
                "evaluation use them."
            )
        self.params: Any = checked_params(type(self).__name__, self.Params, params)
        self.heads: dict[str, Head] = make_heads(spec)
        self.warm_start: Any = None
        self.together: Optional[Synchronous] = None
        self.last_step: Optional[int] = None
        self.computing = Computing()
        self.catalogue: Optional[Catalogue] = None
        self.loss_names: dict[str, frozenset[str]] = {}
        for choice in (self.params.optimizer, *(self.params.optimizers or {}).values()):
            make_optimizer(choice, self.params.learning_rate)
        if self.params.schedule is not None:
            schedules.parse_schedule(self.params.schedule)
        self.combination = parse_combination(self.params.combine)
        raw_features.check_forwarded(type(self).__name__, spec, self.params.forward_features)
        self._check_combination()
        growing_ids.check_model(self)
        with user_code.explained(self, "check_spec"):
            try:
                self.check_spec()
            except group_checks.MissingGroup as error:
                raise error.naming_parameter(self.params) from None

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
          or `{objective: float32 [rows, its logits_dimension]}`. An objective with the head
          `next_item` may have `ek.StepScores`, so that training computes only the scores that its
          loss needs.
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
        factors = {name: self.spec.objectives[name].loss_weight for name in self.heads}
        return tf.add_n([losses[n] if f == 1 else losses[n] * f for n, f in factors.items()])

    def shared_prefix(self) -> Optional[str]:
        """A regular expression for the names of the last variables that all objectives share.

        GradNorm uses their gradients. By default, the field `shared` names them.
        """
        return None

    def example_losses(
        self,
        labels: Mapping[str, tf.Tensor],
        predictions: Mapping[str, tf.Tensor],
        weights: Mapping[str, tf.Tensor],
        features: Features,
    ) -> ExampleLosses:
        """The losses of rows, by objective, in the place of the losses of the heads.

        Training and evaluation call it, and reduce the losses with the `reduction` of the
        objective. So the metric `loss`, which chooses the best model, is what is trained. The
        metric `example_loss/<objective>` is the loss of one objective. `loss/<objective>` stays
        the loss of the head. By default it is empty, and the losses of the heads count.

        Args:
          labels: the labels by name, [rows], with their weights and groups.
          predictions: the predictions by `<objective>/<name>`, such as `click/logits`, and the
            tensors of `add_output`.
          weights: the weights by objective, float32 [rows]. 0 masks the row.
          features: the features that `logits` gets.

        Returns:
          `{objective: losses}`, float32 [rows], which the kit multiplies by the weights. To weight
          them otherwise, return `{objective: (losses, weights)}`, float32 [n] each.
        """
        return {}

    def metrics(
        self,
        labels: Mapping[str, tf.Tensor],
        predictions: Mapping[str, tf.Tensor],
        weights: Mapping[str, tf.Tensor],
        features: Features,
    ) -> Mapping[str, Any]:
        """More metrics of an evaluation, by name. `example_losses` describes the arguments.

        Returns:
          `{name: (value, update op)}`, such as the results of `tf.compat.v1.metrics`, or updated
          objects of `tf.keras.metrics`. A value with several numbers becomes one metric for each:
          `name/0`, `name/1`. A name must not be the name of a metric of the kit. By default it is
          empty.
        """
        return {}

    def hooks(self, mode: str) -> Sequence[Hook]:
        """More `tf.compat.v1.train.SessionRunHook` objects of a training or an evaluation.

        It is called at the end of each graph, so hooks can find its tensors. Each call must make
        new hooks, because the kit also builds graphs that it does not run. In a cluster, each task
        that trains has its own hooks. By default it is empty.

        Args:
          mode: `ModeKeys.TRAIN` or `ModeKeys.EVAL`.
        """
        return ()

    def optimizers(self) -> Sequence[tuple[str, Any]]:
        """(prefix of variable names, optimizer) for the parts of the model. See `minimize`.

        Make the optimizers with `self.make_optimizer`. The parameter `optimizers` replaces them. If
        the method does not read `self.params.optimizer` or `self.params.learning_rate`, a run that
        sets this parameter is refused.
        """
        return [("", self.make_optimizer(self.params.optimizer, self.params.learning_rate))]

    def first_values(self) -> Mapping[str, Any]:
        """The start values of variables in a new training: arrays by variable name.

        They replace the initializers. By default, the model has none. A warm start overwrites them.
        """
        return {}

    def scaffold(self, mode: str) -> Optional[Any]:
        """What TensorFlow runs when it makes a session, as a `tf.compat.v1.train.Scaffold`.

        It may have all parts of a Scaffold except a `saver`. Add what else a checkpoint should
        store to the graph collection `tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS`. The kit adds the op
        that initializes local variables and tables to the `local_init_op`, which also runs when an
        export is loaded. `init_fn` runs in a new training, after all other start values. By
        default, it is None.

        Args:
          mode: a `tf.estimator.ModeKeys`.
        """
        return None

    def train_op(self, loss: tf.Tensor) -> tf.Operation:
        """The op of a training step. It must also increment the global step.

        A run that sets a parameter of the step, such as `clip_norm`, is refused if the method does
        not read it. Pass it on, as in `ek.minimize(loss, pairs, clip_norm=self.params.clip_norm)`,
        or call `super().train_op(loss)`, which applies all of them. If the op runs none of the
        UPDATE_OPS, such as the averages of batch normalization, the kit runs them in the same step.
        """
        return training.minimized(self, loss)

    # --- To use ----------------------------------------------------------------------------------

    @property
    def catalogue_columns(self) -> Optional[Columns]:
        """What a model that ranks a catalogue in evaluations reads of its items, or None."""
        return None

    @property
    def logits_dimension(self) -> int:
        """The number of logits per row, of all objectives together."""
        return sum(head.logits_dimension for head in self.heads.values())

    def make_optimizer(
        self, optimizer: OptimizerChoice, learning_rate: Optional[float] = None
    ) -> Any:
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
        """The steps of a sequence group, float32 [rows, steps, width], and their number [rows].

        Steps after the last one of a row are zeros. If no row of a batch has a step, all have one
        step of zeros and the number 0, because many layers fail without steps.
        """
        steps, lengths = input_layer.sequence_input(self.spec, group, features)
        return input_layer.at_least_one_step(steps), lengths

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

    def raw(self, feature: str) -> Any:
        """A feature as the records have it. The section `raw` of the spec must list it.

        Call it in `logits` and in the methods that the kit calls after it. To answer with a row's
        key or words: `self.add_output("title", self.raw("title"))`.

        Args:
          feature: the name of a feature, also of one that a column reads.

        Returns:
          A tensor of the feature's dtype: [rows] for one value, [rows, *shape] for a fixed shape.
          For a list, a `tf.RaggedTensor` [rows, None], and for a list of lists [rows, None, None].
          With `decode`, the bytes before they are decoded, [rows]. A missing value is the `default`
          of the spec (for `zeros`, ""), and a missing list is empty.

        Raises:
          ConfigError: the section `raw` of the spec does not list the feature.
        """
        return raw_features.get(type(self).__name__, self.spec, feature)

    def embedding_table(self, column: str) -> Any:
        """The table of an embedding column, float32 [ids, dimension], which the model has read.

        It is the variable from which `sequence_input`, `dense_input` or `field_input` took the
        vectors, in one piece or several. Use it to score items with their input vectors, as in
        `ek.StepScores(hidden, lengths, self.embedding_table("item_emb"))`.

        Raises:
          ConfigError: the model has not read the column yet, or has read it in several scopes,
            each of which has its own table.
        """
        return gathers.table_of(self.spec, column)

    def linear_logits(self, features: Features, group: str) -> tf.Tensor:
        """A linear model over a group: float32 [rows, self.logits_dimension]."""
        return input_layer.linear_logits(self.spec, group, features, self.logits_dimension)

    def keras(self, layer: Any, inputs: Any, mode: str, **arguments: Any) -> Any:
        """Calls a layer or model of `tf.keras` that was made in `logits`.

        Call Keras layers only through this method. It tells them whether this is training, and
        collects their updates and regularization losses. See `keras.layers.call`.
        """
        return layers.call(layer, inputs, training=mode == ModeKeys.TRAIN, **arguments)

    def add_output(self, name: str, value: tf.Tensor) -> None:
        """Adds a tensor [rows, ...] of `logits` as a prediction and a signature with this name.

        Raises:
          ConfigError: the kit or the model has an output of this name, or the value is not a tensor
            with one value, of any shape, for each row.
        """
        outputs.add(type(self).__name__, name, value)

    def add_loss(self, name: str, losses: tf.Tensor, weights: Optional[tf.Tensor] = None) -> None:
        """Adds losses of rows, float32 [rows], to the loss. Call it in `logits`, in every mode.

        The kit multiplies them by the weights of the rows and reduces them as it does the losses of
        the objectives: with the same `reduction` if all objectives have one, or else with `mean`.
        The losses 1 and 3 with the weights 1 and 0.5 add (1 + 1.5) / 1.5 = 1.667. To give the loss
        a factor, multiply the losses. The metric `added_loss/<name>` is the loss over all rows of
        an evaluation, and the metric `loss` contains it. Predictions do not.

        Args:
          name: the name of the loss, once in a model.
          losses: float32 [rows].
          weights: float32 [rows]. By default the largest weight of the row's objectives, so a row
            that all objectives mask does not count.
        """
        own_losses.add(type(self).__name__, name, losses, weights)

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
            merged = {**self.params.given(), **params}
            other = self._with_params(merged)
            other.warm_start = self.warm_start
            other.together = self.together
            other.last_step = self.last_step
            other.computing = self.computing
            other.catalogue = self.catalogue
            return other(features, labels, mode)
        with (
            eager.building(),
            growing_ids.in_mode(mode),
            table_gradients.compact(training=mode == ModeKeys.TRAIN),
            raw_features.offered(features),
            tensor_equality.warned(),
        ):
            return self._estimator_spec(features, labels, mode)

    def _estimator_spec(
        self, features: Features, labels: Optional[Mapping[str, tf.Tensor]], mode: str
    ) -> Any:
        readers = own_session.readers()
        features = growing_ids.looked_up(self.spec, features)
        features = user_code.Named(features, "features")
        with (
            table_gradients.collected(mode != ModeKeys.PREDICT) as penalties,
            own_losses.collected() as row_losses,
        ):
            logits, outputs_of_model = self._forward(features, mode)
        losses = own_losses.of_logits(type(self).__name__, row_losses)
        self.loss_names[mode] = losses.names
        graph_collections.check(type(self).__name__)
        graph_collections.join_trainable(type(self).__name__)
        if mode == ModeKeys.PREDICT:
            end = own_session.EndOfInput(type(self).__name__, readers)
            return prediction.spec(
                self.heads, logits, outputs_of_model, features, self._scaffold(mode), [end]
            )
        if labels is None:
            raise ValueError(f"mode {mode!r} needs labels, but the input_fn returns none")
        batch = labeled.labeled_batch(
            self,
            features,
            labels,
            logits,
            outputs_of_model,
            mode,
            added=losses,
            penalties=list(penalties.values()),
            computes_losses=type(self).example_losses is not ModelFn.example_losses,
            sums_losses=type(self).loss is ModelFn.loss,
        )
        if mode == ModeKeys.EVAL:
            return evaluation.spec(self, batch, readers, lambda: self._scaffold(mode))
        graph_collections.join_trainable(type(self).__name__)  # Of losses.
        has_own = type(self).train_op is not ModelFn.train_op
        return training.spec(self, batch, readers, own_train_op=has_own)

    def _forward(
        self, features: Features, mode: str
    ) -> tuple[dict[str, tf.Tensor], list[outputs.Output]]:
        """The logits by objective, and the added outputs."""
        for name, values in features.items():  # Columns and weights of columns.
            if name in self.spec.columns and self.spec.columns[name].is_numbers(self.spec):
                input_places.mark(name, values)
        # Not in a name scope: Keras layers and tf.Variable would get other names.
        with (
            user_code.explained(self, "logits"),
            self.computing.applied(type(self).__name__, training=mode == ModeKeys.TRAIN),
            freezing.in_layers(self.params.freeze),
            outputs.collected() as added,
        ):
            returned = self.logits(features, mode)
            if mode == ModeKeys.PREDICT:
                raw_features.forward(self, added)
        with user_code.explained(self, "logits"), tf.name_scope("logits"):
            # An evaluation ranks the items at the last step, so it needs no factors of others.
            logits = split_logits(
                type(self).__name__, returned, self.heads, factors=mode != ModeKeys.EVAL
            )
            outputs.check_rows_of_logits(features, tensors_of(logits))
            for name, value in logits.items():
                if isinstance(value, tf.Tensor):
                    logits[name] = self.heads[name].in_units(value)
        outputs.check_rows(added, features, tensors_of(logits))
        layers.collect([*tensors_of(logits), *(output.value for output in added)])
        return logits, added

    def _check_combination(self) -> None:
        overridden = {
            name
            for name in ("loss", "train_op")
            if getattr(type(self), name) is not getattr(ModelFn, name)
        }
        check_combination(
            self.combination, self.params.combine, self.spec, type(self).__name__, overridden
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
        labels = joint.dense_labels(labels)
        weights = joint.weights_of(self.heads, labels)
        if padding is not None:
            weights = {n: tf.where(padding, tf.zeros_like(w), w) for n, w in weights.items()}
        labels, weights = user_code.Named(labels, "labels"), user_code.Named(weights, "weights")
        if tf.executing_eagerly():  # A search for a bad record, which catches errors of checks.
            return self.checked_labels(labels, weights), weights
        with user_code.explained(self, "checked_labels"):
            place = user_code.name_of(self, "checked_labels")
            returned = self.checked_labels(labels, weights)
            return labeled.checked_labels(self.spec, place, returned, labels), weights

    def _scaffold(self, mode: str) -> Optional[Any]:
        """The Scaffold of an evaluation or a prediction. It may restore averaged weights."""
        own_scaffold = own_session.checked_scaffold(self, mode)
        if self.params.moving_average is None:
            return own_session.merged(own_scaffold)
        weights = freezing.not_frozen(tf.compat.v1.trainable_variables(), self.params.freeze)
        return own_session.merged(own_scaffold, saver=AveragedSaver(weights))
