"""One training step: who updates what, limits, freezing, accumulating, averages, bad steps."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.optimizers import gradient_changes
from estimator_kit.optimizers.choice import make_optimizer, minimize
from estimator_kit.optimizers.kinds import OPTIMIZERS


def step(make_loss, optimizers, *, steps=1, **arguments):
    """Values of all variables after some steps, and the global step."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.get_or_create_global_step()
        train_op = minimize(make_loss(), optimizers, **arguments)
        session.run(tf.compat.v1.global_variables_initializer())
        variables = {v.op.name: v for v in tf.compat.v1.trainable_variables()}
        try:
            for _ in range(steps):
                session.run(train_op)
        except tf.errors.InvalidArgumentError as error:
            return session.run(variables), error.message
        return session.run((variables, tf.compat.v1.train.get_global_step()))


def two_variables():
    a = tf.compat.v1.get_variable("wide/a", initializer=3.0)
    b = tf.compat.v1.get_variable("deep/b", initializer=4.0)
    return a + 2 * b


def test_variables_go_to_the_first_optimizer_whose_prefix_they_have():
    sgd = make_optimizer("sgd", 1.0), make_optimizer("sgd", 0.5)
    values, count = step(two_variables, [("wide/", sgd[0]), ("", sgd[1])], steps=2)
    assert values == {"wide/a": 3 - 2 * 1, "deep/b": 4 - 2 * 0.5 * 2}
    assert count == 2


def test_a_variable_without_an_optimizer_is_an_error():
    with pytest.raises(ConfigError) as error:
        step(two_variables, [("wide/", make_optimizer("sgd", 1.0))])
    assert str(error.value) == (
        "the variable 'deep/b' has no optimizer. The optimizers are for the prefixes 'wide/'. Add "
        "one for '', which fits all variables."
    )


@pytest.mark.parametrize(
    ("optimizers", "message"),
    [
        (lambda: make_optimizer("sgd", 1.0),
         r"^expected a list of \(prefix, optimizer\) pairs, got <.*>\. Return one for each part of "
         r"the model, or one with the prefix ''\.$"),
        (lambda: [("", tf.keras.optimizers.legacy.Adam())],
         r"^the optimizer for '' is <.*>, expected a v1 optimizer of TensorFlow. Make it with "
         r"self.make_optimizer\('adam', rate\).$"),
        (lambda: [("", tf.compat.v1.train.SyncReplicasOptimizer(make_optimizer("sgd", 1.0), 2))],
         r"^the optimizer for '' is a SyncReplicasOptimizer, expected one that does not count the "
         r"steps\. Use the optimizer in it, with --strategy=sync_replicas\.$"),
    ],
)  # fmt: skip
def test_what_is_no_optimizer_is_told(optimizers, message):
    with pytest.raises(ConfigError, match=message):
        step(two_variables, optimizers())


def test_a_model_that_cannot_learn_is_an_error():
    with pytest.raises(ConfigError) as error:
        step(lambda: tf.stop_gradient(two_variables()), [("", make_optimizer("sgd", 1.0))])
    assert str(error.value).startswith(
        "no variable has a gradient of the loss, so the model would learn nothing. The variables "
        "are: wide/a, deep/b. Look for a tf.stop_gradient"
    )


def test_variables_that_are_not_learned_are_named(caplog):
    def half():
        return two_variables() - 2 * tf.stop_gradient(
            tf.compat.v1.get_variable("idle", initializer=1.0)
        )

    with caplog.at_level("WARNING", logger="estimator_kit"):
        values, _ = step(half, [("", make_optimizer("sgd", 1.0))])
    assert values["idle"] == 1
    assert caplog.messages == [
        "these variables have no gradient of the loss and are not trained: idle"
    ]


