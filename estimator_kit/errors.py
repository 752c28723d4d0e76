"""Errors that a user of the kit can act on; `exit_codes` gives each one its exit status.

Errors in a feature spec are `feature_specs.SpecError`; errors in data are
`input_pipelines.errors.DataError`.
"""

from __future__ import annotations

from feature_specs.errors import ConfigError, Locked

__all__ = [
    "CheckpointError",
    "ConfigError",
    "ExportError",
    "Locked",
    "LossError",
    "NothingToDo",
    "Refused",
    "RollBack",
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


class RollBack(Exception):
    """The live version breaks a condition of the spec that says `roll_back`; it stays live."""


class TimedOut(Exception):
    """A stage took longer than its limit; its progress is saved."""


class SessionLost(Exception):
    """A session of TensorFlow cannot go on; a new start goes on from the last checkpoint."""


class NothingToDo(Exception):
    """Training has already finished, or there is nothing new; nothing was changed."""


class Stopped(Exception):
    """SIGTERM or a hook of the model stopped the training, after a checkpoint was saved."""
