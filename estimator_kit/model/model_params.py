"""The parameters of every model, and the check of a model's parameters.

A model adds parameters as fields of its nested class `Params`, which pydantic checks. A parameter
that changes only training says so, so that a checkpoint may go on with another value:

    class Params(ek.ModelParams):
        noise: float = ek.parameter(0.1, changes="training")
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Optional, TypeVar, Union

import pydantic

from estimator_kit.config.areas.base import Prefix
from estimator_kit.errors import ConfigError
from estimator_kit.optimizers.choice import OptimizerChoice, default_rate
from feature_specs import meaning
from feature_specs.errors import did_you_mean

# What a parameter changes: only how training finds its numbers, or only what it names. A parameter
# without a declaration changes the logits of given variables, which is the strictest.
TRAINING = meaning.changes("training")
TRAINING_AND_SCORES = meaning.changes("training scores")
SCORES = meaning.changes("scores")
NOTHING = meaning.changes("nothing")
NAMED = meaning.changes("", named=True)

# The name of a group of the spec. Its columns count, and not its name.
Group = Annotated[str, NAMED]
OptionalGroup = Annotated[Optional[str], NAMED]


@dataclasses.dataclass(frozen=True)
class Searched:
    """How `--search=auto` searches a parameter, as an annotation of its field.

        dropout: Annotated[float, Searched({"range": [0, 0.6]})] = 0.0

    Attributes:
      form: the entry of the parameter in the file of a search. The values that trials begin with
        are added to it.
    """

    form: Mapping[str, Any]


# The names of the attributes that were read, while `noted_reads` notes them.
_READ: contextvars.ContextVar[Optional[set[str]]] = contextvars.ContextVar("read", default=None)


@contextlib.contextmanager
def noted_reads() -> Iterator[set[str]]:
    """Yields a set. It receives the names of the parameters that the block reads."""
    read: set[str] = set()
    token = _READ.set(read)
    try:
        yield read
    finally:
        _READ.reset(token)
        outer = _READ.get()
        if outer is not None:
            outer |= read


class ModelParams(pydantic.BaseModel):
    """The parameters of every model. A model adds its own parameters in a nested class `Params`.

    A prefix is a regular expression that the start of a variable's name must match.

    Attributes:
      optimizer: the name of an optimizer, or `{name: {field: value}}`. The default is `adagrad`,
        because its steps adapt to each row of an embedding table and skip rows that are not in the
        batch. Most built-in models have another default, which suits them better.
      learning_rate: the learning rate, above 0. By default it is the rate of the optimizer: 0.05
        for `adagrad`, 0.001 for `adam`, `adamw`, `lazy_adam` and `rmsprop`, 0.01 for `momentum` and
        `sgd`, 0.1 for `ftrl`, and 1 for `adadelta`. A model reads a number, never None.
      optimizers: one optimizer per prefix of variable names. The first prefix that fits a variable
        counts. It replaces all other optimizers of the model. An optimizer without a
        `learning_rate` uses the `learning_rate` that you give the model, or else its own default.
        For example: `{linear/: {ftrl: {learning_rate: 0.2}}, "": lazy_adam}`.
      schedule: how the learning rates change with the global step, as in
        `{cosine: {decay_steps: 10000}}`. By default they do not change.
      warm_up_steps: the number of steps in which the learning rates rise linearly from near 0,
        before the schedule starts.
      freeze: prefixes of variables that are not trained. No gradients are computed for them. Batch
        normalization in a frozen layer uses its moving averages, and does not change them.
      clip_norm: the limit on the norm of all gradients together. By default nothing is limited.
      clip_value: the limit on the absolute value of each number of the gradients. By default
        nothing is limited.
      accumulate: the number of batches whose gradients are averaged for one step. The last step of
        a training averages the batches that are left. `max_steps`, schedules and checkpoints still
        count batches.
      moving_average: the decay of a moving average of the weights, in (0, 1). Evaluation,
        prediction and exports then use the averages instead of the weights. Each step becomes
        slower if the model has large embedding tables.
      combine: how training combines several objectives into one step, as in `uncertainty` or
        `{gradnorm: {alpha: 1.5}}`. The default is the sum weighted by `loss_weight`.
      forward_features: features in the section `raw` of the spec that predictions and exports
        repeat as outputs of their names, such as the key of a row. Lists end with zeros or "" where
        another row of the batch has more values.
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), validate_default=True
    )

    # The parameters that have the rate of an optimizer, by the parameter that names the optimizer.
    optimizer_rates: ClassVar[Mapping[str, str]] = {"optimizer": "learning_rate"}

    optimizer: Annotated[
        OptimizerChoice, TRAINING, Searched({"choice": ["lazy_adam", "adagrad"]})
    ] = "adagrad"
    learning_rate: Annotated[
        Optional[float], TRAINING, Searched({"range": [0.0003, 0.1], "log": True})
    ] = pydantic.Field(default=None, gt=0, allow_inf_nan=False)
    optimizers: Annotated[Optional[dict[Prefix, OptimizerChoice]], TRAINING] = pydantic.Field(
        None, min_length=1
    )
    schedule: Annotated[Optional[Union[str, dict[str, Any]]], TRAINING] = None
    warm_up_steps: Annotated[int, TRAINING] = pydantic.Field(default=0, ge=0, strict=True)
    freeze: Annotated[tuple[Prefix, ...], TRAINING] = ()
    clip_norm: Annotated[Optional[float], TRAINING] = pydantic.Field(default=None, gt=0)
    clip_value: Annotated[Optional[float], TRAINING] = pydantic.Field(default=None, gt=0)
    accumulate: Annotated[int, TRAINING] = pydantic.Field(default=1, ge=1, strict=True)
    moving_average: Annotated[Optional[float], meaning.changes("weights training")] = (
        pydantic.Field(default=None, gt=0, lt=1)
    )
    combine: Annotated[Union[str, dict[str, Any]], TRAINING] = "weights"
    forward_features: Annotated[tuple[str, ...], meaning.changes("outputs")] = ()

    @pydantic.model_validator(mode="after")
    def _rates_of_optimizers(self) -> ModelParams:
        """Fills in the rates that nobody gave. The names that were given stay as they are.

        A class may have a default rate for its default optimizer. It does not suit another one.
        """
        own = self.__dict__
        given = {name for name in self.model_fields_set if own[name] is not None}
        if self.optimizers is not None and "learning_rate" not in given:
            own["optimizers"] = {
                prefix: _with_own_rate(choice) for prefix, choice in self.optimizers.items()
            }
        for optimizer, rate in self.optimizer_rates.items():
            usual = _name(own[optimizer]) == _name(type(self).model_fields[optimizer].default)
            if rate not in given and (own[rate] is None or not usual):
                # An unknown optimizer is an error of `make_optimizer`, which lists the names.
                own[rate] = default_rate(own[optimizer])
        return self

    def given(self) -> dict[str, Any]:
        """All parameters, without the rates that nobody gave: another optimizer has other ones."""
        unset = {*self.optimizer_rates.values()} - self.model_fields_set
        return self.model_dump(exclude=unset)

    if not TYPE_CHECKING:  # Otherwise a type checker would allow every name.

        def __getattribute__(self, name: str) -> Any:
            read = _READ.get()
            if read is not None:
                read.add(name)
            return super().__getattribute__(name)


