"""What a synchronous step waits for, read from its graph."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_kit.optimizers.choice import make_optimizer, minimize
from estimator_kit.optimizers.sync_replicas import Synchronous

v1 = tf.compat.v1


def ancestors(op):
    """All ops that one waits for."""
    found, waiting = set(), [op]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += [*one.control_inputs, *(tensor.op for tensor in one.inputs)]
    return found


@pytest.mark.parametrize("table", [False, True])
def test_only_handing_gradients_in_waits_for_a_batch(table):
    """The tokens that the chief's own thread hands out must not pull a batch through the model."""
    with tf.Graph().as_default() as graph:
        step = v1.train.get_or_create_global_step()
        batch = v1.placeholder(tf.int32 if table else tf.float32, [None], name="batch")
        weights = v1.get_variable("w", [4, 2], initializer=v1.ones_initializer())
        if table:
            loss = tf.reduce_sum(tf.nn.embedding_lookup(weights, batch))
        else:
            loss = tf.reduce_sum(weights) * tf.reduce_sum(batch)
        seen = v1.get_variable("seen", [], initializer=v1.zeros_initializer())
        update = seen.assign_add(1.0).op
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        together = Synchronous(replicas=2, aggregate=2, is_chief=True)
        train = minimize(loss, [("", make_optimizer("sgd", 0.1))], together=together)
        together.hook.begin()
        of_threads = [op for op in graph.get_operations() if "QueueEnqueue" in op.type]
        assert of_threads and step is not None
        for op in of_threads:
            assert batch.op not in ancestors(op), op.name
        assert {batch.op, update} <= ancestors(getattr(train, "op", train))
        handed_in = [op for op in graph.get_operations() if "AccumulatorApply" in op.type]
        checks = [op for op in graph.get_operations() if op.type.startswith("CheckNumerics")]
        assert len(handed_in) == 1 and len(checks) == 2
        assert {*checks, update} <= ancestors(handed_in[0])