def test_clipping_is_by_the_norm_of_all_gradients():
    values, _ = step(two_variables, [("", make_optimizer("sgd", 1.0))], clip_norm=1.0)
    norm = np.sqrt(1 + 4)
    expected = [3 - 1 / norm, 4 - 2 / norm]
    np.testing.assert_allclose([values["wide/a"], values["deep/b"]], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("make_loss", "what"),
    [
        (lambda: tf.math.log(tf.compat.v1.get_variable("x", initializer=-1.0)), "the loss"),
        (lambda: tf.sqrt(tf.compat.v1.get_variable("x", initializer=0.0)), "a gradient"),
    ],
)
def test_a_step_that_is_not_finite_is_not_applied(make_loss, what):
    values, message = step(make_loss, [("", make_optimizer("sgd", 1.0))])
    assert f"estimator_kit training check: {what}" in message
    assert values["x"] in (-1.0, 0.0)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_goes_downhill(name):
    def loss():
        return tf.square(tf.compat.v1.get_variable("x", initializer=3.0))

    values, _ = step(loss, [("", make_optimizer(name, 0.1))], steps=5)
    assert abs(values["x"]) < 3


def test_update_ops_run_before_the_step_counts():
    def loss():
        seen = tf.compat.v1.get_variable("seen", initializer=0.0, trainable=False)
        update = seen.assign_add(1.0)
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.UPDATE_OPS, update)
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES, seen)
        return tf.square(tf.compat.v1.get_variable("x", initializer=3.0))

    values, _ = step(loss, [("", make_optimizer("sgd", 0.1))], steps=3)
    assert values["seen"] == 3


def test_unknown_names_and_rates():
    with pytest.raises(ConfigError) as error:
        make_optimizer("adagard", 0.1)
    assert str(error.value) == "unknown optimizer 'adagard'. Did you mean 'adagrad'?"
    with pytest.raises(ConfigError, match="learning rate: got 0, expected a number above 0"):
        make_optimizer("sgd", 0)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"adam": {"beta_1": 0.8}},
         "optimizer 'adam': unknown field 'beta_1'. Did you mean 'beta1'?"),
        ({"adam": {"beta1": 1.0}}, "optimizer 'adam': beta1: got 1.0, expected less than 1"),
        ({"adam": {}, "sgd": {}},
         "optimizer: expected a name or {name: {field: value}}, got {'adam': {}, 'sgd': {}}."),
        ({"sgd": {"learning_rate": 0}},
         "optimizer 'sgd': learning_rate: got 0, expected greater than 0"),
        ("lazyadam", "unknown optimizer 'lazyadam'. Did you mean 'lazy_adam'?"),
    ],
)  # fmt: skip
def test_choices_that_cannot_be_made(choice, message):
    with pytest.raises(ConfigError) as error:
        make_optimizer(choice, 0.1)
    assert str(error.value) == message


def square():
    return tf.square(tf.compat.v1.get_variable("x", initializer=3.0))


def test_fields_reach_the_optimizer():
    # The gradient is 6, then 6 - 4 * 0.1 = 5.6 ... with a momentum of 0.5: 6, 0.5 * 6 + 4.8 = 7.8.
    values, _ = step(square, [("", make_optimizer({"momentum": {"momentum": 0.5}}, 0.1))], steps=2)
    assert values["x"] == pytest.approx(3 - 0.1 * 6 - 0.1 * (3 + 2 * 2.4))
    values, _ = step(square, [("", make_optimizer({"sgd": {"learning_rate": 0.5}}, 0.1))])
    assert values["x"] == 0
    # l1 makes a weight exactly 0.
    values, _ = step(square, [("", make_optimizer({"ftrl": {"l1": 1000.0}}, 0.1))], steps=3)
    assert values["x"] == 0


def test_prefixes_are_regular_expressions_at_the_start():
    halves = [("(deep|none)/", make_optimizer("sgd", 0.5)), ("", make_optimizer("sgd", 1.0))]
    assert step(two_variables, halves)[0] == {"wide/a": 2, "deep/b": 3}


def test_clipping_by_value_and_then_by_norm():
    values, _ = step(two_variables, [("", make_optimizer("sgd", 1.0))], clip_value=1.5)
    assert values == {"wide/a": 2, "deep/b": 2.5}
    values, _ = step(
        two_variables, [("", make_optimizer("sgd", 1.0))], clip_value=1.0, clip_norm=1.0
    )
    half = np.sqrt(0.5)
    expected = [3 - half, 4 - half]
    np.testing.assert_allclose([values["wide/a"], values["deep/b"]], expected, rtol=1e-6)


def table_loss():
    table = tf.compat.v1.get_variable("table", initializer=np.ones((4, 1), np.float32))
    return tf.reduce_sum(tf.gather(table, [1, 1, 2]) * [[2.0], [3.0], [-1.0]])


