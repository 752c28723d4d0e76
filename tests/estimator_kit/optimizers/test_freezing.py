"""What `freeze` names stays: weights, averages of batch normalization, and other updates."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model.keras import layers as keras_layers
from estimator_kit.models import MODELS
from estimator_kit.models.layers import hidden_layers
from estimator_kit.optimizers import freezing
from estimator_kit.optimizers.choice import make_optimizer, minimize
from estimator_kit.tf_estimator import ModeKeys
from tests.conformance import table
from tests.estimator_kit.small_training import batch_of

v1 = tf.compat.v1

X = np.random.default_rng(0).normal(3, 2, (20, 4)).astype(np.float32)


def steps_of(make_outputs, freeze, *, steps=2, **arguments):
    """(outputs, variables before, variables after) of some training steps."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        with freezing.in_layers(freeze):
            outputs = make_outputs(tf.constant(X))
        kernel = v1.get_variable("last", initializer=np.ones((outputs.shape[1], 1), np.float32))
        loss = tf.reduce_mean(tf.square(outputs @ kernel - 1))
        optimizers = [("", make_optimizer("adamw", 0.1))]
        step = minimize(loss, optimizers, freeze=freeze, **arguments)
        session.run(v1.global_variables_initializer())
        made = {v.op.name: v for v in v1.global_variables()}
        first, before = session.run((outputs, made))
        for _ in range(steps):
            session.run(step)
        return first, before, session.run(made)


def moved(before, after):
    return {name for name, value in before.items() if not np.array_equal(value, after[name])}


def of_the_kit(x):
    return hidden_layers(x, (3, 2), activation="tanh", batch_norm=True, training=True)


def of_keras(x):
    """A functional model, and a layer that is called alone."""
    inputs = tf.keras.Input((4,))
    hidden = tf.keras.layers.Dense(3, name="dense")(inputs)
    hidden = tf.keras.layers.BatchNormalization(name="first")(hidden)
    x = keras_layers.call(tf.keras.Model(inputs, hidden), x, training=True)
    x = keras_layers.call(tf.keras.layers.BatchNormalization(name="second"), x, training=True)
    keras_layers.collect([x])
    return x


AVERAGES = {"moving_mean", "moving_variance"}


@pytest.mark.parametrize(
    ("make", "first", "second"),
    [
        (of_the_kit, "hiddenlayer_0/batchnorm_0", "hiddenlayer_1/batchnorm_1"),
        (of_keras, "first", "second"),
    ],
)
def test_averages_of_a_frozen_layer_stay_and_are_used(make, first, second):
    averages = {layer: {f"{layer}/{name}" for name in AVERAGES} for layer in (first, second)}
    _, before, after = steps_of(make, [])
    assert moved(before, after) >= averages[first] | averages[second]
    # By a prefix of the layer, or of all its weights.
    for freeze in ([first], [f"{first}/gamma", f"{first}/beta"]):
        _, before, after = steps_of(make, freeze)
        assert moved(before, after) >= averages[second]
        assert not {name for name in moved(before, after) if name.startswith(first)}
    _, before, after = steps_of(make, [f"{first}/gamma"])
    assert moved(before, after) >= averages[first]


@pytest.mark.parametrize("make", [of_the_kit, of_keras])
def test_a_frozen_layer_computes_the_same_in_training_as_in_a_prediction(make):
    """Its averages start as 0 and 1, so each of two layers divides by sqrt(1.001)."""
    frozen, before, _ = steps_of(make, ["(?!last)"])
    names = list(before)

    def weight(end):
        (name,) = [name for name in names if name.endswith(end)]
        return before[name]

    scale = np.sqrt(1.001)
    if make is of_keras:
        expected = (X @ weight("dense/kernel")) / scale**2
    else:
        hidden = np.tanh(X @ weight("hiddenlayer_0/kernel")) / scale
        expected = np.tanh(hidden @ weight("hiddenlayer_1/kernel")) / scale
    np.testing.assert_allclose(frozen, expected, rtol=1e-4, atol=1e-5)
    usual, _, _ = steps_of(make, [])
    np.testing.assert_allclose(usual.mean(0), np.zeros(usual.shape[1]), atol=1e-5)


