"""Ends a training whose session was lost, where TensorFlow would make another one.

After an error that may pass (aborted, unavailable), TensorFlow makes a new session in the same
call, from the last checkpoint. But the input would start again at the row at which the process
began, so rows would be read twice and others never. A new start reads on at the right row.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_kit.errors import SessionLost


class OneSession(tf.compat.v1.train.SessionRunHook):
    """Raises SessionLost instead of making a second session, once a step has begun."""

    def __init__(self) -> None:
        self._began = False

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._began:
            raise SessionLost(
                "TensorFlow lost the session after an error that may pass, for example of a store "
                "that did not answer"
            )

    def before_run(self, run_context: Any) -> None:
        self._began = True
