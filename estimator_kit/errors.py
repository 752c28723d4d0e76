"""Errors that a user of the kit can act on; `exit_codes` gives each its exit status.

A feature spec's own errors are `feature_specs.SpecError`, those of data
`input_pipelines.errors.DataError`.
"""

from __future__ import annotations


class ConfigError(ValueError):
    """A flag, flagfile, parameter, model or kept file that cannot be used."""


class CheckpointError(ConfigError):
    """A checkpoint that does not fit the model; the message lists the variables that differ."""


class ExportError(RuntimeError):
    """An export that does not load, or answers otherwise than the model; it has no final name."""


class LossError(ArithmeticError):
    """The loss or a gradient became NaN or infinite; the step was not applied."""


class UnsupportedTensorFlowError(RuntimeError):
    """The installed TensorFlow, or what stands beside it, cannot run tensorflow-estimator.

    No `ImportError`, so that no `except ImportError:` around an optional import hides it.
    """


class Refused(Exception):
    """A candidate did not pass the gate; it is kept, and the live model stays."""


class Locked(Exception):
    """Another process is at work in the same folder."""


class TimedOut(Exception):
    """A stage took longer than its limit; what it has reached is saved."""


class NothingToDo(Exception):
    """Training had already reached its end, or there is nothing new; nothing was touched."""


class Stopped(Exception):
    """Stopped by SIGTERM, after a checkpoint was saved."""
