"""Every built-in model trains with --xla=on as without it, and in 16 bits nearly as in float32."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model.computing import Computing
from estimator_kit.models import MODELS
from tests.conformance import table
from tests.estimator_kit.small_training import batch_of

# Models of tables alone; and one whose layers are as narrow as the small embeddings here.
WITHOUT_PRODUCTS = {"linear", "fm"}
NARROW = {"sasrec"}


def losses(name: str, computing: Computing) -> list[float]:
    """The losses of four steps from the same start."""
    case = table.MODEL_CASES[name]
    objectives = case.objectives or {"binary": "binary"}
    # A layer norm over 16 units of 32 rows would make a large difference of a small one.
    wide = {
        key: value
        for key, value in (("hidden_units", [16, 8]), ("layer_norm", False))
        if key in case.params
    }
    whole = feature_specs.parse(table.document(objectives, tuple(table.DOCUMENT["groups"])))
    groups = MODELS[name](whole, {**case.params, **wide}).groups()
    spec = feature_specs.parse(table.document(objectives, groups))
    model = MODELS[name](spec, {**case.params, **wide})
    model.computing = computing
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        tf.compat.v1.train.get_or_create_global_step()
        batches = batch_of(spec, table.make_rows(32, objectives))().repeat()
        iterator = tf.compat.v1.data.make_initializable_iterator(batches)
        made = model(*iterator.get_next(), tf.estimator.ModeKeys.TRAIN)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run([tf.compat.v1.tables_initializer(), iterator.initializer])
        return [float(session.run([made.train_op, made.loss])[1]) for _ in range(4)]


@pytest.mark.nightly
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("computing", "tolerance"),
    [
        (Computing(xla=True), 1e-4),
        (Computing(precision="bfloat16"), 5e-2),
        (Computing(precision="float16"), 5e-3),
    ],
    ids=("xla", "bfloat16", "float16"),
)
def test_models_train_as_before(name, computing, tolerance):
    if name in WITHOUT_PRODUCTS or (name in NARROW and computing.precision):
        with pytest.raises(ek.ConfigError, match="Remove the flag"):
            losses(name, computing)
        return
    np.testing.assert_allclose(losses(name, computing), losses(name, Computing()), rtol=tolerance)
