"""`KerasModelFn`: a compiled Keras model that the kit trains, evaluates and exports.

    class Clicks(ek.KerasModelFn):
        def keras_model(self):
            deep = tf.keras.Input((20,), name="deep")            # a group of the spec, or a column
            click = tf.keras.layers.Dense(1, activation="sigmoid", name="click")(deep)
            model = tf.keras.Model(deep, click)                  # an output for each objective
            model.compile("adam", loss="binary_crossentropy")
            return model

    python run.py --model=my_pkg.clicks:Clicks ...

Keras provides the layers, their start values, the losses and the optimizer. The spec provides the
input, the metrics, the weights of rows, the reduction of losses, the predictions and the
signatures. The outputs are read as logits. If an output ends in the link function of its head (a
sigmoid or a softmax), its logits are the input of the link function, as in Keras's own losses. The
model is made once, in eager mode, and its layers are made again in each graph. A layer that you
write therefore needs a `get_config`.
"""

from __future__ import annotations

import abc
import concurrent.futures
import copy
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model import group_checks, input_layer, user_code
from estimator_kit.model.heads import Head, StepHead
from estimator_kit.model.keras import compiled as keras_compile
from estimator_kit.model.model_fn import Logits, ModelFn
from estimator_kit.model.model_params import ModelParams
from estimator_kit.optimizers.combining.base import Uncertainty
from estimator_kit.optimizers.combining.gradnorm import GradNorm
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.transforms import Features

_log = logging.getLogger("estimator_kit")

# Fields of an objective that are part of its loss. Here, Keras defines the loss.
_OF_LOSS = ("loss", "positive_penalty", "class_penalties")


