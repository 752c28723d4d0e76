"""fork_server: processes of the program that are forked from one that has imported TensorFlow."""

from __future__ import annotations

import os
import select
import signal
import sys

import pytest

from estimator_kit.tuning.fork_server import ForkServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends trials with it")


@pytest.fixture(scope="module")
def server():
    with ForkServer() as started:
        yield started


def ended(server, process):
    """The exit status of a process, after its end."""
    while (code := process.poll()) is None:
        select.select([server._process.stdout], [], [], 1)
    return code


def test_a_process_has_the_status_and_the_output_of_the_program(server, tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("earlier\n")
    assert ended(server, server.start(["--batch_sise=5"], str(log))) == 2
    first, second = log.read_text().split("\n", 1)
    assert first == "earlier" and "unknown flag --batch_sise" in second
    assert ended(server, server.start(["--help"], str(log))) == 0


@pytest.fixture
def waiting(server, tmp_path):
    """Starts processes that wait: they read a flagfile that nobody writes."""
    flags = tmp_path / "never.flags"
    os.mkfifo(flags)
    return lambda: server.start([f"--flagfile={flags}"], str(tmp_path / "log.txt"))


def test_a_process_that_is_killed_ends_alone(server, waiting):
    first, second = waiting(), waiting()
    first.terminate()
    assert ended(server, first) == -signal.SIGTERM
    assert second.poll() is None
    second.kill()
    assert ended(server, second) == -signal.SIGKILL
    second.kill()  # It has ended: nothing happens.
    assert first.poll() == -signal.SIGTERM


def test_a_server_that_dies_is_replaced(server, waiting, tmp_path):
    lost = waiting()
    server._process.kill()
    assert ended_with(lost) == -signal.SIGKILL
    assert ended(server, server.start(["--help"], str(tmp_path / "help.txt"))) == 0


def ended_with(process):
    while (code := process.poll()) is None:
        os.sched_yield()
    return code


def test_the_end_of_the_server_ends_its_processes(tmp_path):
    flags, log = tmp_path / "never.flags", tmp_path / "log.txt"
    os.mkfifo(flags)
    with ForkServer() as server:
        process = server.start([f"--flagfile={flags}"], str(log))
        with open(flags, "w"):  # Returns when the process has opened it.
            pass
    assert process.poll() == -signal.SIGKILL
