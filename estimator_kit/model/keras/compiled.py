"""Translates the optimizer and the losses of a compiled Keras model to the kit.

`optimizer_params` returns parameters of a ModelFn. A Keras optimizer would store its learning rate
in the checkpoint and ignore a new rate at the next start (see `optimizers`). The kit therefore uses
its own optimizer with the same formula. A Keras optimizer that the kit does not have is an error.
`losses` returns a Keras loss for each objective. This module only reads the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.errors import ConfigError
from feature_specs.errors import nearest, value_text

# By Keras optimizer: the kit's name, and {field of Keras: field of the kit}.
_OPTIMIZERS: dict[str, tuple[str, dict[str, str]]] = {
    "Adadelta": ("adadelta", {"rho": "rho", "epsilon": "epsilon"}),
    # Its epsilon of 1e-7 changes no step by more than 1e-6, because the sums start at 0.1.
    "Adagrad": ("adagrad", {"initial_accumulator_value": "initial_accumulator_value"}),
    "Adam": ("adam", {"beta_1": "beta1", "beta_2": "beta2", "epsilon": "epsilon"}),
    "Ftrl": (
        "ftrl",
        {
            "learning_rate_power": "learning_rate_power",
            "initial_accumulator_value": "initial_accumulator_value",
            "l1_regularization_strength": "l1",
            "l2_regularization_strength": "l2",
            "l2_shrinkage_regularization_strength": "l2_shrinkage",
        },
    ),
    "SGD": ("momentum", {"momentum": "momentum", "nesterov": "use_nesterov"}),
}

# Options of Keras optimizers that the kit has under other names, and options that it does not have.
_CLIPPING = {"global_clipnorm": "clip_norm", "clipvalue": "clip_value"}
_REFUSED = ("amsgrad", "beta", "clipnorm", "decay", "use_ema", "weight_decay")


def optimizer_params(optimizer: Any) -> dict[str, Any]:
    """`{"optimizer": ..., "learning_rate": ...}` and clipping, as parameters of a ModelFn.

    Raises:
      ConfigError: the kit has no optimizer with the same formula.
    """
    name, config = type(optimizer).__name__, optimizer.get_config()
    remedy = "Use another, or set an optimizer of the kit: --model_params=optimizer=..."
    if name not in _OPTIMIZERS:
        raise ConfigError(
            f"the model is compiled with the optimizer {name}, expected one of "
            f"{', '.join(_OPTIMIZERS)}. {remedy}"
        )
    for option in _REFUSED:
        if config.get(option):
            raise ConfigError(
                f"the model is compiled with {name} with {option}={config[option]}, which the "
                f"kit does not support. {remedy}"
            )
    rate = config["learning_rate"]
    if isinstance(rate, Mapping):
        raise ConfigError(
            f"the model is compiled with {name} with a schedule as its learning_rate. Use a "
            "number, and set the schedule with --model_params=schedule=..."
        )
    kind, fields = _OPTIMIZERS[name]
    choice = {ours: _plain(config[theirs]) for theirs, ours in fields.items()}
    if kind == "momentum" and not choice["momentum"]:
        kind, choice = "sgd", {}
    clipping = {
        ours: _plain(config[theirs])
        for theirs, ours in _CLIPPING.items()
        if config.get(theirs) is not None
    }
    return {"optimizer": {kind: choice}, "learning_rate": float(rate), **clipping}


def losses(
    model: Any, outputs: Sequence[str], objectives: Sequence[str]
) -> tuple[dict[str, Any], Optional[dict[str, float]]]:
    """The Keras loss of each objective, a function or an object; and the loss weights, or None.

    Args:
      model: a compiled model.
      outputs: the names of its outputs, in the order of Keras's lists of losses.
      objectives: the objective of each output.

    Raises:
      ConfigError: an output has no loss, or a loss that Keras does not know.
    """
    losses_by_output = _by_output(model.loss, outputs, "loss")
    missing = [output for output in outputs if losses_by_output.get(output) is None]
    if missing:
        raise ConfigError(
            f"the model is compiled without a loss for {', '.join(missing)}. Add one to compile."
        )
    losses_by_objective = {
        objective: _loss_of(output, losses_by_output[output])
        for output, objective in zip(outputs, objectives)
    }
    weights = (model.get_compile_config() or {}).get("loss_weights")
    if weights is None:
        return losses_by_objective, None
    by_output = _by_output(weights, outputs, "loss_weights")
    return losses_by_objective, {
        objective: float(by_output.get(output, 1.0))
        for output, objective in zip(outputs, objectives)
    }


def from_logits(loss: Any) -> bool:
    """Whether a Keras loss expects logits instead of probabilities."""
    config = loss.get_config() if isinstance(loss, tf.keras.losses.Loss) else {}
    return bool(config.get("from_logits", False))


def can_be_negative(loss: Any) -> bool:
    """Whether a loss of Keras may be negative. False for losses that users write."""
    negative_losses = (tf.keras.losses.cosine_similarity, tf.keras.losses.poisson)
    return getattr(loss, "fn", loss) in negative_losses


def name_of(loss: Any) -> str:
    """The name of a loss, such as `binary_crossentropy`."""
    return str(getattr(loss, "name", None) or getattr(loss, "__name__", loss))


def is_sparse(loss: Any) -> bool:
    """Whether a loss of classes takes their numbers. A user may have given it any name."""
    function = getattr(loss, "fn", loss)
    names = (name_of(loss), getattr(function, "__name__", ""), type(loss).__name__)
    return any("sparse" in name.lower() for name in names)


def _loss_of(output: str, loss: Any) -> Any:
    try:
        keras_loss = tf.keras.losses.get(loss)
    except (TypeError, ValueError):
        keras_loss = None
    if not callable(keras_loss):
        near = nearest(loss, [n for n in dir(tf.keras.losses) if not n.startswith("_")])
        raise ConfigError(
            f"the model is compiled with the loss {value_text(loss)} for {output}, expected a name "
            f"in tf.keras.losses, a Loss or a function{near}"
        )
    return keras_loss


def _by_output(value: Any, outputs: Sequence[str], what: str) -> dict[str, Any]:
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in outputs]
        if unknown:
            raise ConfigError(
                f"the model is compiled with {what} for {', '.join(map(str, unknown))}, but it has "
                f"no such output. Use one of: {', '.join(outputs)}."
            )
        return dict(value)
    if isinstance(value, (list, tuple)):
        if len(value) != len(outputs):
            raise ConfigError(
                f"the model is compiled with {what} for {len(value)} outputs, but has "
                f"{len(outputs)}: {', '.join(outputs)}"
            )
        return dict(zip(outputs, value))
    return dict.fromkeys(outputs, value)


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool) else float(value)
