"""Progress, stopping and early stopping, with a fake clock."""

from __future__ import annotations

import math
import os
import signal
import time

import pytest
import tensorflow as tf

from estimator_kit.errors import Stopped
from estimator_kit.exporters.best import has_stalled, is_better
from estimator_kit.model.names import LOSS_TENSOR, ROWS_TENSOR
from estimator_kit.result import SIGTERM
from estimator_kit.training.hooks.progress import (
    EvaluationProgressHook,
    PauseAtSave,
    ProgressHook,
    Speed,
)
from estimator_kit.training.hooks.stop import (
    AtMultiples,
    InterruptHook,
    StopHook,
    StopRequest,
    stop_on_sigterm,
)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def said(caplog):
    return [each.getMessage() for each in caplog.records if each.name == "estimator_kit"]


def train(hook, clock, steps, *, seconds, start=0, save_after=(), pause=100.0):
    """Runs a training loop with ten rows a step, in which each step takes `seconds`."""
    with tf.Graph().as_default():
        step = tf.compat.v1.train.get_or_create_global_step()
        tf.constant(10, name=ROWS_TENSOR)
        tf.constant(0.25, name=LOSS_TENSOR)
        train_op = tf.compat.v1.assign_add(step, 1)

        class Saver(tf.compat.v1.train.SessionRunHook):
            done = 0

            def after_run(self, run_context, run_values):
                clock.now += seconds
                self.done += 1
                if self.done in save_after:
                    PauseAtSave(hook).before_save(None, 0)
                    clock.now += pause

        with tf.compat.v1.train.SingularMonitoredSession([Saver(), hook]) as session:
            step.load(start, session.raw_session())
            hook.after_create_session(session.raw_session(), None)
            for _ in range(steps):
                session.run(train_op)


def test_a_line_every_few_seconds_with_the_time_left_after_ten_steps(caplog):
    clock = Clock()
    caplog.set_level("INFO", "estimator_kit")
    hook = ProgressHook(100, every_secs=8.0, clock=clock)
    train(hook, clock, 14, seconds=2.0, start=82)
    # Ten rows in two seconds. The rate leaves out the first step, which builds the graph.
    assert said(caplog) == [
        "train: step 86 of 100, loss 0.25000, 5 examples/s",
        "train: step 90 of 100, loss 0.25000, 5 examples/s",
        "train: step 94 of 100, loss 0.25000, 5 examples/s, 0:12 left",
        "train: step 96 of 100, loss 0.25000, 5 examples/s, 0:08 left",
    ]
    assert caplog.records[-1].numbers == {
        "phase": "train", "done": 96, "total": 100, "loss": 0.25, "examples_per_second": 5.0,
        "seconds_left": 8.0,
    }  # fmt: skip
    assert (hook.rows, hook.examples_per_second) == (140, 5.0)


def test_speed_is_that_of_the_steps_since_the_call_before():
    clock = Clock()
    hook = ProgressHook(None, clock=clock)
    train(hook, clock, 3, seconds=5.0)  # Without the first step: 20 rows in ten seconds.
    speed = Speed(hook)
    assert speed() is None
    train(hook, clock, 4, seconds=2.0)  # 40 rows in eight seconds.
    assert speed() == 5.0
    assert speed() is None


def test_an_evaluation_knows_its_length_from_the_one_before(caplog):
    clock = Clock()
    caplog.set_level("INFO", "estimator_kit")
    hook = EvaluationProgressHook(every_secs=4.0, clock=clock)
    for batches in (4, 2):
        with tf.Graph().as_default():
            hook.begin()
            for _ in range(batches):
                clock.now += 2.0
                hook.after_run(None, None)
            hook.end(None)
        assert hook.seconds == 2.0 * batches
    assert said(caplog) == [
        "evaluate: batch 2", "evaluate: batch 4", "evaluate: batch 2 of 4",
    ]  # fmt: skip


def test_time_spent_on_checkpoints_and_evaluations_is_not_training():
    clock = Clock()
    hook = ProgressHook(None, clock=clock)
    train(hook, clock, 5, seconds=2.0, save_after=(2, 4))
    assert hook.seconds == 8.0


