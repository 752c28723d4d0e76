"""L1 and L2 penalties on a layer's weights, as `Params` of models take them: `{l2: 0.0001}`.

    penalty = l1 sum |w| + l2 sum w^2

over the kernels of dense layers, not their biases, added to the model's loss as a regularization
loss of the graph. The weights 3 and -1 with l1 = 0.1 and l2 = 0.01 cost 0.4 + 0.1 = 0.5. Embedding
tables have none: a penalty on a whole table would touch each of its rows in every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import pydantic
import tensorflow as tf

from feature_specs.entry import Entry, NotNegativeFloat


class Regularizer(Entry):
    """Factors of the two penalties, 0 or more; at least one is above 0."""

    l1: NotNegativeFloat = 0.0
    l2: NotNegativeFloat = 0.0

    @pydantic.model_validator(mode="after")
    def _check(self) -> Regularizer:
        if not self.l1 and not self.l2:
            raise ValueError("give l1, l2 or both, above 0; leave the regularizer out for none")
        return self


def make_regularizer(given: Optional[Regularizer]) -> Optional[Callable[[tf.Tensor], tf.Tensor]]:
    """The penalty of some weights as a scalar float32, for `get_variable`; None for None."""
    if given is None:
        return None
    l1, l2 = given.l1, given.l2

    def penalty(weights: tf.Tensor) -> tf.Tensor:
        return l1 * tf.reduce_sum(tf.abs(weights)) + l2 * tf.reduce_sum(tf.square(weights))

    return penalty
