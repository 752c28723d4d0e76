"""The parameters that every model has, and what goes wrong with those of any model.

A model's own are fields of its nested `Params` class, which pydantic checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional, TypeVar, Union

import pydantic

from estimator_kit.config.patterns import Prefix
from estimator_kit.errors import ConfigError
from estimator_kit.optimizers.choice import OptimizerChoice
from feature_specs.errors import did_you_mean


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
      combine: how training makes one step of several objectives, of `combining.COMBINATIONS`, as in
        `uncertainty` or `{gradnorm: {alpha: 1.5}}`. By default the sum by `loss_weight`.
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), validate_default=True
    )

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
    combine: Union[str, dict[str, Any]] = "weights"


# Parameters that are a name, or {name: {field: value}}.
_CHOICES = ("combine", "optimizer", "optimizers", "schedule")

Params = TypeVar("Params", bound=ModelParams)


def checked_params(
    model: str, kind: type[Params], values: Union[ModelParams, Mapping[str, Any], None]
) -> Params:
    """The parameters of a model, from values for them.

    Args:
      model: its name, for messages.
      kind: its class `Params`.
      values: of that class, of another one, a mapping, or None for the defaults.

    Raises:
      ConfigError: a name is unknown, or a value cannot be; all of them.
    """
    if isinstance(values, kind):
        return values
    given = values.model_dump() if isinstance(values, ModelParams) else dict(values or {})
    try:
        return kind.model_validate(given)
    except pydantic.ValidationError as error:
        problems: list[str] = []
        for item in error.errors():
            problem = _choice_problem(item)
            if problem is not None:
                problems += [problem] if problem not in problems else []
                continue
            name = ".".join(map(str, item["loc"]))
            if item["type"] == "extra_forbidden":
                problems.append(
                    f"unknown parameter {name!r}{did_you_mean(name, kind.model_fields)}"
                )
                continue
            message = item["msg"].removeprefix("Value error, ")
            if item["type"] == "tuple_type":
                message = f"expected a list, as in {name}=[{item['input']}]"
            # A check of several fields together has no name, and all of them as its input.
            problems.append(f"{name}: got {item['input']!r}, {message}" if name else message)
        raise ConfigError(f"model {model}: {'; '.join(problems)}") from error


def _choice_problem(item: Any) -> Optional[str]:
    """What to say where a value is neither a name nor {name: {field: value}}; None elsewhere.

    Of such a field pydantic says what is wrong with each of the two, under names of its own.
    """
    loc = [str(part) for part in item["loc"]]
    if len(loc) < 2 or loc[0] not in _CHOICES or loc[-1] not in ("str", "dict[str,any]"):
        return None
    name = ".".join(loc[:-1])
    return f"{name}: got {item['input']!r}, expected a name or {{name: {{field: value}}}}"
