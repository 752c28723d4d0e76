"""Learning-rate schedules: factors of the learning rate, as functions of the global step.

    schedule: cosine with decay_steps=1000, warm_up_steps=100, learning_rate=0.1

A schedule is a factor instead of a rate, so that it works for all learning rates of a model, and a
new rate on the command line applies to the rest of the training. Steps are counted from the end of
the warm-up. A checkpoint only contains the global step.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Union

import pydantic
import tensorflow as tf
from pydantic import Field

from estimator_kit.config.choices import parse_choice

Steps = Annotated[int, Field(ge=1, strict=True)]
Share = Annotated[float, Field(ge=0, le=1)]


class Schedule(pydantic.BaseModel):
    """The base class of schedules. `factor` takes and returns float64 scalars."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    def factor(self, step: tf.Tensor) -> tf.Tensor:
        """The factor at a step. Always 1."""
        return tf.ones_like(step)


class Constant(Schedule):
    """The factor is always 1."""


class Exponential(Schedule):
    """decay_rate ^ (step / decay_steps).

    With decay_steps 10 and decay_rate 0.5, it is 1 at step 0, 0.7071 at 5, 0.5 at 10, and 0.25 at
    20.

    Attributes:
      decay_steps: the number of steps in which the factor is multiplied by `decay_rate`.
      decay_rate: the base, in (0, 1).
      staircase: whether to round the exponent down, so that the factor changes every `decay_steps`.
    """

    decay_steps: Steps
    decay_rate: Annotated[float, Field(gt=0, lt=1)]
    staircase: bool = False

    def factor(self, step: tf.Tensor) -> tf.Tensor:
        exponent = step / self.decay_steps
        return self.decay_rate ** (tf.floor(exponent) if self.staircase else exponent)


class Polynomial(Schedule):
    """end + (1 - end) (1 - step / decay_steps) ^ power, and `end` from decay_steps on.

    With decay_steps 10, end 0.1 and power 1 (a straight line), it is 1 at step 0 and 0.55 at 5.

    Attributes:
      decay_steps: the step at which the factor reaches `end`.
      end: the last factor, in [0, 1].
      power: the exponent, above 0.
    """

    decay_steps: Steps
    end: Share = 0.0
    power: Annotated[float, Field(gt=0)] = 1.0

    def factor(self, step: tf.Tensor) -> tf.Tensor:
        left = 1 - tf.minimum(step / self.decay_steps, 1)
        return self.end + (1 - self.end) * left**self.power


class Cosine(Schedule):
    """end + (1 - end) (1 + cos(pi step / decay_steps)) / 2, and `end` from decay_steps on.

    Loshchilov & Hutter, SGDR, ICLR 2017, equation 5, without restarts. With decay_steps 10 and
    end 0, it is 1 at step 0, 0.5 at 5, and 0 from 10 on.

    Attributes:
      decay_steps: the step at which the factor reaches `end`.
      end: the last factor, in [0, 1].
    """

    decay_steps: Steps
    end: Share = 0.0

    def factor(self, step: tf.Tensor) -> tf.Tensor:
        done = tf.minimum(step / self.decay_steps, 1)
        return self.end + (1 - self.end) * (1 + tf.cos(math.pi * done)) / 2


class Piecewise(Schedule):
    """factors[i] from step boundaries[i - 1] on, until boundaries[i].

    With boundaries [10, 20] and factors [1, 0.1, 0.01], it is 1 at step 9, 0.1 at 10, and 0.01 at
    20.

    Attributes:
      boundaries: the steps at which the factor changes, strictly increasing.
      factors: the factors, one more than there are boundaries.
    """

    boundaries: Annotated[tuple[Steps, ...], Field(min_length=1)]
    factors: tuple[Annotated[float, Field(ge=0)], ...]

    @pydantic.model_validator(mode="after")
    def _check(self) -> Piecewise:
        if any(a >= b for a, b in zip(self.boundaries, self.boundaries[1:])):
            raise ValueError(f"boundaries must be strictly increasing, got {list(self.boundaries)}")
        if len(self.factors) != len(self.boundaries) + 1:
            raise ValueError(
                f"{len(self.boundaries)} boundaries need {len(self.boundaries) + 1} factors, got "
                f"{len(self.factors)}"
            )
        return self

    def factor(self, step: tf.Tensor) -> tf.Tensor:
        passed = tf.reduce_sum(tf.cast(step >= tf.constant(self.boundaries, step.dtype), tf.int32))
        return tf.gather(tf.constant(self.factors, step.dtype), passed)


SCHEDULES: dict[str, type[Schedule]] = {
    "constant": Constant,
    "cosine": Cosine,
    "exponential": Exponential,
    "piecewise": Piecewise,
    "polynomial": Polynomial,
}


def parse_schedule(choice: Union[str, dict[str, Any]]) -> Schedule:
    """The schedule for `name` or `{name: {field: value}}`.

    Raises:
      ConfigError: the name is unknown, or a field is wrong.
    """
    return parse_choice("schedule", choice, SCHEDULES)


def factor_at(step: tf.Tensor, schedule: Schedule, warm_up_steps: int = 0) -> tf.Tensor:
    """The factor of the learning rate at a global step (a scalar integer), float32.

    The warm-up comes before the schedule. During the warm-up, the factor is (step + 1) /
    warm_up_steps, so that the first step is small but not 0.
    """
    step = tf.cast(step, tf.float64)
    factor = schedule.factor(tf.maximum(step - warm_up_steps, 0))
    if warm_up_steps:
        factor = tf.where(step < warm_up_steps, (step + 1) / warm_up_steps, factor)
    return tf.cast(factor, tf.float32)
