"""`retrain --watch`: when a cycle begins, what ends the watch, and what a look sees."""

from __future__ import annotations

import errno
import os

import pytest

from estimator_kit.errors import ConfigError, Locked, NothingToDo, Refused, Stopped
from estimator_kit.retraining import watching
from input_pipelines.errors import DataError

SIGNAL = object()


def watch(looks, errors=(), waits=1000):
    """The numbers of the look in which each cycle began; the last look is repeated."""
    looks, errors, begun = list(looks), list(errors), []
    state = {"look": -1, "waits": 0}

    def look():
        state["look"] += 1
        found = looks[min(state["look"], len(looks) - 1)]
        if isinstance(found, Exception):
            raise found
        return found

    def cycle():
        begun.append(state["look"])
        error = errors[len(begun) - 1] if len(begun) <= len(errors) else None
        if error is not None:
            raise error

    def wait(ended, secs):
        state["waits"] += 1
        return state["waits"] > waits

    watching.watch(cycle, look, wait=wait)
    return begun


def test_a_cycle_begins_at_once_and_when_a_period_comes():
    assert watch(["a", "a", "a", "b", "b"], waits=6) == [0, 3]


def test_a_period_that_comes_during_a_cycle_is_seen_after_it():
    assert watch(["a", "b"], waits=3) == [0, 1]


@pytest.mark.parametrize(
    "error", [NothingToDo("same"), Refused("worse"), DataError("too few"), RuntimeError("a bug")]
)
def test_the_same_data_are_not_tried_twice(error):
    assert watch(["a"], [error], waits=2000) == [0]
    assert watch(["a", "a", "b"], [error], waits=5) == [0, 2]


def test_what_time_may_mend_is_tried_again_later_and_later():
    full = OSError(errno.ENOSPC, "no space left")
    per_minute = int(60 / watching.LOOK_SECS)
    begun = watch(["a"], [full, Locked("another"), full, None], waits=30 * per_minute)
    gaps = [b - a for a, b in zip(begun, begun[1:])]
    # A minute, two, three: each has its looks, and one more after the cycle.
    assert gaps == [per_minute + 1, 2 * per_minute + 1, 3 * per_minute + 1]


def test_the_time_between_tries_has_an_end():
    per_minute = int(60 / watching.LOOK_SECS)
    begun = watch(["a"], [Locked("another")] * 100, waits=100 * per_minute)
    assert begun[-1] - begun[-2] == 10 * per_minute + 1


@pytest.mark.parametrize("error", [ConfigError("flags"), Stopped("a signal")])
def test_an_error_of_the_command_ends_the_watch(error):
    with pytest.raises(type(error)):
        watch(["a"], [error])


def test_folders_that_cannot_be_listed_are_listed_again():
    gone = OSError(errno.ESTALE, "the mount is gone")
    assert watch([gone, gone, "a", gone, "a", "b"], waits=9) == [0, 2, 5]


def test_an_error_is_told_once(capsys, caplog):
    watch(["a"], [OSError(errno.ENOSPC, "no space left")] * 3, waits=1000)
    assert capsys.readouterr().err.count("no space left") == 1
    with caplog.at_level("INFO"):
        watch(["a"], [Locked("another start")] * 3, waits=1000)
    assert (
        caplog.text.count("waiting for another start: another start") == 1
        and not capsys.readouterr().err
    )


def test_a_signal_ends_a_watch_that_waits():
    def wait(ended, secs):
        os.kill(os.getpid(), 15)
        return ended.wait(secs)

    watching.watch(lambda: None, lambda: "a", wait=wait)
