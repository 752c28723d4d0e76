"""How a program ends: its exit status, and the signals that end a server.

The documentation shows the table of statuses. They follow sysexits.h if it has a status for the
case. This module imports no TensorFlow: it knows the temporary errors of TensorFlow by their names.
"""

from __future__ import annotations

import errno
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional

from absl import flags

from estimator_kit.errors import (
    ConfigError,
    ExportError,
    Locked,
    LossError,
    NothingToDo,
    Refused,
    RollBack,
    Stopped,
    TimedOut,
    UnsupportedTensorFlowError,
)
from feature_specs.errors import SpecError
from feature_specs.files.stores import StoreError
from input_pipelines.errors import DataError, MissingPackageError

DONE = 0
BAD_CONFIG = 2
BAD_DATA = 65
BUG = 70
EXPORT_REFUSED = 73
TEMPORARY = 75
ROLL_BACK = 76
REFUSED = 77
NOTHING_TO_DO = 99
INTERRUPTED = 130
STOPPED = 143

MEANING = {
    DONE: "done",
    BAD_CONFIG: "bad flags, flagfile, spec, model or packages, or, in --mode=validate, data that "
    "do not fit the spec or drifted too far; nothing was written, except by a model whose code "
    "fails in a session",
    BAD_DATA: "bad data: a file or record cannot be used (or more than the limits allow), or the "
    "loss became NaN or infinite",
    BUG: "a bug, in the kit or in a model; the traceback says where",
    EXPORT_REFUSED: "an export was refused: it does not load, its vocabulary was changed, or it "
    "answers otherwise than the input pipeline and the model; a new one gets no version's name",
    TEMPORARY: "temporary (unavailable, aborted, out of memory or disk, another start at work in "
    "the same folder, or, in --mode=retrain, a stage over its time); try again",
    ROLL_BACK: "roll back: in --mode=monitor, the live version breaks a condition that says so. It "
    "stays live, without --rollback or because no earlier version may replace it",
    REFUSED: "refused: the candidate of --mode=retrain did not pass the gate; the live model stays",
    NOTHING_TO_DO: "nothing to do: already trained, converted or predicted to the end, or "
    "retrained on the same data; nothing was touched",
    INTERRUPTED: "interrupted by Ctrl-C; the same command goes on from the last checkpoint or "
    "shard",
    STOPPED: "stopped by SIGTERM, or by a hook of the model, after a checkpoint was saved",
}

_TEMPORARY_TF_ERRORS = {
    "AbortedError",
    "CancelledError",
    "DeadlineExceededError",
    "ResourceExhaustedError",
    "UnavailableError",
}
_TEMPORARY_OS_ERRORS = {
    errno.EADDRINUSE,
    errno.EAGAIN,
    errno.EBUSY,
    errno.EDQUOT,
    errno.EIO,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOSPC,
    errno.ESTALE,
    errno.ETIMEDOUT,
}

# Errors of a path that a flag names.
_OS_ERRORS_OF_PATHS = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}


def exit_code(error: BaseException) -> int:
    """The exit status for an error that ended a run."""
    packages = (MissingPackageError, UnsupportedTensorFlowError)
    if isinstance(error, (ConfigError, SpecError, flags.Error, *packages)):
        return BAD_CONFIG
    if isinstance(error, (DataError, LossError)):
        return BAD_DATA
    if isinstance(error, ExportError):
        return EXPORT_REFUSED
    if isinstance(error, Refused):
        return REFUSED
    if isinstance(error, RollBack):
        return ROLL_BACK
    if isinstance(error, (Locked, TimedOut)):
        return TEMPORARY
    if isinstance(error, NothingToDo):
        return NOTHING_TO_DO
    if isinstance(error, Stopped):
        return STOPPED
    if type(error).__name__ in _TEMPORARY_TF_ERRORS or isinstance(error, MemoryError):
        return TEMPORARY
    if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
        return TEMPORARY
    if isinstance(error, OSError) and error.errno in _TEMPORARY_OS_ERRORS:
        return TEMPORARY
    if isinstance(error, StoreError):
        return BAD_CONFIG
    if type(error).__name__ == "PermissionDeniedError":  # TensorFlow's.
        return BAD_CONFIG
    if isinstance(error, OSError) and error.errno in _OS_ERRORS_OF_PATHS:
        return BAD_CONFIG
    return BUG


def styled(code: int, style: str) -> int:
    """The exit status in a style.

    Args:
      code: a status in `MEANING`.
      style: `kit` changes nothing. `kubernetes` makes "nothing to do" a success, because a Job
        would try again otherwise. A `podFailurePolicy` of the Job can use all other statuses.
    """
    return DONE if style == "kubernetes" and code == NOTHING_TO_DO else code


class Signalled(threading.Event):
    """An event that a signal sets.

    Attributes:
      number: the number of the last signal; None before the first one.
    """

    number: Optional[int] = None


@contextmanager
def until_signalled() -> Iterator[Signalled]:
    """An event that SIGTERM and Ctrl-C set; outside the main thread, nothing sets it."""
    ended = Signalled()
    if threading.current_thread() is not threading.main_thread():
        yield ended
        return

    def handler(number: int, frame: Optional[Any]) -> None:
        ended.number = number
        ended.set()

    before = {s: signal.signal(s, handler) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield ended
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