class KerasModelFn(ModelFn):
    """A compiled Keras model as a ModelFn. Override `keras_model`.

    By default, the parameters `optimizer`, `learning_rate`, `clip_norm` and `clip_value` come from
    the compiled model. If the kit does not have the optimizer of the model, set `optimizer` or
    `optimizers`. The model then provides none of these parameters. Regularization losses of the
    layers count. The heads `ranking` and `next_item` are not supported, because a Keras loss is for
    single rows.
    `combine: uncertainty` and `gradnorm` do not support the Keras losses CosineSimilarity and
    Poisson, which may be negative. With these combinations, a loss that you write must never be
    negative.
    """

    def __init__(
        self, spec: FeatureSpec, params: Union[ModelParams, Mapping[str, Any], None] = None
    ):
        chosen_values = (
            params.model_dump(exclude_unset=True) if isinstance(params, ModelParams) else params
        )
        chosen_values = dict(chosen_values or {})
        self.spec = self._given_spec = spec
        self._check_heads()
        own = "optimizer" in chosen_values or chosen_values.get("optimizers") is not None
        compiled = _outside_of_graphs(lambda: self._read_model(has_optimizer=own))
        self._check_losses()
        super().__init__(self._with_loss_weights(), {**compiled, **chosen_values})
        self.heads = {n: self._with_keras_loss(o) for n, o in self.heads.items()}

    # --- To override -----------------------------------------------------------------------------

    @abc.abstractmethod
    def keras_model(self) -> Any:
        """Returns a compiled functional or Sequential `tf.keras.Model`. It is called once.

        Each input has the name of a group of the spec or of a dense column. A group is float32
        [rows, width]. A group of steps is [rows, steps, width], padded with zeros. A numeric column
        may have its own shape, such as an image [rows, height, width, channels]. Each output has
        the name of an objective: its key in a dict of outputs, or the name of its layer. With a
        single objective, the output may have any name. The method may use `self.spec`.
        """

    # --- Not to override -------------------------------------------------------------------------

    def check_spec(self) -> None:
        with user_code.explained(self, "keras_model"):
            self._check_inputs()

    def _check_inputs(self) -> None:
        for name, tensor in _inputs(self._model).items():
            if name in self.spec.groups:
                names = group_checks.columns_of(self.spec, name)
                if any(self.spec.is_sequence(column) for column in names):
                    group_checks.check_sequence_group(self.spec, name)
                else:
                    group_checks.check_dense_group(self.spec, name)
            else:
                names = (name,)
            shape = () if name in self.spec.groups else self._number_shape(name)
            if len(shape) > 1 and tuple(tensor.shape[1:]) == shape:
                continue
            width = sum(input_layer.width_of(self.spec, column) for column in names)
            if tensor.shape[-1] != width:
                raise ConfigError(
                    f"the input {name!r} of the Keras model has the shape {tuple(tensor.shape)}, "
                    f"but the spec gives {width} numbers. Use tf.keras.Input(({width},), "
                    f"name={name!r})" + (f", or the shape {shape}." if len(shape) > 1 else ".")
                )

    def _number_shape(self, name: str) -> tuple[int, ...]:
        """The shape of the numbers of a numeric column. () for other columns."""
        column = self.spec.columns[name]
        if not column.is_numbers(self.spec):
            return ()
        return self.spec.features[next(self.spec.features_of(name))].number_shape

    def groups(self) -> tuple[str, ...]:
        inputs = _inputs(self._model)
        return tuple(
            group
            for group, columns in self.spec.groups.items()
            if group in inputs or any(column in inputs for column in columns)
        )

    def logits(self, features: Features, mode: str) -> Logits:
        model = tf.keras.models.clone_model(self._model)
        names = list(_inputs(self._model))
        read = {column for name in names for column in self._dense_columns(name)}
        dense = input_layer.dense_columns(self.spec, read, features) if read else {}
        inputs_by_name = {name: self._input(name, features, dense) for name in names}
        inputs = list(inputs_by_name.values())
        outputs = self.keras(model, inputs if len(inputs) > 1 else inputs[0], mode)
        named = (
            outputs
            if isinstance(outputs, Mapping)
            else dict(
                zip(
                    self._model.output_names,
                    outputs if isinstance(outputs, (list, tuple)) else [outputs],
                )
            )
        )
        return {
            name: self._logits_of(name, named[output])
            for name, output in self._outputs(self.heads).items()
        }

    def first_values(self) -> Mapping[str, Any]:
        return dict(zip(self._weight_names, self._weights_at_start))

    # ---------------------------------------------------------------------------------------------

    def _with_params(self, params: Mapping[str, Any]) -> ModelFn:
        # From the original spec. The loss_weights of the model in self.spec would be rejected.
        return type(self)(self._given_spec, params)

    def _check_combination(self) -> None:
        if isinstance(self.combination, (GradNorm, Uncertainty)):
            for name, loss in self._losses.items():
                if keras_compile.can_be_negative(loss):
                    raise ConfigError(
                        f"combine: {self.params.combine} needs losses that are never negative, but "
                        f"{keras_compile.name_of(loss)}, the loss of objective {name!r}, may be. "
                        "Use another loss, or pcgrad or weights."
                    )
        super()._check_combination()

    def _read_model(self, *, has_optimizer: bool) -> dict[str, Any]:
        """Makes the model and stores its parts. Returns the parameters of its `compile`."""
        with user_code.explained(self, "keras_model"):
            self._model = self.keras_model()
            self._check_model(self.spec)
            return self._parts(has_optimizer=has_optimizer)

    def _parts(self, *, has_optimizer: bool) -> dict[str, Any]:
        self._weights_at_start = [weight.numpy() for weight in self._model.weights]
        self._weight_names = self._names_in_graphs()
        objective_of = {o: name for name, o in self._outputs(self.spec.objectives).items()}
        outputs = self._output_names()
        self._losses, self._loss_weights = keras_compile.losses(
            self._model, outputs, [objective_of[output] for output in outputs]
        )
        try:
            return keras_compile.optimizer_params(self._model.optimizer)
        except ConfigError:
            if has_optimizer:
                return {}
            raise

    def _names_in_graphs(self) -> list[str]:
        """The names of the weights in `logits`. A clone has its weights in the same order."""
        try:
            with tf.Graph().as_default():
                clone = tf.keras.models.clone_model(self._model)
                # The first clone converts layers to their graph classes, which support less.
                tf.keras.models.clone_model(self._model)
            return [weight.op.name for weight in clone.weights]
        except (NotImplementedError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split(".")[0].split())
            raise ConfigError(
                f"Keras cannot make the layers of {type(self).__name__}.keras_model again in a "
                f"graph ({reason}). Give your layers a get_config that extends the config of Layer "
                "by the arguments of __init__. A layer inside another model also needs "
                "@tf.keras.utils.register_keras_serializable()."
            ) from error

    def _check_model(self, spec: FeatureSpec) -> None:
        model, name = self._model, type(self).__name__
        if not isinstance(model, tf.keras.Model):
            raise ConfigError(f"{name}.keras_model returned {model!r}, expected a tf.keras.Model")
        if not getattr(model, "optimizer", None):
            raise ConfigError(
                f"{name}.keras_model returned a model that is not compiled. Call its "
                "compile(optimizer, loss) first."
            )
        if not isinstance(getattr(model, "input_names", None), list):
            raise ConfigError(
                f"{name}.keras_model returned a model without named inputs, expected a functional "
                "model, or a Sequential model that begins with tf.keras.Input. Call other layers "
                "with self.keras in a ModelFn."
            )
        dense = [column for column in spec.used_columns() if _is_dense(spec, column)]
        unknown = [n for n in model.input_names if n not in spec.groups and n not in dense]
        if unknown:
            raise ConfigError(
                f"the Keras model has the inputs {', '.join(model.input_names)}, but the spec has "
                f"no {', '.join(unknown)}. Name each tf.keras.Input after a group "
                f"({', '.join(spec.groups)}) or a dense column ({', '.join(dense) or 'none'})."
            )
        self._outputs(spec.objectives)
        metrics = (model.get_compile_config() or {}).get("metrics")
        if metrics:
            _log.warning(
                "the kit does not compute the metrics that the Keras model is compiled with. It "
                "computes the metrics of the objectives in the spec."
            )

    def _outputs(self, objectives: Mapping[str, Any]) -> dict[str, str]:
        """{objective: output of the model}."""
        names = self._output_names()
        if len(names) == len(objectives) == 1:
            return {next(iter(objectives)): names[0]}
        if set(names) != set(objectives):
            raise ConfigError(
                f"the Keras model has the outputs {', '.join(names)}, but the objectives of the "
                f"spec are {', '.join(objectives)}. Name the outputs after the objectives."
            )
        return {name: name for name in objectives if name in names}

    def _output_names(self) -> list[str]:
        """The outputs, in the order of Keras's lists of losses and weights."""
        outputs = self._model.output
        # Sorted, as in tf.nest.
        return sorted(outputs) if isinstance(outputs, Mapping) else list(self._model.output_names)

    def _dense_columns(self, name: str) -> Sequence[str]:
        """The columns of an input that are read side by side. An input may share them."""
        if name not in self.spec.groups:
            return () if len(_inputs(self._model)[name].shape) > 2 else (name,)
        is_sequence = self.spec.is_sequence(self.spec.groups[name][0])
        return () if is_sequence else group_checks.columns_of(self.spec, name)

    def _input(self, name: str, features: Features, dense: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if name not in self.spec.groups:
            return dense[name] if self._dense_columns(name) else self.numeric_input(features, name)
        if self._dense_columns(name):
            return input_layer.side_by_side(self.spec, name, dense)
        return self.sequence_input(features, name)[0]

    def _logits_of(self, name: str, output: tf.Tensor) -> tf.Tensor:
        head = self.heads[name]
        link, _ = head.link or (None, None)
        expects_logits = keras_compile.from_logits(self._losses[name])
        kind = output.op.type
        if link is not None and expects_logits == (kind == link):
            loss = keras_compile.name_of(self._losses[name])
            expected = "logits" if expects_logits else f"the output of {link}"
            raise ConfigError(
                f"the output for {name!r} ends in {kind}, but its loss {loss} expects {expected}. "
                f"For the head {head.config.head}, either end the output in {link}, or use "
                "from_logits=True in the loss, but not both."
            )
        logits = output.op.inputs[0] if link is not None and kind == link else output
        return tf.reshape(logits, [-1, head.logits_dimension])

    def _with_keras_loss(self, head: Head) -> Head:
        """The head with the Keras loss instead of the loss of the spec."""
        if isinstance(head, StepHead):
            return StepHead(self.spec, self._with_keras_loss(head.head))
        loss = self._losses[head.name]
        _, link = head.link or (None, None)
        expects_logits = keras_compile.from_logits(loss)

        def row_losses(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            predictions = logits if expects_logits or link is None else link(logits)
            call = loss.call if isinstance(loss, tf.keras.losses.Loss) else loss
            with user_code.explained(self, "keras_model"):
                losses = call(_as_keras(head, loss, labels), predictions)
                if losses.shape.rank != 1:
                    raise ConfigError(
                        f"the loss {keras_compile.name_of(loss)} of {head.name!r} has the "
                        f"shape {losses.shape}, expected one number per row"
                    )
            return losses

        new_head = copy.copy(head)
        vars(new_head)["row_losses"] = row_losses
        return new_head

    def _with_loss_weights(self) -> FeatureSpec:
        """The spec with the loss_weights that the model is compiled with, if any."""
        if self._loss_weights is None:
            return self.spec
        objectives = {
            name: entry.model_copy(update={"loss_weight": self._loss_weights[name]})
            for name, entry in self.spec.objectives.items()
        }
        return dataclasses.replace(self.spec, objectives=objectives)

    def _check_heads(self) -> None:
        for name, entry in self.spec.objectives.items():
            if entry.compares is not None:
                raise ConfigError(
                    f"objectives.{name}: the head {entry.head} compares {entry.compares}, but a "
                    "Keras loss is for single rows. Write a ModelFn, whose self.keras calls Keras "
                    "layers, or use another head."
                )

    def _check_losses(self) -> None:
        for name, entry in self.spec.objectives.items():
            said = [field for field in _OF_LOSS if field in entry.model_fields_set]
            if said:
                raise ConfigError(
                    f"objectives.{name}: has {', '.join(said)}, but the Keras model is compiled "
                    "with its own loss. Remove it from the spec."
                )
            if self._loss_weights is not None and "loss_weight" in entry.model_fields_set:
                raise ConfigError(
                    f"objectives.{name}: has a loss_weight, but the Keras model is compiled with "
                    "loss_weights. Remove one of the two."
                )
            loss = self._losses[name]
            if str(getattr(loss, "reduction", "auto")) not in ("auto", "sum_over_batch_size"):
                raise ConfigError(
                    f"the loss {keras_compile.name_of(loss)} of {name!r} has the reduction "
                    f"{loss.reduction}. Remove it, and set reduction in the objective."
                )


def _inputs(model: Any) -> dict[str, Any]:
    return dict(zip(model.input_names, model.inputs))


def _is_dense(spec: FeatureSpec, name: str) -> bool:
    return spec.columns[name].dense is not None and not spec.is_sequence(name)


def _as_keras(head: Head, loss: Any, labels: tf.Tensor) -> tf.Tensor:
    """Labels in the shape that a Keras loss expects for outputs [rows, n]."""
    if head.link is not None and head.link[0] == "Softmax":  # A label is the id of a class.
        if keras_compile.is_sparse(loss):
            return labels[:, tf.newaxis]
        return tf.one_hot(labels, head.logits_dimension)
    labels = tf.cast(labels, tf.float32)
    return labels if labels.shape.rank == 2 else labels[:, tf.newaxis]


def _outside_of_graphs(make: Any) -> Any:
    """Runs a function in eager mode, in a new thread, even if a graph is being built here.

    Keras starts numbering unnamed layers at 0 again, so that the names of a model's variables do
    not depend on the models that were made before it.
    """

    def run() -> Optional[Any]:
        tf.keras.backend.reset_uids()
        return make()

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()
