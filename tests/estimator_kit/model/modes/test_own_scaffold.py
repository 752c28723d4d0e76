"""`ModelFn.scaffold` and `first_values`: what a model does when its session is made."""

from __future__ import annotations

import inspect
import itertools
import re

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model.session_errors import explained
from tests.conftest import make_rows
from tests.estimator_kit.model.test_model_fn import Constant, build
from tests.estimator_kit.small_training import batch_of
from tests.placed import without_place

v1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys
MODES = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)

# For each part of a Scaffold, a function that makes it.
PARTS = {
    "init_op": tf.no_op,
    "init_feed_dict": lambda: {v1.placeholder(tf.int32, name="fed"): 1},
    "init_fn": lambda: lambda scaffold, session: None,
    "ready_op": lambda: v1.report_uninitialized_variables(),
    "ready_for_local_init_op": lambda: v1.report_uninitialized_variables(),
    "local_init_op": tf.no_op,
    "summary_op": lambda: v1.summary.merge_all(),
    "saver": lambda: v1.train.Saver(),
    "local_init_feed_dict": lambda: {v1.placeholder(tf.int32, name="fed"): 2},
}


@pytest.fixture
def spec(document):
    return feature_specs.parse(document)


def model_with(spec, part, given, params=None):
    class Own(Constant):
        def scaffold(self, mode):
            given[part] = PARTS[part]()
            return v1.train.Scaffold(**given)

    return Own(spec, params)


def test_each_part_of_a_scaffold_is_tried_here():
    names = set(inspect.signature(v1.train.Scaffold).parameters)
    assert names == {*PARTS, "copy_from_scaffold"}


@pytest.mark.parametrize(
    "mode", [MODES[0], *(pytest.param(m, marks=pytest.mark.nightly) for m in MODES[1:])]
)
@pytest.mark.parametrize("average", [pytest.param(None, marks=pytest.mark.nightly), 0.9])
@pytest.mark.parametrize("part", sorted({*PARTS} - {"saver", "init_fn", "local_init_op"}))
def test_the_session_gets_each_part(spec, part, average, mode):
    given = {}
    with tf.Graph().as_default():
        made = build(model_with(spec, part, given, {"moving_average": average}), mode)
    assert getattr(made.scaffold, part) is given[part]
    averaged = average is not None and mode != ModeKeys.TRAIN
    assert (made.scaffold.saver is not None) == averaged


@pytest.mark.parametrize("mode", MODES)
def test_a_saver_is_refused(spec, mode):
    with tf.Graph().as_default(), pytest.raises(ek.ConfigError) as error:
        build(model_with(spec, "saver", {}), mode)
    assert without_place(error.value).startswith(
        "Own.scaffold: got a saver, but restarts, exports and warm "
    )


def test_what_is_no_scaffold_is_refused(spec):
    class Own(Constant):
        def scaffold(self, mode):
            return tf.no_op()

    with tf.Graph().as_default(), pytest.raises(ek.ConfigError, match=r"expected a tf\.compat\.v"):
        build(Own(spec), ModeKeys.TRAIN)


class Starts(Constant):
    """Its `init_fn` doubles the value."""

    def first_values(self):
        return {"value": np.array([3.0, 4.0])}

    def scaffold(self, mode):
        (value,) = v1.trainable_variables()

        def double(scaffold, session):
            value.load(2 * session.run(value), session)

        return v1.train.Scaffold(init_fn=double)


def test_init_fn_runs_once_and_after_the_first_values(spec, tmp_path):
    params = {"moving_average": 0.5, "optimizer": "sgd", "learning_rate": 1e-12}

    def trained(steps):
        config = tf.estimator.RunConfig(model_dir=str(tmp_path))
        made = tf.estimator.Estimator(Starts(spec, params), config=config)
        made.train(batch_of(spec, make_rows(20)), max_steps=steps)
        return [made.get_variable_value(n) for n in ("value", "value/ExponentialMovingAverage")]

    np.testing.assert_allclose(trained(1), [[6, 8], [6, 8]], rtol=1e-6)
    np.testing.assert_allclose(trained(2), [[6, 8], [6, 8]], rtol=1e-6)  # A restart.


class CannotStart(Constant):
    def scaffold(self, mode):
        def read(scaffold, session):
            raise FileNotFoundError("words.txt")  # here

        return v1.train.Scaffold(init_fn=read)


