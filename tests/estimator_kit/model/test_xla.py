"""`--xla=on`: what is compiled, equal results, equal names, and models without a dense part."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model.computing import Computing
from estimator_kit.models import find_model
from tests.conftest import make_rows
from tests.estimator_kit.small_training import batch_of

PARAMS = {"hidden_units": [16, 8], "dropout": 0.2, "batch_norm": True}


def trained(spec, *, steps=4, name="wide_deep", params=PARAMS, xla=True, precision=None):
    """(losses, variables, ops of the executed graphs) of a few steps in one session."""
    model = find_model(name)(spec, params)
    model.computing = Computing(precision=precision, xla=xla)
    graph = tf.Graph()
    with graph.as_default():
        tf.compat.v1.set_random_seed(1)
        tf.compat.v1.train.get_or_create_global_step()
        batches = batch_of(spec, make_rows(40))().repeat()
        iterator = tf.compat.v1.data.make_initializable_iterator(batches)
        spec_of_step = model(*iterator.get_next(), tf.estimator.ModeKeys.TRAIN)
        run = tf.compat.v1.RunOptions(output_partition_graphs=True)
        seen = tf.compat.v1.RunMetadata()
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            session.run([tf.compat.v1.tables_initializer(), iterator.initializer])
            losses = []
            for _ in range(steps):
                step = [spec_of_step.train_op, spec_of_step.loss]
                losses.append(session.run(step, options=run, run_metadata=seen)[1])
            variables = tf.compat.v1.global_variables()
            values = dict(zip((v.op.name for v in variables), session.run(variables)))
    executed = [node.op for partition in seen.partition_graphs for node in partition.node]
    return losses, values, executed


@pytest.mark.ci
def test_the_dense_part_is_compiled_and_the_results_are_equal(document):
    spec = feature_specs.parse(document)
    plain, compiled = trained(spec, xla=False), trained(spec)
    assert "_XlaRun" in compiled[2] and "_XlaRun" not in plain[2]
    # The products and their gradients are inside of what is compiled, and the lookups are not.
    # (TensorFlow keeps a second copy of what it compiles, to run before that is ready.)
    assert compiled[2].count("ResourceGather") == plain[2].count("ResourceGather")
    np.testing.assert_allclose(plain[0], compiled[0], rtol=1e-5)
    assert plain[1].keys() == compiled[1].keys()
    for name, value in plain[1].items():
        np.testing.assert_allclose(value, compiled[1][name], rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.ci
def test_it_goes_with_16_bits(document):
    spec = feature_specs.parse(document)
    low, both = trained(spec, xla=False, precision="bfloat16"), trained(spec, precision="bfloat16")
    np.testing.assert_allclose(low[0], both[0], rtol=2e-2)


def test_a_model_without_products_is_refused(document):
    with pytest.raises(ek.ConfigError) as error:
        trained(feature_specs.parse(document), name="linear", params={"group": "wide"})
    assert str(error.value) == (
        "--xla=on: the model LinearModel multiplies no matrices outside of its tables, so nothing "
        "would be compiled. Remove the flag."
    )
