"""Hooks of a model: each of TensorFlow works as without the kit, and errors name their place."""

from __future__ import annotations

import os
import re

import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.errors import SessionLost
from estimator_kit.model import own_session
from estimator_kit.model.own_session import EndOfInput, OwnHook
from estimator_kit.tf_estimator import estimator
from tests.estimator_kit.model.test_model_fn import Constant, build
from tests.placed import without_place

v1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys
STEPS = 5


def surface():
    """The names of the hooks of TensorFlow, and of the functions that make hooks."""
    names = set()
    for module in (v1.train, estimator, estimator.experimental):
        for name in dir(module):
            value = getattr(module, name)
            if name.endswith(("_hook", "Hook")) and value is not v1.train.SessionRunHook:
                names.add(name)
    return names


# How to make each of them, with its own folder. `trained` makes the graph.
MAKE = {
    "CheckpointSaverHook": lambda to: v1.train.CheckpointSaverHook(to, save_steps=2),
    "FeedFnHook": lambda to: v1.train.FeedFnHook(lambda: {"fed:0": 0.5}),
    "FinalOpsHook": lambda to: v1.train.FinalOpsHook("loss:0"),
    "GlobalStepWaiterHook": lambda to: v1.train.GlobalStepWaiterHook(0),
    "LoggingTensorHook": lambda to: v1.train.LoggingTensorHook(["loss"], every_n_iter=2),
    "NanTensorHook": lambda to: v1.train.NanTensorHook("loss:0", fail_on_nan_loss=False),
    "ProfilerHook": lambda to: v1.train.ProfilerHook(save_steps=2, output_dir=to),
    "StepCounterHook": lambda to: v1.train.StepCounterHook(2, output_dir=to),
    "StopAtStepHook": lambda to: v1.train.StopAtStepHook(num_steps=3),
    "SummarySaverHook": lambda to: v1.train.SummarySaverHook(
        2, output_dir=to, summary_op=v1.get_default_graph().get_tensor_by_name("summary:0")
    ),
}

# These need the Estimator, which a model does not have.
OF_AN_ESTIMATOR = {
    "InMemoryEvaluatorHook",
    "make_early_stopping_hook",
    "make_stop_at_checkpoint_step_hook",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
}


def test_each_hook_of_tensorflow_is_tried_here():
    assert surface() == {*MAKE, *OF_AN_ESTIMATOR}


def trained(make, folder, *, wrap):
    """What a training of a few steps with a hook leaves: its losses, step and files."""
    os.makedirs(folder)
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        fed = tf.constant(2.0, name="fed")
        loss = tf.multiply(fed, tf.cast(step.read_value(), tf.float32), name="loss")
        v1.summary.scalar("summary", loss)
        with tf.control_dependencies([loss]):
            count = v1.assign_add(step, 1)
        hook = make(f"{folder}")
        hooks = [OwnHook(hook, "Model.hooks", ModeKeys.TRAIN)] if wrap else [hook]
        losses = []
        with v1.train.MonitoredSession(hooks=hooks) as session:
            while not session.should_stop() and len(losses) < STEPS:
                losses.append(float(session.run([loss, count])[0]))
    files = {re.sub(r"\d{6,}.*", "", name) for name in os.listdir(folder)}
    return losses, files, getattr(hook, "final_ops_values", None)


@pytest.mark.parametrize("name", MAKE)
def test_a_hook_of_tensorflow_does_the_same_in_a_model(name, tmp_path):
    plain = trained(MAKE[name], tmp_path / "plain", wrap=False)
    assert trained(MAKE[name], tmp_path / "own", wrap=True) == plain
    stopped = {"StopAtStepHook": 3}
    assert len(plain[0]) == stopped.get(name, STEPS)


class Raises(v1.train.SessionRunHook):
    """Raises an error in one of its methods."""

    def __init__(self, error, method):
        self._error = error
        setattr(self, method, self._raise)

    def _raise(self, *arguments):
        raise self._error  # here


ERRORS = {
    StopIteration(): ek.ConfigError,
    tf.errors.OutOfRangeError(None, None, "the end"): ek.ConfigError,
    tf.errors.AbortedError(None, None, "lost"): SessionLost,
    tf.errors.UnavailableError(None, None, "away"): SessionLost,
    RuntimeError("mine"): ek.ConfigError,
}
METHODS = [name for name in vars(v1.train.SessionRunHook) if not name.startswith("_")]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_each_method_of_a_hook_names_its_place(error, method, tmp_path):
    with pytest.raises(ERRORS[error]) as found:
        trained(lambda to: Raises(error, method), tmp_path / "own", wrap=True)
    what = f"{type(error).__name__}{f': {error}' if str(error) else ''}"
    pattern = rf"{re.escape(__file__)}:\d+: Model\.hooks: Raises\.{method} raised "
    assert re.match(pattern + re.escape(what), str(found.value)), found.value


