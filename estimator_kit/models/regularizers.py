"""The L1 and L2 penalties on the weights of layers, as parameters of models name them: `{l2:
0.0001}`.

    penalty = l1 sum |w| + l2 sum w^2

The sums are over the kernels of dense layers, without their biases. The penalty is a regularization
loss of the graph and becomes part of the model's loss. The weights 3 and -1 with l1 = 0.1 and l2 =
0.01 cost 0.4 + 0.1 = 0.5. Embedding tables have no such penalty, because it would update each row
of the table in every step. Their columns have `l2` for the vectors of a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import pydantic
import tensorflow as tf

from feature_specs.entry import Entry, NotNegativeFloat


class Regularizer(Entry):
    """The factors of the two penalties. At least one must be above 0."""

    l1: NotNegativeFloat = pydantic.Field(0.0, description="The factor of sum |w|.")
    l2: NotNegativeFloat = pydantic.Field(0.0, description="The factor of sum w^2.")

    @pydantic.model_validator(mode="after")
    def _check(self) -> Regularizer:
        if not self.l1 and not self.l2:
            raise ValueError("set l1, l2 or both above 0, or remove the regularizer")
        return self


def make_regularizer(given: Optional[Regularizer]) -> Optional[Callable[[tf.Tensor], tf.Tensor]]:
    """The penalty of weights as a float32 scalar, for `get_variable`. None for None."""
    if given is None:
        return None
    l1, l2 = given.l1, given.l2

    def penalty(weights: tf.Tensor) -> tf.Tensor:
        return l1 * tf.reduce_sum(tf.abs(weights)) + l2 * tf.reduce_sum(tf.square(weights))

    return penalty