def test_clipping_by_value_adds_a_row_up_first():
    values, _ = step(table_loss, [("", make_optimizer("sgd", 1.0))], clip_value=4.0)
    assert values["table"].ravel().tolist() == [1, 1 - 4, 1 + 1, 1]


def test_frozen_variables_have_no_gradient_and_no_slot():
    with tf.Graph().as_default() as graph:
        minimize(two_variables(), [("", make_optimizer("adagrad", 1.0))], freeze=["wide/"])
        names = {v.op.name for v in tf.compat.v1.global_variables()}
        assert names == {"wide/a", "deep/b", "deep/b/Adagrad", "global_step"}
        # Of two additions and a product, one product is left to differentiate.
        assert not [op.name for op in graph.get_operations() if "wide/a" in op.name and
                    op.name.startswith("gradients")]  # fmt: skip
    both = [("wide/", make_optimizer("sgd", 1.0)), ("", make_optimizer("sgd", 1.0))]
    assert step(two_variables, both, freeze=["wide/"])[0] == {"wide/a": 3, "deep/b": 2}
    with pytest.raises(ConfigError) as error:
        step(two_variables, both, freeze=["wde/"])
    assert str(error.value) == "freeze: 'wde/' fits no variable. Use one of: wide/a, deep/b."
    with pytest.raises(ConfigError) as error:
        step(two_variables, both, freeze=["wide", "deep"])
    assert str(error.value) == "freeze: 'wide', 'deep' leave no variable to train. Freeze less."


