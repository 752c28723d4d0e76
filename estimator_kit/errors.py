"""Errors that a user of the kit can act on; `exit_codes` gives each one its exit status.

Errors in a feature spec are `feature_specs.SpecError`; errors in data are
`input_pipelines.errors.DataError`. `tensorflow_reason` finds the line of a TensorFlow error that
says what is wrong. This module imports no TensorFlow.
"""

from __future__ import annotations

import itertools
import re

from feature_specs.files.errors import ConfigError, Locked

__all__ = [
    "CheckpointError",
    "ConfigError",
    "ExportError",
    "Locked",
    "LossError",
    "NothingToDo",
    "Refused",
    "SessionLost",
    "Stopped",
    "TimedOut",
    "UnsupportedTensorFlowError",
]


class CheckpointError(ConfigError):
    """A checkpoint does not fit the model; the message lists the variables that differ."""


class ExportError(RuntimeError):
    """An export does not load, was changed, or its predictions differ from the model's."""


class LossError(ArithmeticError):
    """The loss or a gradient is NaN or infinite; the step was not applied."""


class UnsupportedTensorFlowError(RuntimeError):
    """The installed TensorFlow, or a package with it, cannot run tensorflow-estimator.

    This is not an `ImportError`, so `except ImportError:` around an optional import cannot hide it.
    """


class Refused(Exception):
    """A candidate did not pass the gate. The candidate is kept, and the live model stays live."""


class TimedOut(Exception):
    """A stage took longer than its limit; its progress is saved."""


class SessionLost(Exception):
    """A session of TensorFlow cannot go on; a new start goes on from the last checkpoint."""


class NothingToDo(Exception):
    """Training has already finished, or there is nothing new; nothing was changed."""


class Stopped(Exception):
    """SIGTERM or a hook of the model stopped the training, after a checkpoint was saved."""


# The most characters of a line in a log.
_MOST = 400


def tensorflow_reason(error: BaseException) -> str:
    """The reason in at most 400 characters; empty if the error has no message."""
    text = str(error).splitlines()
    lines = [line.strip() for line in text if line.strip()]
    # A wrapped error has several of these lines; the first reason follows the last one.
    nodes = [i for i, line in enumerate(lines[:-1]) if line.startswith("Node: '")]
    if not nodes:
        lines = [line.strip() for line in _without_trace(text) if line.strip()]
        # The error of an op in the body of a condition or a loop has no trace.
        if lines[:1] == ["Graph execution error:"] and lines[1:2] and "Detected" not in lines[1]:
            lines = lines[1:]
    chosen = lines[nodes[-1] + 1] if nodes else next(iter(lines), "")
    if nodes and re.fullmatch(r"\d+ root error\(s\) found\.", chosen):
        chosen = next(iter(lines[nodes[-1] + 2 :]), chosen)
    return re.sub(r"^(\{\{.*?\}\} )+|^\(0\) ", "", chosen)[:_MOST]


def _without_trace(lines: list[str]) -> list[str]:
    """The lines of an error of a function, without those that say where its ops were defined.

    Graph execution error:

    Detected at node save/RestoreV2 defined at (most recent call last):
      File "program.py", line 9, in <module>

    Read less bytes than requested
    """
    starts = [i for i, line in enumerate(lines) if line.startswith("Detected at node ")]
    if not starts:
        return lines
    rest = lines[starts[-1] + 1 :]
    trace = itertools.takewhile(lambda line: line[:2] in ("", "  ", "<s"), rest)
    return rest[len(list(trace)) :] or lines