def with_own_updates(x):
    """Counters in update ops: alone, in a group, read back, and of items."""
    with v1.variable_scope("part"):
        weight = v1.get_variable("weight", initializer=np.ones((4, 2), np.float32))
        alone, grouped, read = (
            v1.get_variable(name, initializer=0.0, trainable=False)
            for name in ("alone", "grouped", "read")
        )
        with v1.variable_scope("item_frequency"):
            items = v1.get_variable("gap", initializer=0.0, trainable=False)
    other = v1.get_variable("other", initializer=0.0, trainable=False)
    group = tf.group(grouped.assign_add(1.0, read_value=False), other.assign_add(1.0))
    for update in (alone.assign_add(1.0), group, tf.identity(read.assign_add(1.0)),
                   items.assign_add(1.0)):  # fmt: skip
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    return x @ weight


def test_other_updates_of_frozen_layers_stay():
    counters = {"part/alone", "part/grouped", "part/read", "other", "part/item_frequency/gap"}
    _, before, after = steps_of(with_own_updates, [])
    assert moved(before, after) >= counters
    _, before, after = steps_of(with_own_updates, ["part/"])
    kept = {name for name in moved(before, after) if "last" not in name}
    # The frequencies of items belong to the data, not to the layer.
    assert kept - {"global_step", "beta1_power", "beta2_power"} == {
        "other", "part/item_frequency/gap"
    }  # fmt: skip


def test_an_update_of_frozen_and_other_variables_is_refused():
    def make(x):
        weight = v1.get_variable("part/weight", initializer=np.ones((4, 2), np.float32))
        counts = [
            v1.get_variable(name, initializer=0.0, trainable=False)
            for name in ("part/count", "count")
        ]

        def both():
            with tf.control_dependencies([count.assign_add(1.0).op for count in counts]):
                return tf.constant(True)

        update = tf.cond(tf.reduce_sum(x) > 0, both, lambda: tf.constant(False), name="both")
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        return x @ weight

    with pytest.raises(ek.ConfigError) as error:
        steps_of(make, ["part/"])
    assert str(error.value) == (
        "freeze: the update both/Identity writes part/count, which is frozen, and count, which is "
        "not. Add one op for each variable to UPDATE_OPS."
    )


def test_frozen_variables_have_no_average_and_no_slot():
    """Nor does weight decay change them."""
    _, before, after = steps_of(of_the_kit, ["hiddenlayer_0"], average=0.9)
    inside = {name for name in before if name.startswith("hiddenlayer_0/")}
    assert inside == {
        f"hiddenlayer_0/{name}"
        for name in ("kernel", "bias", *(f"batchnorm_0/{n}" for n in ("gamma", "beta", *AVERAGES)))
    }
    assert not moved(before, after) & inside


def small_model(name):
    """(class, spec, params, rows) of a built-in model, with batch normalization if it has it."""
    case, kind = table.MODEL_CASES[name], MODELS[name]
    params = dict(case.params)
    if "batch_norm" in kind.Params.model_fields and not params.get("layer_norm"):
        params["batch_norm"] = True
    objectives = case.objectives or {"binary": "binary"}
    whole = feature_specs.parse(table.document(objectives, tuple(table.DOCUMENT["groups"])))
    spec = feature_specs.parse(table.document(objectives, kind(whole, params).groups()))
    return kind, spec, params, table.make_rows(24, objectives)


@pytest.mark.parametrize(
    "name",
    [n if n == "dnn" else pytest.param(n, marks=pytest.mark.nightly) for n in MODELS],
)
def test_every_model_keeps_what_is_frozen(name):
    """All weights but the last one are frozen, by name."""
    kind, spec, params, rows = small_model(name)
    *frozen, last = variables_of(kind(spec, params), rows, steps=0)[2]
    freeze = [f"{weight}$" for weight in frozen]
    before, after, _ = variables_of(kind(spec, {**params, "freeze": freeze}), rows, steps=2)
    changed = moved(before, after)
    assert last in changed
    assert not {n for n in changed if not n.startswith(last) and "item_frequency" not in n} - {
        "global_step", "beta1_power", "beta2_power"
    }  # fmt: skip


def variables_of(model, rows, *, steps):
    """(values before, values after, names of trainable variables) of a training."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.train.get_or_create_global_step()
        batches = batch_of(model.spec, rows)().repeat()
        iterator = v1.data.make_initializable_iterator(batches)
        step = model(*iterator.get_next(), ModeKeys.TRAIN).train_op
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer(),
                     v1.tables_initializer(), iterator.initializer])  # fmt: skip
        made = {v.op.name: v for v in v1.global_variables()}
        before = session.run(made)
        for _ in range(steps):
            session.run(step)
        return before, session.run(made), [v.op.name for v in v1.trainable_variables()]
