"""Ranks the items of a catalogue for each row of an evaluation.

    ranked = Ranked(catalogue, features, vector_of)
    rank, first = ranked.ranks(users, ranked.targets(ids), of_user, most=10)

The graph of an evaluation computes the vectors of all items once, when its session starts: `Ranked`
feeds their features in batches, and keeps the vectors in a local variable. Then each batch of rows
is ranked by products of matrices. At most `_SCORES` scores exist at a time. Nothing here changes a
variable of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model.catalogue import Catalogue
from estimator_kit.model.heads import item_metrics
from estimator_kit.model.heads.streaming import Metric, ratio, streaming_sum
from feature_specs.heads import metrics as kinds
from feature_specs.heads.metrics import MetricChoice
from feature_specs.heads.next_item import UNKNOWN_ITEM_SHARE

# How many scores of rows and items exist at a time: 64 MiB.
_SCORES = 2**24
_HOOKS = "estimator_kit/catalogue"


class Ranked:
    """The part of an evaluation's graph that ranks the items of a catalogue.

    Args:
      catalogue: the items.
      features: the features of the batch, which show the types of the features of items.
      vector_of: makes the vectors of items, float32 [rows, n], from their features.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        features: Mapping[str, Any],
        vector_of: Callable[[dict[str, Any]], tf.Tensor],
    ):
        if tf.distribute.get_strategy().num_replicas_in_sync > 1:
            raise ConfigError(
                "metrics of the catalogue need one device, got several replicas. Evaluate without "
                "a distribution strategy."
            )
        self._size = catalogue.size
        keys = {name.rpartition("/")[0] for name in catalogue.batches[0]}
        with tf.name_scope("catalogue"):
            fed = {
                key: tf.nest.map_structure(_any_rows, features[key], expand_composites=True)
                for key in sorted(keys)
            }
            vectors = vector_of(fed)
            self._items = _Loaded("items", tf.float32, [self._size, int(vectors.shape[1])])
            self._place = _Loaded("place", tf.int64, list(catalogue.place.shape))
            self._splits = _Loaded("splits", tf.int64, list(catalogue.splits.shape))
            self._taken = _Loaded("taken", tf.int64, list(catalogue.taken.shape))
        places = {
            f"{key}/{number}": tensor
            for key, value in fed.items()
            for number, tensor in enumerate(tf.nest.flatten(value, expand_composites=True))
        }
        loaded = (self._items, self._place, self._splits, self._taken)
        hook = LoadItems(catalogue, places, vectors, loaded)
        tf.compat.v1.add_to_collection(_HOOKS, hook)

    def targets(self, ids: tf.Tensor) -> tf.Tensor:
        """The places of ids among the items, int64 [rows]; -1 for one that is not an item."""
        place = self._place.value
        inside = (ids >= 0) & (ids < tf.shape(place, tf.int64)[0])
        places = tf.gather(place, tf.where(inside, ids, tf.zeros_like(ids)))
        return tf.where(inside, places, -tf.ones_like(ids))

    def ranks(
        self, users: tf.Tensor, targets: tf.Tensor, of_user: Optional[tf.Tensor], most: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The rank of each row's item, and the first items of each row.

        Of equal scores, the target has the worst rank.

        Args:
          users: float32 [rows, n], the vectors of users.
          targets: int64 [rows], see `targets`.
          of_user: int64 [rows], the ids of users, whose items are left out; None leaves out none.
          most: the number of first items. If there are fewer items, all of them are.

        Returns:
          float32 [rows], 1 for the best, and infinity for a target that is not an item or is left
          out; and int64 [rows, most], places of items, -1 where no item is left.
        """
        rows, most = tf.shape(users)[0], min(most, self._size)
        block = max(1, _SCORES // self._size)
        left_out = None if of_user is None else self._items_of(of_user)
        blocks = (rows + block - 1) // block
        rank_parts = tf.TensorArray(tf.float32, blocks, infer_shape=False, element_shape=[None])
        first_parts = tf.TensorArray(
            tf.int64, blocks, infer_shape=False, element_shape=[None, most]
        )

        def ranked_block(i: tf.Tensor, ranks: Any, firsts: Any) -> Any:
            start, end = i * block, tf.minimum((i + 1) * block, rows)
            scores = tf.matmul(users[start:end], self._items.value, transpose_b=True)
            own = targets[start:end]
            if left_out is not None:
                scores = _without(scores, left_out[start:end])
            own_scores = tf.gather(scores, tf.maximum(own, 0), axis=1, batch_dims=1)
            ahead = tf.math.count_nonzero(scores >= own_scores[:, tf.newaxis], axis=1)
            counts = (own >= 0) & tf.math.is_finite(own_scores)
            rank = tf.where(counts, tf.cast(ahead, tf.float32), tf.constant(math.inf))
            best = tf.math.top_k(scores, most)
            none = tf.constant(-1, tf.int64)
            first = tf.where(tf.math.is_inf(best.values), none, tf.cast(best.indices, tf.int64))
            return i + 1, ranks.write(i, rank), firsts.write(i, first)

        _, ranks, firsts = tf.while_loop(
            lambda i, *_: i < blocks,
            ranked_block,
            [tf.constant(0), rank_parts, first_parts],
            parallel_iterations=1,
        )
        return ranks.concat(), firsts.concat()

    def _items_of(self, of_user: tf.Tensor) -> tf.RaggedTensor:
        """The items that each row's user has taken. An unknown user has taken none."""
        of_users = tf.RaggedTensor.from_row_splits(
            self._taken.value, self._splits.value, validate=False
        )
        unknown = of_users.nrows() - 1
        is_known = (of_user >= 0) & (of_user < unknown)
        return tf.gather(of_users, tf.where(is_known, of_user, unknown * tf.ones_like(of_user)))

    def metrics(
        self,
        targets: tf.Tensor,
        rank: tf.Tensor,
        first: tf.Tensor,
        weights: tf.Tensor,
        at: Sequence[int],
    ) -> dict[str, Metric]:
        """The metrics of one objective, by name.

        Args:
          targets: of `targets`.
          rank, first: of `ranks`.
          weights: float32 [rows], the label of a row times its weight.
          at: each k of `recall_at_<k>`, `ndcg_at_<k>` and `coverage_at_<k>`.
        """
        of_rows = {
            choice.label: item_metrics.rank_metric(choice, rank) for choice in choices(at, _MEANS)
        }
        of_rows[UNKNOWN_ITEM_SHARE.name] = tf.cast(targets < 0, tf.float32)
        weights = tf.cast(weights, tf.float64)
        stacked = tf.cast(tf.stack([*of_rows.values(), tf.ones_like(rank)]), tf.float64)
        totals, update = streaming_sum(tf.reduce_sum(stacked * weights, axis=1), "catalogue")
        result = {n: (ratio(totals[i], totals[-1]), update) for i, n in enumerate(of_rows)}
        for choice in choices(at, (kinds.COVERAGE,)):
            summed = item_metrics.summed(first[:, : int(choice.value or 1)], weights, self._size)
            of_items, update = streaming_sum(summed, choice.label)
            covered = tf.cast(tf.math.count_nonzero(of_items), tf.float64)
            # It is unknown without a row, and not 0.
            items = tf.where(covered > 0, tf.constant(float(self._size), tf.float64), 0)
            result[choice.label] = (ratio(covered, items), update)
        return result


_MEANS = (kinds.RECALL, kinds.NDCG)


def choices(
    at: Sequence[int], of: Sequence[kinds.MetricKind] = (*_MEANS, kinds.COVERAGE)
) -> list[MetricChoice]:
    """The metrics of each k of `at`."""
    return [MetricChoice(kind, k) for k in at for kind in of]


class _Loaded:
    """A local variable that `LoadItems` fills when a session starts."""

    def __init__(self, name: str, dtype: tf.DType, shape: Sequence[int]):
        variable = tf.compat.v1.Variable(
            lambda: tf.zeros(shape, dtype),
            trainable=False,
            collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
            name=name,
        )
        self.value = variable.read_value()
        self.fed = tf.compat.v1.placeholder(dtype, shape)
        self.assign = variable.assign(self.fed, read_value=False)


class LoadItems(tf.compat.v1.train.SessionRunHook):
    """Computes the vectors of all items when the session of an evaluation starts."""

    def __init__(
        self,
        catalogue: Catalogue,
        places: Mapping[str, tf.Tensor],
        vectors: tf.Tensor,
        loaded: Sequence[_Loaded],
    ):
        self._catalogue, self._places = catalogue, places
        self._vectors, self._loaded = vectors, loaded

    def after_create_session(self, session: Any, coord: Any) -> None:
        del coord
        items = [
            session.run(self._vectors, {self._places[name]: a for name, a in batch.items()})
            for batch in self._catalogue.batches
        ]
        kept = self._catalogue
        values = (np.concatenate(items), kept.place, kept.splits, kept.taken)
        feeds = {part.fed: value for part, value in zip(self._loaded, values)}
        session.run([part.assign for part in self._loaded], feeds)


def take_hooks(graph: tf.Graph) -> list[Any]:
    """The hooks of the `Ranked` of a graph, which no longer has them afterwards.

    TensorFlow would try to write the collection into each MetaGraph.
    """
    hooks = list(graph.get_collection(_HOOKS))
    graph.clear_collection(_HOOKS)
    return hooks


def _any_rows(tensor: tf.Tensor) -> tf.Tensor:
    return tf.compat.v1.placeholder(tensor.dtype, [None, *tensor.shape[1:]])


def _without(scores: tf.Tensor, left_out: tf.RaggedTensor) -> tf.Tensor:
    """The scores, with -infinity for the items that a row leaves out."""
    cells = tf.stack([left_out.value_rowids(), left_out.flat_values], axis=1)
    lowest = tf.fill([tf.shape(cells)[0]], tf.constant(-math.inf))
    return tf.tensor_scatter_nd_update(scores, cells, lowest)