def parameter(default: Any, *, changes: str, **limits: Any) -> Any:
    """A parameter that says what it changes. Without this, it counts as `weights`.

    A checkpoint that was trained with another value of a parameter that changes `weights` is
    refused, because the same variables would give other answers.

    Args:
      default: its default.
      changes: `nothing`, or words with spaces between them, such as `training` (how numbers are
        found), `scores` (metrics of given answers), `outputs` (names and order of answers) and
        `weights`. See `feature_specs.meaning`.
      limits: arguments of `pydantic.Field`, such as `ge=0`.

    Raises:
      ValueError: a word of `changes` does not exist.
    """
    field: Any = pydantic.Field(default, **limits)
    field.metadata.append(meaning.changes(changes))
    return field


def changes_of(kind: type[ModelParams], name: str) -> frozenset[str]:
    """The aspects that a parameter changes; see `feature_specs.meaning`.

    A class that only gives a parameter another default does not repeat what it changes.
    """
    for base in kind.__mro__:
        fields = base.model_fields if issubclass(base, ModelParams) else {}
        declared = meaning.of_field(fields[name]) if name in fields else None
        if declared is not None:
            return declared.aspects
    return frozenset({"weights"})


def searched_of(kind: type[ModelParams]) -> dict[str, Mapping[str, Any]]:
    """How `--search=auto` searches the parameters of a class, by name; see `Searched`.

    A class that only gives a parameter another default does not repeat it.
    """
    forms: dict[str, Mapping[str, Any]] = {}
    for base in reversed(kind.__mro__):
        fields = base.model_fields if issubclass(base, ModelParams) else {}
        for name, field in fields.items():
            for each in field.metadata:
                if isinstance(each, Searched):
                    forms[name] = each.form
    return forms