def test_an_error_of_init_fn_names_its_line(spec, tmp_path):
    made = tf.estimator.Estimator(CannotStart(spec), model_dir=str(tmp_path))
    with pytest.raises(ek.ConfigError) as error:
        made.train(batch_of(spec, make_rows(20)), max_steps=1)
    assert re.match(
        rf"{re.escape(__file__)}:\d+: the init_fn of the scaffold raised FileNotFoundError: words",
        str(error.value),
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"valu": [0.0, 0]}, r"the model has no variable 'valu'\. Did you mean 'value'\? Use one "
         r"of: .*value.*\."),
        ({"value": [0.0]}, r"expected the shape \[2\] for value, got \[1\]\. Return an array with "
         r"the shape of the variable\."),
        ({"value": ["a", "b"]}, r"expected float32 for value, got <U1\. Return an array of the "
         r"variable's type\."),
        ([1.0], r"expected \{variable: array\}, got \[1\.0\]\. Return a dict\."),
        (None, r"expected \{variable: array\}, got None\. Return a dict\."),
    ],
)  # fmt: skip
def test_first_values_that_do_not_fit_are_refused_with_the_graph(spec, values, message):
    class Wrong(Constant):
        def first_values(self):
            return values

    with tf.Graph().as_default(), pytest.raises(ek.ConfigError) as error:
        build(Wrong(spec), ModeKeys.TRAIN)
    assert re.fullmatch(rf"Wrong\.first_values: {message}", without_place(error.value)), error.value


@pytest.mark.parametrize("name", ["kernel", "kernel/part_1"])
def test_first_values_of_a_partitioned_variable_or_a_part_of_it(spec, name, tmp_path):
    class Parts(ek.ModelFn):
        def logits(self, features, mode):
            parted = v1.fixed_size_partitioner(2)
            kernel = v1.get_variable("kernel", [4, 2], partitioner=parted, use_resource=True)
            value = tf.reduce_sum(tf.convert_to_tensor(kernel), axis=0)
            rows = tf.shape(next(iter(features.values())))[0]
            return tf.tile(value[tf.newaxis], [rows, 1])

        def first_values(self):
            return {name: np.full((4 if name == "kernel" else 2, 2), 7.0)}

    made = tf.estimator.Estimator(
        Parts(spec, {"optimizer": "sgd", "learning_rate": 1e-12}), model_dir=str(tmp_path)
    )
    made.train(batch_of(spec, make_rows(20)), max_steps=1)
    kernel = made.get_variable_value("kernel")
    first = slice(None) if name == "kernel" else slice(2, None)
    np.testing.assert_allclose(kernel[first], 7, rtol=1e-6)
    assert np.all(kernel[: 4 - len(kernel[first])] != 7)


class Local(Constant):
    """A local variable that the model's own op sets."""

    def logits(self, features, mode):
        seen = v1.get_local_variable("seen", initializer=tf.constant(0.0))
        self.add_output("seen", tf.fill([tf.shape(features["user"])[0], 1], seen))
        return super().logits(features, mode)

    def scaffold(self, mode):
        (seen,) = [v for v in v1.local_variables() if v.op.name == "seen"]
        with tf.control_dependencies([seen.initializer]):
            return v1.train.Scaffold(local_init_op=v1.assign(seen, 7.0))


def test_local_init_op_runs_in_each_session_and_with_the_tables_of_the_kit(spec, tmp_path):
    made = tf.estimator.Estimator(Local(spec))
    made.train(batch_of(spec, make_rows(20)), max_steps=1)
    assert made.evaluate(batch_of(spec, make_rows(20)))["rows"] == 40
    # The predictions depend on no row, so they would never end.
    answers = itertools.islice(made.predict(batch_of(spec, make_rows(3), labels=False)), 3)
    assert [float(answer["seen"][0]) for answer in answers] == [7.0] * 3


def test_a_feed_of_a_tensor_that_does_not_exist_is_refused(spec):
    class Feeds(Constant):
        def scaffold(self, mode):
            return v1.train.Scaffold(init_feed_dict={"nothing:0": 1})

    with tf.Graph().as_default(), pytest.raises(ek.ConfigError) as error:
        build(Feeds(spec), ModeKeys.TRAIN)
    assert without_place(error.value).startswith("Feeds.scaffold: KeyError: \"The name 'nothing:0'")


def test_a_model_that_is_never_ready_is_explained(spec):
    class Waits(Constant):
        def scaffold(self, mode):
            return v1.train.Scaffold(ready_op=tf.constant(["value"]))

    model = Waits(spec)
    with tf.Graph().as_default():
        made = build(model, ModeKeys.TRAIN)
        creator = v1.train.ChiefSessionCreator(made.scaffold)
        with pytest.raises(ek.ConfigError) as error, explained(spec, [], model=model):
            v1.train.MonitoredSession(creator)
    assert without_place(error.value) == (
        "Waits.scaffold: its ready_op says that the model is not ready: Variables not initialized: "
        "value. Initialize what it waits for in its init_fn or local_init_op."
    )
