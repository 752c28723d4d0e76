"""Additional sums of an evaluation, from which the report page draws its curves.

An objective calls `observe` in its `metrics` with streaming sums, such as the weights of positives
and negatives by logit. A session hook takes all of them out of the graph with `take` and reads
them when the evaluation ends (`training.hooks.curves`). Nothing here adds an op to the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

_COLLECTION = "estimator_kit/observed"


class Observed(NamedTuple):
    """One array of an evaluation.

    Attributes:
      objective: its name.
      kind: what the array means, one of the kinds that `observing.curves` draws.
      total: float64, the sum over all batches.
    """

    objective: str
    kind: str
    total: tf.Tensor


def observe(objective: str, kind: str, total: tf.Tensor) -> None:
    """Offers a total to whoever observes the evaluation; see `Observed`."""
    if not tf.executing_eagerly():
        tf.compat.v1.add_to_collection(_COLLECTION, Observed(objective, kind, total))


def change(objective: str, function: Callable[[tf.Tensor], tf.Tensor]) -> None:
    """Replaces each total that an objective has offered by a function of it."""
    if not tf.executing_eagerly():
        offered = tf.compat.v1.get_collection_ref(_COLLECTION)
        offered[:] = [
            each._replace(total=function(each.total)) if each.objective == objective else each
            for each in offered
        ]


def take(graph: tf.Graph) -> list[Observed]:
    """All that the objectives of a graph offered. The graph no longer has them afterwards.

    TensorFlow would try to write the collection into each MetaGraph.
    """
    found = list(graph.get_collection(_COLLECTION))
    graph.clear_collection(_COLLECTION)
    return found