def batches(count, optimizer, rows, *, until, accumulate=1, **arguments):
    """Values after `until` batches of a loss with a dense variable and a table."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        place = tf.compat.v1.placeholder(tf.int64, [None])
        table = tf.compat.v1.get_variable("table", initializer=np.ones((5, 2), np.float32))
        bias = tf.compat.v1.get_variable("bias", initializer=np.float32([0.5, 2.0]))
        loss = tf.reduce_mean(tf.square(tf.gather(table, place) * bias + 1))
        train_op = minimize(
            loss, [("", make_optimizer(optimizer, 0.1))], accumulate=accumulate, **arguments
        )
        session.run(tf.compat.v1.global_variables_initializer())
        for i in range(until):
            session.run(train_op, {place: rows[i * count : (i + 1) * count]})
        return session.run({v.op.name: v for v in tf.compat.v1.global_variables()})


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "lazy_adam", "adam", "adamw"])
def test_accumulating_is_a_larger_batch(optimizer):
    rows = np.random.default_rng(0).integers(0, 4, size=24)
    whole = batches(6, optimizer, rows, until=4, clip_value=0.3, clip_norm=0.4)
    parts = batches(2, optimizer, rows, until=12, accumulate=3, clip_value=0.3, clip_norm=0.4)
    assert (whole.pop("global_step"), parts.pop("global_step")) == (4, 12)
    assert parts["accumulated/table/ids"].shape == (0,)
    for name, value in whole.items():
        np.testing.assert_allclose(parts[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    # Between two steps the gradients wait, the table's as a row for each id.
    between = batches(2, optimizer, rows, until=11, accumulate=3)
    before = batches(2, optimizer, rows, until=9, accumulate=3)
    np.testing.assert_array_equal(between["table"], before["table"])
    assert between["accumulated/table/ids"].tolist() == rows[18:22].tolist()
    assert between["accumulated/table/rows"].shape == (4, 2)


@pytest.mark.parametrize("table", [False, True])
def test_the_last_step_averages_the_batches_that_are_left(table, tmp_path):
    """Gradients 1, 2, 3 ... and a limit that they do not reach: steps of 3, 3, and then of 1."""

    def steps(until, last_step, start=None):
        """(x after each step, the checkpoint at the end)."""
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            factor = tf.compat.v1.placeholder(tf.float32, [])
            x = tf.compat.v1.get_variable("x", initializer=np.zeros((2, 1), np.float32))
            # Two rows of the same id; their gradients add up to the factor.
            read = tf.gather(x, [1, 1]) / 2 if table else x[1]
            optimizers = [("", make_optimizer("sgd", 1.0))]
            step = minimize(
                -factor * tf.reduce_sum(read), optimizers, accumulate=3, last_step=last_step,
                clip_norm=100.0,
            )  # fmt: skip
            session.run(tf.compat.v1.global_variables_initializer())
            saver = tf.compat.v1.train.Saver()
            if start is not None:
                saver.restore(session, start)
            found = []
            for i in range(session.run(tf.compat.v1.train.get_global_step()), until):
                session.run(step, {factor: i + 1.0})
                found.append(session.run(x)[1, 0])
            return found, saver.save(session, f"{tmp_path}/{until}_{last_step}")

    sixth = 2.0 + 5.0
    assert steps(7, None)[0] == [0, 0, 2, 2, 2, sixth, sixth]
    found, at_end = steps(7, 7)
    assert found == [0, 0, 2, 2, 2, sixth, sixth + 7]
    assert gradient_changes.waiting(at_end) == 0
    assert steps(2, 2)[0] == [0, 1.5]
    # A stop between two steps changes nothing. After its end, the count starts again at 0.
    first, middle = steps(5, 8)
    assert gradient_changes.waiting(middle) == 2
    assert first + steps(8, 8, middle)[0] == steps(8, 8)[0]
    assert steps(12, 12, at_end)[0] == [14, 14, 14 + 9, 23, 23 + 11.5]


def test_averages_by_hand():
    values, _ = step(square, [("", make_optimizer("sgd", 0.25))], steps=3, average=0.15)
    assert values == {"x": 0.375}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        train_op = minimize(square(), [("", make_optimizer("sgd", 0.25))], average=0.15)
        session.run(tf.compat.v1.global_variables_initializer())
        average = tf.compat.v1.get_collection("variables")
        average = {v.op.name: v for v in average}["x/ExponentialMovingAverage"]
        found = []
        for _ in range(3):
            session.run(train_op)
            found.append(session.run(average))
    # Weights 3, 1.5, 0.75, 0.375; decays min(0.15, 1/10), min(0.15, 2/11), min(0.15, 3/12).
    first = 0.1 * 3 + 0.9 * 1.5
    second = 0.15 * first + 0.85 * 0.75
    np.testing.assert_allclose(found, [first, second, 0.15 * second + 0.85 * 0.375], rtol=1e-6)


def test_ftrl_does_not_work_with_a_schedule():
    """TensorFlow's FTRL computes the weight from the rate of now, so half the rate halves it."""

    def weight_after(rates):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            rate = tf.compat.v1.placeholder(tf.float32, [])
            x = tf.compat.v1.get_variable("x", initializer=0.0)
            train_op = minimize(-x, [("", tf.compat.v1.train.FtrlOptimizer(rate))])
            session.run(tf.compat.v1.global_variables_initializer())
            for now in rates:
                session.run(train_op, {rate: now})
            return session.run(x)

    before, fallen = weight_after([1.0] * 50), weight_after([1.0] * 50 + [0.5])
    assert before > 5 and fallen == pytest.approx(0.5 * before, rel=0.05)
    with pytest.raises(ConfigError) as error:
        make_optimizer({"ftrl": {"l1": 0.1}}, 0.1, factor=tf.constant(0.5))
    assert str(error.value) == (
        "the optimizer ftrl does not work with the model parameters schedule and warm_up_steps: it "
        "computes its weights from the rate of now, so another rate also scales the weights that "
        "it has learned. Use another optimizer, such as adagrad (linear_optimizer=adagrad for the "
        "linear part of wide_deep), or remove the parameters."
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_optimizer_keeps_its_rate(name):
    """After a start with what a checkpoint holds, a step follows the new rate."""

    def change(first_rate, rate):
        kept = {}
        for steps, used in ((2, first_rate), (1, rate)):
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                train_op = minimize(square(), [("", make_optimizer(name, used))])
                session.run(tf.compat.v1.global_variables_initializer())
                variables = {v.op.name: v for v in tf.compat.v1.global_variables()}
                for key, value in kept.items():
                    variables[key].load(value, session)
                before = session.run(variables["x"])
                for _ in range(steps):
                    session.run(train_op)
                kept = session.run(variables)
        return kept["x"] - before

    slow, fast = change(0.1, 0.01), change(0.1, 0.1)
    assert abs(slow - fast) > 1e-4 * abs(fast)
    if name != "ftrl":  # It computes the weight from its slots.
        assert fast / slow == pytest.approx(10, rel=0.02 if name != "momentum" else 2)
