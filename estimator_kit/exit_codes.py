"""Exit statuses of run.py, after sysexits.h where it has one; the README's table is this one.

Imports no TensorFlow: which TensorFlow errors are temporary is told by their names.
"""

from __future__ import annotations

import errno

from absl import flags

from estimator_kit.errors import (
    ConfigError,
    LossError,
    NothingToDo,
    Stopped,
    UnsupportedTensorFlowError,
)
from feature_specs.errors import SpecError
from input_pipelines.errors import DataError, MissingPackageError

DONE = 0
BAD_CONFIG = 2
BAD_DATA = 65
BUG = 70
TEMPORARY = 75
NOTHING_TO_DO = 99
INTERRUPTED = 130
STOPPED = 143

MEANING = {
    DONE: "done",
    BAD_CONFIG: "bad flags, flagfile, spec, model or packages, or, in --mode=validate, data that "
    "do not fit the spec or drifted too far; nothing was written",
    BAD_DATA: "bad data: a file or record cannot be used (or more than the limits allow), or the "
    "loss became NaN or infinite",
    BUG: "a bug, in the kit or in a model; the traceback says where",
    TEMPORARY: "temporary (unavailable, aborted, out of memory or disk); try again",
    NOTHING_TO_DO: "nothing to do: already trained, or converted, to the end; nothing was "
    "touched",
    INTERRUPTED: "interrupted by Ctrl-C; the same command goes on from the last checkpoint or "
    "shard",
    STOPPED: "stopped by SIGTERM, after a checkpoint was saved",
}

_TEMPORARY_TF_ERRORS = {
    "AbortedError", "CancelledError", "DeadlineExceededError", "ResourceExhaustedError",
    "UnavailableError",
}  # fmt: skip
_TEMPORARY_OS_ERRORS = {
    errno.EAGAIN, errno.EBUSY, errno.EDQUOT, errno.EIO, errno.ENFILE, errno.ENOMEM, errno.ENOSPC,
    errno.ESTALE, errno.ETIMEDOUT,
}  # fmt: skip


def exit_code(error: BaseException) -> int:
    """The exit status for an error that ended a run."""
    packages = (MissingPackageError, UnsupportedTensorFlowError)
    if isinstance(error, (ConfigError, SpecError, flags.Error, *packages)):
        return BAD_CONFIG
    if isinstance(error, (DataError, LossError)):
        return BAD_DATA
    if isinstance(error, NothingToDo):
        return NOTHING_TO_DO
    if isinstance(error, Stopped):
        return STOPPED
    if type(error).__name__ in _TEMPORARY_TF_ERRORS or isinstance(error, MemoryError):
        return TEMPORARY
    if isinstance(error, OSError) and error.errno in _TEMPORARY_OS_ERRORS:
        return TEMPORARY
    return BUG
