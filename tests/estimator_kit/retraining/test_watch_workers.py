"""The processes of `retrain --watch`: replaced, ended by signals, and followed after a death."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from estimator_kit.errors import ConfigError, Stopped
from estimator_kit.retraining import watch_workers
from feature_specs.errors import Problem, SpecError

pytestmark = pytest.mark.no_tensorflow


@pytest.fixture(autouse=True)
def only_linux():
    if sys.platform != "linux":
        pytest.skip("other systems have no workers")


@pytest.fixture
def lines(tmp_path):
    """Functions that add a line, and read all of them, in any process."""
    path = tmp_path / "lines"

    def add(text):
        with path.open("a") as file:
            file.write(f"{text}\n")

    return add, lambda: path.read_text().split() if path.exists() else []


def test_a_worker_is_replaced_by_another_process(lines):
    add, read = lines

    def work():
        add(os.getpid())
        return len(read()) < 3

    watch_workers.in_workers(work)
    assert len(set(read())) == 3 and str(os.getpid()) not in read()


@pytest.mark.parametrize("error", [Stopped("by a signal"), ConfigError("--window: wrong")])
def test_the_errors_of_a_worker_are_raised(error):
    def work():
        raise error

    with pytest.raises(type(error), match=str(error)):
        watch_workers.in_workers(work)


def test_an_error_in_the_spec_ends_the_watch_with_its_words():
    problem = SpecError("ads.yaml", [Problem(("columns",), "a problem", 3)])

    def work():
        raise problem

    with pytest.raises(ConfigError) as error:
        watch_workers.in_workers(work)
    assert str(error.value) == str(problem)


def test_another_worker_follows_one_that_was_killed(lines):
    add, read = lines
    pauses = []

    def work():
        add("worker")
        if len(read()) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    watch_workers.in_workers(work, wait=lambda ended, secs: pauses.append(secs))
    assert read() == ["worker", "worker"] and pauses == [60.0]


def test_a_signal_is_passed_on():
    watcher = os.getpid()

    def work():
        def handler(number, frame):
            raise Stopped("in a cycle")

        signal.signal(signal.SIGTERM, handler)
        os.kill(watcher, signal.SIGINT)
        while True:
            signal.pause()

    with pytest.raises(Stopped, match="in a cycle"):
        watch_workers.in_workers(work)


def test_a_worker_ends_with_the_process_that_watches():
    reading, writing = os.pipe()
    watcher = os.fork()
    if not watcher:

        def work():
            os.write(writing, b"x")
            while True:
                signal.pause()

        watch_workers.in_workers(work)
        os._exit(0)
    os.close(writing)
    assert os.read(reading, 1) == b"x"
    os.kill(watcher, signal.SIGKILL)
    os.waitpid(watcher, 0)
    assert os.read(reading, 1) == b""  # The worker had the last other end.
    os.close(reading)
