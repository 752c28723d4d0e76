"""The optimizers by name, with their fields: what `optimizer={name: {field: value}}` may say.

Each makes one of TensorFlow's v1 classes, or a class that extends one. `choice` says why.
"""

from __future__ import annotations

import abc
from typing import Annotated, Any, ClassVar, Optional

import pydantic
import tensorflow as tf
from pydantic import Field

from estimator_kit.optimizers.sparse import AdagradOptimizer, AdamWOptimizer, LazyAdamOptimizer
from feature_specs.entry import NotNegativeFloat, PositiveFloat

_train = tf.compat.v1.train

Decay = Annotated[float, Field(ge=0, lt=1)]


class _Kind(pydantic.BaseModel):
    """The fields of an optimizer: the arguments of its TensorFlow class, mostly with its defaults.

    Attributes:
      learning_rate: the learning rate, above 0. The default is the learning rate of the model.
      default_rate: the rate of a model that chooses this optimizer and gives no rate. It is the
        rate of the paper or of TensorFlow's Keras optimizer, except for Adagrad, FTRL and SGD,
        which have the rates of TensorFlow's canned estimators or learn too slowly otherwise.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    default_rate: ClassVar[float]

    learning_rate: Optional[PositiveFloat] = None

    @abc.abstractmethod
    def make(self, rate: Any) -> Any:
        """Makes the optimizer. The rate is a number or a tensor."""

    def _fields(self) -> dict[str, Any]:
        return self.model_dump(exclude={"learning_rate"})


class Adadelta(_Kind):
    """Adadelta (Zeiler, ADADELTA: An Adaptive Learning Rate Method, 2012).

    It computes the size of its steps itself, so the learning rate is usually 1.

    Attributes:
      rho: the decay of the moving averages, in [0, 1).
      epsilon: a small number that avoids a division by 0.
    """

    default_rate = 1.0
    rho: Decay = 0.95
    epsilon: PositiveFloat = 1e-8

    def make(self, rate: Any) -> Any:
        return _train.AdadeltaOptimizer(rate, **self._fields())


class Adagrad(_Kind):
    """Adagrad (Duchi et al., JMLR 2011). See `AdagradOptimizer` for its formula.

    Its steps adapt to each row of an embedding table, and skip rows that are not in the batch.

    Attributes:
      initial_accumulator_value: the start value of the sums of squared gradients, above 0.
    """

    default_rate = 0.05
    initial_accumulator_value: PositiveFloat = 0.1

    def make(self, rate: Any) -> Any:
        return AdagradOptimizer(rate, **self._fields())


class Adam(_Kind):
    """Adam (Kingma & Ba, ICLR 2015). Each step updates all rows of a table, which takes time.

    `lazy_adam` updates only the rows of the batch.

    Attributes:
      beta1: the decay of the average of the gradients, in [0, 1).
      beta2: the decay of the average of the squared gradients, in [0, 1).
      epsilon: a small number that avoids a division by 0.
    """

    default_rate = 0.001
    beta1: Decay = 0.9
    beta2: Decay = 0.999
    epsilon: PositiveFloat = 1e-8

    def make(self, rate: Any) -> Any:
        return _train.AdamOptimizer(rate, **self._fields())


class LazyAdam(Adam):
    """Adam that updates only the rows of the batch. See `LazyAdamOptimizer` for its formula."""

    def make(self, rate: Any) -> Any:
        return LazyAdamOptimizer(rate, **self._fields())


class AdamW(Adam):
    """Adam with decoupled weight decay. See `AdamWOptimizer` for its formula.

    On tables, it updates and decays only the rows of the batch, as `lazy_adam` does. It also decays
    biases. To leave them out, use `optimizers={".*bias": adam, "": adamw}`.

    Attributes:
      weight_decay: the share of each weight that a step of rate 1 takes away, 0 or more.
    """

    weight_decay: NotNegativeFloat = 0.004

    def make(self, rate: Any) -> Any:
        return AdamWOptimizer(rate, **self._fields())


class Ftrl(_Kind):
    """FTRL-Proximal (McMahan et al., Ad Click Prediction: a View from the Trenches, KDD 2013).

    Attributes:
      l1: the L1 penalty, 0 or more. It makes unimportant weights exactly 0.
      l2: the L2 penalty, 0 or more. It stabilizes the weights.
      l2_shrinkage: an L2 penalty on the magnitude of the weights, 0 or more.
      learning_rate_power: how the learning rate falls, 0 or less. 0 keeps it constant.
      initial_accumulator_value: the start value of the sums of squared gradients, 0 or more.
    """

    default_rate = 0.1
    l1: NotNegativeFloat = 0.0
    l2: NotNegativeFloat = 0.0
    l2_shrinkage: NotNegativeFloat = 0.0
    learning_rate_power: Annotated[float, Field(le=0)] = -0.5
    initial_accumulator_value: NotNegativeFloat = 0.1

    def make(self, rate: Any) -> Any:
        return _train.FtrlOptimizer(
            rate,
            learning_rate_power=self.learning_rate_power,
            initial_accumulator_value=self.initial_accumulator_value,
            l1_regularization_strength=self.l1,
            l2_regularization_strength=self.l2,
            l2_shrinkage_regularization_strength=self.l2_shrinkage,
        )


class Momentum(_Kind):
    """Gradient descent with momentum.

    Attributes:
      momentum: the decay of the sum of past gradients, in [0, 1).
      use_nesterov: whether to use Nesterov momentum.
    """

    default_rate = 0.01
    momentum: Decay = 0.9
    use_nesterov: bool = False

    def make(self, rate: Any) -> Any:
        return _train.MomentumOptimizer(rate, **self._fields())


class RMSProp(_Kind):
    """RMSProp (Tieleman & Hinton, 2012).

    Attributes:
      decay: the decay of the average of the squared gradients, in [0, 1).
      momentum: the decay of the sum of past steps, in [0, 1).
      epsilon: a small number that avoids a division by 0.
      centered: whether to divide by the estimated variance of the gradients instead of by their
        uncentered second moment.
    """

    default_rate = 0.001
    decay: Decay = 0.9
    momentum: Decay = 0.0
    epsilon: PositiveFloat = 1e-10
    centered: bool = False

    def make(self, rate: Any) -> Any:
        return _train.RMSPropOptimizer(rate, **self._fields())


class SGD(_Kind):
    """Gradient descent without momentum: w = w - rate * g."""

    default_rate = 0.01

    def make(self, rate: Any) -> Any:
        return _train.GradientDescentOptimizer(rate)


OPTIMIZERS: dict[str, type[_Kind]] = {
    "adadelta": Adadelta,
    "adagrad": Adagrad,
    "adam": Adam,
    "adamw": AdamW,
    "ftrl": Ftrl,
    "lazy_adam": LazyAdam,
    "momentum": Momentum,
    "rmsprop": RMSProp,
    "sgd": SGD,
}
