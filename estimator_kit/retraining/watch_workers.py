"""The processes in which `--watch` runs its cycles: forked, and replaced after some cycles.

    in_workers(work)        # `work()` returns whether another worker goes on.

The process that watches has imported TensorFlow and computes nothing with it, so a forked worker
begins at once, as if it had just imported it. TensorFlow and Python keep a little memory of each
cycle; a worker that is replaced takes it along. If the kernel ends a worker, as it does when memory
is full, another one goes on a minute later, as after any error that time may mend. SIGTERM and
Ctrl-C are passed on to the worker. If the process that watches dies, its worker is killed; that is
what a cycle may always meet. On systems other than Linux, which cannot do that, `work` runs in this
process.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from estimator_kit import exit_codes
from estimator_kit.distributed import launcher
from estimator_kit.errors import ConfigError, Stopped
from estimator_kit.exit_codes import Signalled, until_signalled

_log = logging.getLogger("estimator_kit")

# The exit status of a worker that another one follows; DONE ends the watch.
_AGAIN = 1
# The errors of a worker that the watcher raises, by the exit status.
_RAISED: dict[int, type[Exception]] = {
    exit_codes.BAD_CONFIG: ConfigError,
    exit_codes.STOPPED: Stopped,
}
# Seconds until another worker replaces one that died.
_PAUSE_SECS = 60.0


def in_workers(
    work: Callable[[], bool], *, wait: Callable[[Signalled, float], bool] = Signalled.wait
) -> None:
    """Runs `work` in one worker after another, until it returns False or a signal comes.

    Args:
      work: what a worker does.
      wait: waits some seconds; returns whether a signal has come.

    Raises:
      Stopped: a worker raised it.
      ConfigError: a worker raised it, or another error with its exit status, such as a SpecError.
        After all other errors, another worker follows.
    """
    if sys.platform != "linux":
        while work():
            pass
        return
    with until_signalled() as ended:
        while not ended.is_set():
            code, words = _one(work, ended)
            if code in _RAISED:
                raise _RAISED[code](words)
            if code == exit_codes.DONE:
                return
            if code != _AGAIN:
                _log.error(
                    "the process of a cycle ended with status %d, so the cycle goes on in another "
                    "one in %d s", code, _PAUSE_SECS
                )  # fmt: skip
                if wait(ended, _PAUSE_SECS):
                    return


def _one(work: Callable[[], bool], ended: Signalled) -> tuple[int, str]:
    """One worker: its exit status, and the words of an error that the watcher raises."""
    reading, writing = os.pipe()
    watcher = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Libraries have threads, which they handle in a fork. TensorFlow has none yet.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        os.close(reading)
        _work(work, writing, watcher, ended)
    os.close(writing)
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]

    def forward(number: int, frame: Any) -> None:
        ended.set()
        os.kill(child, signal.SIGTERM)

    try:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, forward)
        if ended.is_set():  # The signal came before the worker could get it.
            os.kill(child, signal.SIGTERM)
        with os.fdopen(reading, "rb") as pipe:
            words = pipe.read().decode()
        _, status = os.waitpid(child, 0)
    finally:
        for each, handler in zip((signal.SIGTERM, signal.SIGINT), before):
            signal.signal(each, handler)
    return os.waitstatus_to_exitcode(status), words


def _work(work: Callable[[], bool], writing: int, watcher: int, ended: Signalled) -> NoReturn:
    """What a worker does from its first to its last moment."""
    code = exit_codes.BUG
    try:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        if ended.is_set():  # The signal came before that, to the handler of the watcher.
            os.kill(os.getpid(), signal.SIGTERM)
        os.setpgid(0, 0)  # The terminal sends Ctrl-C to the watcher, which passes it on.
        launcher.in_child(0)()
        if os.getppid() != watcher:  # It ended before the kernel could watch it.
            os._exit(code)
        code = _AGAIN if work() else exit_codes.DONE
    except BaseException as error:
        code = exit_codes.exit_code(error)
        if code in _RAISED:
            os.write(writing, str(error).encode())
        else:
            traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