def _name(choice: OptimizerChoice) -> Any:
    return choice if isinstance(choice, str) else next(iter(choice), None)


def _with_own_rate(choice: OptimizerChoice) -> OptimizerChoice:
    """The same optimizer with its default rate, if it has none."""
    rate = default_rate(choice)
    if rate is None:
        return choice  # An unknown optimizer.
    if isinstance(choice, str):
        return {choice: {"learning_rate": rate}}
    name, fields = _name(choice), choice[_name(choice)] or {}
    if not isinstance(fields, Mapping) or fields.get("learning_rate") is not None:
        return choice
    return {**choice, name: {**fields, "learning_rate": rate}}


# Parameters whose value is a name or {name: {field: value}}.
_CHOICES = ("combine", "optimizer", "optimizers", "schedule")

Params = TypeVar("Params", bound=ModelParams)


def checked_params(
    model: str, kind: type[Params], values: Union[ModelParams, Mapping[str, Any], None]
) -> Params:
    """Makes the parameters of a model from values.

    Args:
      model: the name of the model, for messages.
      kind: the class `Params` of the model.
      values: an instance of this or another `Params` class, a mapping, or None for the defaults.

    Raises:
      ConfigError: names are unknown or values are invalid. The message lists all of them.
    """
    if isinstance(values, kind):
        return values
    values_by_name = values.given() if isinstance(values, ModelParams) else dict(values or {})
    try:
        return kind.model_validate(values_by_name)
    except pydantic.ValidationError as error:
        problems: list[str] = []
        items = error.errors()
        for item in items:
            if item["type"] == "too_short" and _is_outer(item, items):
                continue  # pydantic counts only the valid items, and names the invalid ones.
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
            message = re.sub("^Input should be ", "expected ", message)
            if item["type"] == "too_short":
                least = item["ctx"]["min_length"]
                message = f"expected at least {least} item{'s' if least > 1 else ''}"
            if item["type"] == "tuple_type":
                message = f"expected a list, as in {name}=[{item['input']}]"
            # A check of several fields has no name, and its input is all fields.
            problems.append(f"{name}: got {item['input']!r}, {message}" if name else message)
        raise ConfigError(f"model {model}: {'; '.join(problems)}") from error


def _is_outer(item: Any, items: Iterable[Any]) -> bool:
    """Whether a problem is about a list that contains the place of another problem."""
    place = item["loc"]
    return any(each is not item and each["loc"][: len(place)] == place for each in items)


def _choice_problem(item: Any) -> Optional[str]:
    """The message for a value that is neither a name nor {name: {field: value}}, or None.

    pydantic reports two errors for such a value, one for each form.
    """
    loc = [str(part) for part in item["loc"]]
    if len(loc) < 2 or loc[0] not in _CHOICES or loc[-1] not in ("str", "dict[str,any]"):
        return None
    name = ".".join(loc[:-1])
    return f"{name}: got {item['input']!r}, expected a name or {{name: {{field: value}}}}"
