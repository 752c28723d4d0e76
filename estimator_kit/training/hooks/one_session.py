"""Ends a training whose session was lost, where TensorFlow would make another one.

After an error that may pass (aborted, unavailable), TensorFlow makes a new session in the same
call, from the last checkpoint. But the input would start again at the row at which the process
began, so rows would be read twice and others never. A new start reads on at the right row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf


class SessionLost(Exception):
    """A session was lost, and another one was about to begin."""


class OneSession(tf.compat.v1.train.SessionRunHook):
    """Raises SessionLost instead of making a second session, once a step has begun."""

    def __init__(self) -> None:
        self._began = False

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._began:
            raise SessionLost("the session was lost")

    def before_run(self, run_context: Any) -> None:
        self._began = True


@contextlib.contextmanager
def lost_as_unavailable() -> Iterator[None]:
    """Replaces SessionLost by TensorFlow's error of that kind, whose exit status is temporary."""
    try:
        yield
    except SessionLost as error:
        raise tf.errors.UnavailableError(
            None,
            None,
            "TensorFlow lost the session after an error that may pass, for example of a store that "
            "did not answer. Start again to go on from the last checkpoint.",
        ) from error
