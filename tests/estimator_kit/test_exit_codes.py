"""exit_codes: the status of every kind of error. Schedulers decide by them: they never change."""

from __future__ import annotations

import errno

import pytest
from absl import flags

from estimator_kit import exit_codes
from estimator_kit.errors import (
    CheckpointError,
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
from feature_specs import Problem, SpecError
from input_pipelines.errors import DataError, MissingPackageError

pytestmark = pytest.mark.no_tensorflow


def tensorflow_error(name):
    """An error as tf.errors has it, which is known by its name alone."""
    return type(name, (Exception,), {})("message")


@pytest.mark.parametrize(
    "error, code",
    [
        (ConfigError("x"), 2),
        (CheckpointError("x"), 2),
        (SpecError("x.yaml", [Problem((), "x")]), 2),
        (flags.UnrecognizedFlagError("x"), 2),
        (flags.IllegalFlagValueError("x"), 2),
        (DataError("x"), 65),
        (LossError("x"), 65),
        (ExportError("x"), 73),
        (UnsupportedTensorFlowError("x"), 2),
        (MissingPackageError("x"), 2),
        (NothingToDo("x"), 99),
        (Locked("x"), 75),
        (TimedOut("x"), 75),
        (Refused("x"), 77),
        (RollBack("x"), 76),
        (Stopped("x"), 143),
        (MemoryError(), 75),
        (OSError(errno.ENOSPC, "x"), 75),
        (OSError(errno.ETIMEDOUT, "x"), 75),
        (OSError(errno.EIO, "x"), 75),
        (BlockingIOError(errno.EAGAIN, "x"), 75),
        (OSError(errno.EACCES, "x"), 2),
        (OSError(errno.EROFS, "x"), 2),
        (OSError(errno.ENOTDIR, "x"), 2),
        (tensorflow_error("PermissionDeniedError"), 2),
        (tensorflow_error("UnavailableError"), 75),
        (tensorflow_error("AbortedError"), 75),
        (tensorflow_error("CancelledError"), 75),
        (tensorflow_error("DeadlineExceededError"), 75),
        (tensorflow_error("ResourceExhaustedError"), 75),
        (tensorflow_error("InvalidArgumentError"), 70),
        (tensorflow_error("NotFoundError"), 70),
        (OSError("without a number"), 70),
        (FileNotFoundError(errno.ENOENT, "x"), 70),
        (ValueError("x"), 70),
        (ArithmeticError("x"), 70),
        (AssertionError("x"), 70),
        (KeyError("x"), 70),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_the_status_of_every_kind_of_error(error, code):
    assert exit_codes.exit_code(error) == code


def test_every_status_has_its_meaning():
    constants = {
        value for name, value in vars(exit_codes).items() if name.isupper() and name[0] != "_"
        if isinstance(value, int)
    }  # fmt: skip
    assert constants == {0, 2, 65, 70, 73, 75, 76, 77, 99, 130, 143} == set(exit_codes.MEANING)
    assert all(exit_codes.MEANING.values())


def test_no_status_is_one_that_shells_and_python_give_by_themselves():
    # 1: an uncaught exception; 126 and 127: no command; 130: an interrupt; 137: killed.
    assert not {1, 126, 127, 137} & set(exit_codes.MEANING)