def run_until_stopped(request, hook, ask_after):
    with tf.Graph().as_default():
        tf.compat.v1.train.get_or_create_global_step()
        nothing = tf.no_op()
        done = 0
        with tf.compat.v1.train.SingularMonitoredSession([hook]) as session:
            while not session.should_stop() and done < 10:
                session.run(nothing)
                done += 1
                if done == ask_after:
                    request.ask(SIGTERM)
    return done


def test_a_stop_ends_the_loop_after_the_step_under_way():
    request = StopRequest()
    assert run_until_stopped(request, StopHook(request), ask_after=3) == 4


def test_an_evaluation_is_broken_off():
    request = StopRequest()
    with pytest.raises(Stopped, match="stopped by SIGTERM; the checkpoint is saved"):
        run_until_stopped(request, InterruptHook(request), ask_after=3)
    request.reason = "early_stopped"
    assert run_until_stopped(request, InterruptHook(request), ask_after=99) == 10


def test_sigterm_becomes_a_request_and_the_old_handler_comes_back():
    before = signal.getsignal(signal.SIGTERM)
    request = StopRequest()
    with stop_on_sigterm(request):
        assert request.reason is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert request.reason == SIGTERM
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL  # A second one is final.
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("values", "direction", "patience", "min_delta", "stalled"),
    [
        ([3, 2, 2, 2], "min", 2, 0, True),
        ([3, 2, 2, 2], "min", 3, 0, False),
        ([3, 2, 2, 2], "min", 3, 2, True),
        ([3, 2, 2, 2], "min", 3, 1, False),
        ([3, 2, 2, 1.9], "min", 2, 0, False),
        ([3, 2, 2, 1.9], "min", 2, 0.5, True),
        # Small steps add up, each compared with the last improvement.
        ([3, 2.75, 2.5, 2.25], "min", 2, 0.5, False),
        ([0.5, 0.6, 0.55], "max", 1, 0, True),
        ([0.5, 0.6, 0.7], "max", 1, 0, False),
        ([0.5, 0.625, 0.75], "max", 1, 0.25, False),
        ([0.5, 0.625, 0.6875], "max", 2, 0.25, True),
        ([math.nan, math.nan, math.nan], "min", 2, 0, False),
        ([math.nan, 1.0, 2.0], "min", 2, 0.5, False),
        ([None, 1.0], "min", 1, 0, False),
        ([], "min", 1, 0, False),
    ],
)
def test_early_stopping(values, direction, patience, min_delta, stalled):
    assert has_stalled(values, direction, patience=patience, min_delta=min_delta) is stalled


@pytest.mark.parametrize(
    ("value", "best", "direction", "better"),
    [
        (1.0, 2.0, "min", True), (2.0, 1.0, "min", False), (1.0, 2.0, "max", False),
        (2.0, 1.0, "max", True), (1.0, 1.0, "min", False), (1.0, 1.0, "max", False),
        (math.nan, 1.0, "max", False), (1.0, math.nan, "max", True),
        (math.inf, 1.0, "max", False), (math.nan, math.nan, "min", False),
    ],
)  # fmt: skip
def test_better(value, best, direction, better):
    assert is_better(value, best, direction) is better


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_set_changes_no_interval_of_checkpoints(monkeypatch, hours):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    timer = AtMultiples(every_secs=60)
    assert timer.should_trigger_for_step(1)
    timer.update_last_triggered_step(1)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600 * hours)
    now[0] = 159.0
    assert not timer.should_trigger_for_step(2)
    now[0] = 160.0
    assert timer.should_trigger_for_step(2) and not timer.should_trigger_for_step(1)


def test_checkpoints_at_multiples_of_steps():
    timer = AtMultiples(every_steps=25)
    assert timer.should_trigger_for_step(26)
    timer.update_last_triggered_step(26)
    assert next(step for step in range(26, 60) if timer.should_trigger_for_step(step)) == 50
