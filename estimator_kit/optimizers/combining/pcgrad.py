"""Gradients of objectives without what speaks against another's.

Yu et al., Gradient Surgery for Multi-Task Learning, NeurIPS 2020, algorithm 1. With g_i the
gradient of loss_weight_i loss_i, for each i and, in random order, each other j:

    if <g_i', g_j> < 0:    g_i' <- g_i' - <g_i', g_j> / |g_j|^2 g_j            (g_i' starts as g_i)

and the step is taken with sum_i g_i'. Of g_1 = (1, 0) and g_2 = (-1, 1), whose product is -1: g_1'
= (0.5, 0.5), g_2' = (0, 1), the sum (0.5, 1.5) in the place of (0, 1).

Each g_i' is a sum of the g_j with factors, so all that is needed of the gradients is their
products: a matrix of objectives by objectives. Sparse gradients stay sparse; for the products, the
rows that the batch has of a table are put side by side. The gradients are those of the variables
that more than one objective has a gradient of; another's own variables have its own gradient as it
is. The gradient of regularization losses is added once, at the end. Each objective is a backward
pass of its own. The order comes from the seed and the global step, so a restart draws the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Optional

import tensorflow as tf
from pydantic import Field

from estimator_kit.optimizers.combining.base import Combination, Losses, MakeGradients, summed_rows
from feature_specs.spec import FeatureSpec


class PCGrad(Combination):
    """Attributes:
    seed: of the order in which gradients are held against each other.
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
      gradients: by variable, and there by objective: tensors, IndexedSlices, or None for zeros; all
        of one kind a variable.
    """
    total = tf.constant(0.0, tf.float64)
    for gs in gradients:
        there = [g for g in gs if g is not None]
        rows = iter(summed_rows(there) if isinstance(there[0], tf.IndexedSlices) else there)
        dense = [None if g is None else tf.reshape(next(rows), [-1]) for g in gs]
        zeros = tf.zeros_like(next(g for g in dense if g is not None))
        table = tf.stack([zeros if g is None else g for g in dense])
        total += tf.cast(tf.matmul(table, table, transpose_b=True), tf.float64)
    return total


def projected_sum(products: tf.Tensor, order: tf.Tensor) -> tf.Tensor:
    """The factor that each g_j has in the sum of all g_i': float32 [objectives].

    Args:
      products: float64 [objectives, objectives].
      order: int32 [objectives, objectives]; row i says in which order g_i is held against the
        others.
    """
    count = order.shape[0]
    factors = tf.eye(count, dtype=tf.float64)
    if products.shape.rank == 0:  # Nothing is shared.
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
    """All sparse or all dense, but for None."""
    there = [g for g in gradients if g is not None]
    if all(isinstance(g, tf.IndexedSlices) for g in there):
        return list(gradients)
    return [tf.convert_to_tensor(g) if g is not None else None for g in gradients]


def _scaled_sum(gradients: Sequence[Any], factors: Optional[Sequence[Any]] = None) -> Any:
    """sum_i factor_i g_i, sparse where the gradients are; None for no gradient at all."""
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
