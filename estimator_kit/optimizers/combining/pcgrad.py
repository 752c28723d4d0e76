"""PCGrad: removes the part of each objective's gradient that conflicts with another objective.

Yu et al., Gradient Surgery for Multi-Task Learning, NeurIPS 2020, algorithm 1. g_i is the gradient
of loss_weight_i loss_i. For each i and, in random order, each other j:

    if <g_i', g_j> < 0:    g_i' <- g_i' - <g_i', g_j> / |g_j|^2 g_j            (g_i' starts as g_i)

The step uses sum_i g_i'. Example: g_1 = (1, 0) and g_2 = (-1, 1) have the product -1. Then g_1' =
(0.5, 0.5) and g_2' = (0, 1), and their sum is (0.5, 1.5) instead of (0, 1).

Each g_i' is a weighted sum of the g_j, so the algorithm only needs the products of the gradients, a
matrix [objectives, objectives]. Sparse gradients stay sparse. Their products use the rows of the
table that are in the batch. The algorithm changes only gradients of variables for which several
objectives have a gradient. Other variables keep the gradient of their objective. The gradient of
regularization losses is added once, at the end. Each objective needs a separate backward pass. The
random order depends on the seed and the global step, so a restart draws the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Optional

import tensorflow as tf
from pydantic import Field

from estimator_kit.optimizers.combining.base import Combination, Losses, MakeGradients
from estimator_kit.optimizers.sparse import on_common_rows
from feature_specs.spec import FeatureSpec


class PCGrad(Combination):
    """Attributes:
    seed: the seed of the random order in which gradients are compared.
    """

    makes_gradients: ClassVar[bool] = True

    seed: Annotated[int, Field(ge=0, lt=2**31, strict=True)] = 0

    def gradients(
        self, losses: Losses, spec: FeatureSpec, regularization: Sequence[tf.Tensor]
    ) -> MakeGradients:
        weighted = [spec.objectives[name].loss_weight * losses[name] for name in losses]

        def make(
            compute: Callable[[tf.Tensor], list[Any]], variables: Sequence[Any], step: Any
        ) -> list[Any]:
            parts = [compute(loss) for loss in weighted]
            by_variable = [_alike([part[i] for part in parts]) for i in range(len(variables))]
            shared = [gs for gs in by_variable if _count(gs) > 1]
            factors = projected_sum(products(shared), order(len(parts), self.seed, step))
            total = [
                _scaled_sum(gs, tf.unstack(factors) if _count(gs) > 1 else None)
                for gs in by_variable
            ]
            if regularization:
                penalty = compute(tf.add_n(list(regularization)))
                total = [_scaled_sum(_alike([g, p])) for g, p in zip(total, penalty)]
            return total

        return make


def order(count: int, seed: int, step: Any) -> tf.Tensor:
    """A permutation of the objectives for each objective: int32 [count, count]."""
    seeds = tf.stack([tf.constant(seed, tf.int64), tf.cast(step.read_value(), tf.int64)])
    return tf.argsort(tf.random.stateless_uniform([count, count], seeds), axis=1)


def products(gradients: Sequence[Sequence[Any]]) -> tf.Tensor:
    """<g_i, g_j> over all variables: float64 [objectives, objectives].

    Args:
      gradients: for each variable, the gradient of each objective: a tensor, IndexedSlices, or None
        for zeros. All gradients of a variable have the same type.
    """
    total = tf.constant(0.0, tf.float64)
    for gs in gradients:
        present_gradients = [g for g in gs if g is not None]
        rows = iter(
            on_common_rows(present_gradients)
            if isinstance(present_gradients[0], tf.IndexedSlices)
            else present_gradients
        )
        dense = [None if g is None else tf.reshape(next(rows), [-1]) for g in gs]
        zeros = tf.zeros_like(next(g for g in dense if g is not None))
        table = tf.stack([zeros if g is None else g for g in dense])
        total += tf.cast(tf.matmul(table, table, transpose_b=True), tf.float64)
    return total


def projected_sum(products: tf.Tensor, order: tf.Tensor) -> tf.Tensor:
    """The factor of each g_j in the sum of all g_i': float32 [objectives].

    Args:
      products: float64 [objectives, objectives].
      order: int32 [objectives, objectives]. Row i is the order in which g_i is compared with the
        other gradients.
    """
    count = int(order.shape[0])
    factors = tf.eye(count, dtype=tf.float64)
    if products.shape.rank == 0:  # The objectives share no variable.
        return tf.ones([count])
    squares = tf.linalg.diag_part(products)
    for k in range(count):
        other = order[:, k]
        product = tf.reduce_sum(factors * tf.gather(products, other), axis=1)
        against = (product < 0) & tf.not_equal(other, tf.range(count))
        share = tf.math.divide_no_nan(product, tf.gather(squares, other))
        share = tf.where(against, share, tf.zeros_like(share))
        factors -= share[:, tf.newaxis] * tf.one_hot(other, count, dtype=tf.float64)
    return tf.cast(tf.reduce_sum(factors, axis=0), tf.float32)


def _count(gradients: Sequence[Any]) -> int:
    return sum(g is not None for g in gradients)


def _alike(gradients: Sequence[Any]) -> list[Any]:
    """The gradients, all sparse or all dense, except for None."""
    present_gradients = [g for g in gradients if g is not None]
    if all(isinstance(g, tf.IndexedSlices) for g in present_gradients):
        return list(gradients)
    return [tf.convert_to_tensor(g) if g is not None else None for g in gradients]


def _scaled_sum(gradients: Sequence[Any], factors: Optional[Sequence[Any]] = None) -> Any:
    """sum_i factor_i g_i, sparse if the gradients are. None without gradients."""
    pairs = [
        (g, 1.0 if factors is None else factors[i])
        for i, g in enumerate(gradients)
        if g is not None
    ]
    if not pairs:
        return None
    if isinstance(pairs[0][0], tf.IndexedSlices):
        return tf.IndexedSlices(
            tf.concat([factor * g.values for g, factor in pairs], axis=0),
            tf.concat([g.indices for g, _ in pairs], axis=0),
            pairs[0][0].dense_shape,
        )
    return tf.add_n([factor * g for g, factor in pairs])
