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

import json
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

_AGAIN, _END, _TOLD = 0, 1, 2
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
      Stopped, ConfigError: a worker raised it. Of other errors, `work` should raise none.
    """
    if sys.platform != "linux":
        while work():
            pass
        return
    with until_signalled() as ended:
        while not ended.is_set():
            code, told = _one(work, ended)
            if code == _TOLD:
                is_stop = told.get("kind") == "Stopped"
                raise (Stopped if is_stop else ConfigError)(told.get("text", ""))
            if code == _END:
                return
            if code != _AGAIN:
                _log.error(
                    "the process of a cycle ended with status %d, so the cycle goes on in another "
                    "one in %d s", code, _PAUSE_SECS
                )  # fmt: skip
                if wait(ended, _PAUSE_SECS):
                    return


def _one(work: Callable[[], bool], ended: Signalled) -> tuple[int, dict[str, str]]:
    """One worker: its exit status, and the error that it told."""
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
        _work(work, writing, watcher)
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
            told = pipe.read()
        _, status = os.waitpid(child, 0)
    finally:
        for each, handler in zip((signal.SIGTERM, signal.SIGINT), before):
            signal.signal(each, handler)
    return os.waitstatus_to_exitcode(status), json.loads(told) if told else {}


def _work(work: Callable[[], bool], writing: int, watcher: int) -> NoReturn:
    """What a worker does from its first to its last moment."""
    code = exit_codes.BUG
    try:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        os.setpgid(0, 0)  # The terminal sends Ctrl-C to the watcher, which passes it on.
        launcher.in_child(0)()
        if os.getppid() != watcher:  # It ended before the kernel could watch it.
            os._exit(code)
        code = _AGAIN if work() else _END
    except (Stopped, ConfigError) as error:
        kind = "Stopped" if isinstance(error, Stopped) else "ConfigError"
        os.write(writing, json.dumps({"kind": kind, "text": str(error)}).encode())
        code = _TOLD
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
