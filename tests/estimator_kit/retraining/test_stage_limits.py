"""Stages end when they exceed a limit, and the error names the reason."""

from __future__ import annotations

import os
import signal
import threading
import weakref

import pytest

from estimator_kit.errors import Stopped, TimedOut
from estimator_kit.retraining import stage_limits as limits_module
from estimator_kit.retraining.stage_limits import stoppable

pytestmark = pytest.mark.no_tensorflow


def wait():
    while True:  # `signal.pause` would miss a signal that comes just before it.
        pass


def test_a_limit_that_is_over_at_once_is_a_limit_still():
    for _ in range(20):
        with pytest.raises(TimedOut) as error, stoppable() as limits, limits.stage("window", 1e-9):
            wait()
    assert str(error.value) == (
        "the stage window took longer than its limit of 1e-09 s (--stage_limits). Run the same "
        "command again to go on with it."
    )


def test_a_handler_that_knows_no_limit_is_told_apart_from_sigterm():
    def stop(number, frame):
        raise Stopped("after a checkpoint")

    with pytest.raises(TimedOut), stoppable() as limits, limits.stage("train", 0.01):
        signal.signal(signal.SIGTERM, stop)
        wait()


def test_sigterm_is_no_limit():
    message = r"^stopped by SIGTERM in the stage gate\. Run the same command again to go on with i"
    with pytest.raises(Stopped, match=message), stoppable() as limits, limits.stage("gate", 3600):
        os.kill(os.getpid(), signal.SIGTERM)
        wait()


def test_a_stage_in_time_is_left_alone():
    with stoppable() as limits, limits.stage("gate", 3600):
        pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_error_that_python_drops_is_raised_again(monkeypatch):
    """Python drops errors that are raised in a callback of a weak reference."""
    monkeypatch.setattr(limits_module, "_AGAIN_SECS", 0.01)

    class Thing:
        pass

    thing, called = Thing(), []

    def callback(_):
        called.append(1)
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):
            pass  # Here the handler runs, and its error is dropped.

    with (
        pytest.raises(Stopped, match="SIGTERM in the stage slow"),
        stoppable() as limits,
        limits.stage("slow", None),
    ):
        reference = weakref.ref(thing, callback)
        del thing
        assert reference() is None and called
        threading.Event().wait(60)
        pytest.fail("the stage was not stopped")