class AsksFor(v1.train.SessionRunHook):
    """Asks each step for a tensor that does not exist."""

    def before_run(self, run_context):
        return v1.train.SessionRunArgs({"mine": ["missing:0"]})


def test_a_hook_that_asks_for_an_unknown_tensor_is_refused(tmp_path):
    with pytest.raises(ek.ConfigError, match=r"AsksFor\.before_run raised KeyError: .*missing:0"):
        trained(lambda to: AsksFor(), tmp_path / "own", wrap=True)


def test_a_hook_that_makes_a_variable_too_late_is_refused(tmp_path):
    class Counts(v1.train.SessionRunHook):
        def begin(self):
            v1.get_variable("count", initializer=0, trainable=False)

    with pytest.raises(ek.ConfigError) as error:
        trained(lambda to: Counts(), tmp_path / "own", wrap=True)
    assert str(error.value) == (
        "Model.hooks: Counts.begin makes the variable count, which would be in the checkpoint, but "
        "not in the model that the next start compares with it. Make it in ModelFn.hooks, or make "
        "a local variable."
    )


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (v1.train.StepCounterHook(), r"a list, got one hook, .*\. Return a list of hooks\."),
        (3, r"a list, got 3\. Return a list of hooks\."),
        ([v1.train.StepCounterHook], r"SessionRunHook objects, got <class .*"),
        (["hook"], r"SessionRunHook objects, got 'hook'\. Return a list of objects of classes .*"),
    ],
)
@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
def test_what_is_no_list_of_hooks_is_refused(document, returned, message, mode):
    class Wrong(Constant):
        def hooks(self, mode):
            return returned

    with tf.Graph().as_default(), pytest.raises(ek.ConfigError) as error:
        build(Wrong(feature_specs.parse(document)), mode)
    assert re.fullmatch(rf"Wrong\.hooks: expected {message}", without_place(error.value))


def test_none_is_no_hook(document):
    class Sometimes(Constant):
        def hooks(self, mode):
            if mode == ModeKeys.TRAIN:
                return [v1.train.StepCounterHook()]

    for mode, count in ((ModeKeys.TRAIN, 1), (ModeKeys.EVAL, 0)):
        with tf.Graph().as_default():
            made = build(Sometimes(feature_specs.parse(document)), mode)
        hooks = [*made.training_hooks, *made.evaluation_hooks]
        assert sum(isinstance(hook, OwnHook) for hook in hooks) == count


def rows_of(input_op, other):
    """How many steps a session makes until a data set of 4 or another op ends it."""
    with tf.Graph().as_default():
        batch = v1.data.make_one_shot_iterator(tf.data.Dataset.range(4)).get_next()
        names = own_session.readers() if input_op else frozenset()
        made, steps = other(), 0
        with v1.train.MonitoredSession(hooks=[EndOfInput("Model", names)]) as session:
            while not session.should_stop():
                session.run([batch, made])
                steps += 1
    return steps


def second(length):
    return lambda: v1.data.make_one_shot_iterator(tf.data.Dataset.range(length)).get_next()


def test_only_the_input_ends_a_loop():
    assert rows_of(True, lambda: tf.constant(1)) == 4
    assert rows_of(True, second(9)) == 4
    with pytest.raises(ek.ConfigError) as error:
        rows_of(True, second(2))
    assert re.match(
        rf"{re.escape(__file__)}:\d+: Model: the operation IteratorGetNext_1 \(a IteratorGetNext\) "
        r"ended before the input did\. ",
        str(error.value),
    )
    # Without an input of tf.data, the kit cannot know which op is the input.
    assert rows_of(False, second(2)) == 2


def test_a_request_of_another_type_is_refused():
    class Asks(v1.train.SessionRunHook):
        def before_run(self, run_context):
            return {"loss": "loss:0"}

    hook = OwnHook(Asks(), "Model.hooks", ModeKeys.TRAIN)
    with tf.Graph().as_default(), pytest.raises(ek.ConfigError) as error:
        v1.train.get_or_create_global_step()
        with v1.train.MonitoredSession(hooks=[hook]) as session:
            session.run(v1.train.get_global_step())
    assert without_place(error.value).startswith(
        "Model.hooks: Asks.before_run raised TypeError: expected SessionRunArgs or None, got {'l"
    )
