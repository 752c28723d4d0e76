"""The settings of TPU embeddings: `tf.compat.v1.tpu.experimental.AdagradParameters` and others.

TensorFlow 2.15 has four of them in its public API, and 2.16 removed them. Programs make one for
`EmbeddingConfigSpec` even if they then run with `use_tpu=False`, where TPUEstimator ignores it.

Each class has the arguments, defaults, attributes and limits of TensorFlow 2.15. A class only holds
its values: no optimizer is made from them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from typing import Optional

_HOLDER = "tensorflow.compat.v1"
NAMES = (
    "AdagradParameters",
    "AdamParameters",
    "FtrlParameters",
    "StochasticGradientDescentParameters",
)


class OptimizationParameters:
    """What the classes have in common."""

    use_gradient_accumulation: bool
    clip_gradient_min: Optional[float]
    clip_gradient_max: Optional[float]

    def __post_init__(self) -> None:
        if self.clip_gradient_min is not None or self.clip_gradient_max is not None:
            self._expect(
                "use_gradient_accumulation",
                self.use_gradient_accumulation,
                "True, because clip_gradient_min or clip_gradient_max is set",
            )

    def _expect(self, field: str, is_right: bool, expected: str) -> None:
        if not is_right:
            value = getattr(self, field)
            raise ValueError(f"{type(self).__name__}: {field}: expected {expected}, got {value!r}.")


@dataclasses.dataclass(eq=False)
class AdagradParameters(OptimizationParameters):
    """Adagrad with TPU embeddings."""

    learning_rate: float
    initial_accumulator: float = 0.1
    use_gradient_accumulation: bool = True
    clip_weight_min: Optional[float] = None
    clip_weight_max: Optional[float] = None
    weight_decay_factor: Optional[float] = None
    multiply_weight_decay_factor_by_learning_rate: Optional[bool] = None
    clip_gradient_min: Optional[float] = None
    clip_gradient_max: Optional[float] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._expect("initial_accumulator", self.initial_accumulator > 0, "a number above 0")


@dataclasses.dataclass(eq=False)
class AdamParameters(OptimizationParameters):
    """Adam with TPU embeddings."""

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    lazy_adam: bool = True
    sum_inside_sqrt: bool = True
    use_gradient_accumulation: bool = True
    clip_weight_min: Optional[float] = None
    clip_weight_max: Optional[float] = None
    weight_decay_factor: Optional[float] = None
    multiply_weight_decay_factor_by_learning_rate: Optional[bool] = None
    clip_gradient_min: Optional[float] = None
    clip_gradient_max: Optional[float] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("beta1", "beta2"):
            self._expect(field, 0 <= getattr(self, field) < 1, "0 or more, and less than 1")
        self._expect("epsilon", self.epsilon > 0, "a number above 0")
        if not self.lazy_adam:
            self._expect(
                "use_gradient_accumulation",
                self.use_gradient_accumulation,
                "True, because lazy_adam is False",
            )


@dataclasses.dataclass(eq=False)
class FtrlParameters(OptimizationParameters):
    """FTRL with TPU embeddings."""

    learning_rate: float
    learning_rate_power: float = -0.5
    initial_accumulator_value: float = 0.1
    l1_regularization_strength: float = 0.0
    l2_regularization_strength: float = 0.0
    use_gradient_accumulation: bool = True
    clip_weight_min: Optional[float] = None
    clip_weight_max: Optional[float] = None
    weight_decay_factor: Optional[float] = None
    multiply_weight_decay_factor_by_learning_rate: Optional[bool] = None
    multiply_linear_by_learning_rate: bool = False
    beta: float = 0
    allow_zero_accumulator: bool = False
    clip_gradient_min: Optional[float] = None
    clip_gradient_max: Optional[float] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._expect("learning_rate_power", self.learning_rate_power <= 0, "0 or less")
        for field in (
            "initial_accumulator_value",
            "l1_regularization_strength",
            "l2_regularization_strength",
        ):
            self._expect(field, getattr(self, field) >= 0, "0 or more")
        self.initial_linear_value = 0.0


@dataclasses.dataclass(eq=False)
class StochasticGradientDescentParameters(OptimizationParameters):
    """Stochastic gradient descent with TPU embeddings."""

    learning_rate: float
    use_gradient_accumulation: bool = True
    clip_weight_min: Optional[float] = None
    clip_weight_max: Optional[float] = None
    weight_decay_factor: Optional[float] = None
    multiply_weight_decay_factor_by_learning_rate: Optional[bool] = None
    clip_gradient_min: Optional[float] = None
    clip_gradient_max: Optional[float] = None


def install_embedding_parameters(undo: contextlib.ExitStack) -> None:
    """Adds the classes that TensorFlow does not have to its public API; `undo` removes them."""
    holder = importlib.import_module(_HOLDER).tpu.experimental
    for name in NAMES:
        if not hasattr(holder, name):
            setattr(holder, name, globals()[name])
            undo.callback(delattr, holder, name)
