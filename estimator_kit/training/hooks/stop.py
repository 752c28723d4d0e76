"""Ends training cleanly: after the current step, with a saved checkpoint.

A signal handler or early stopping sets a `StopRequest`. `StopHook` checks it after each training
step, and `InterruptHook` before each evaluation step.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.errors import Stopped

SIGTERM = "sigterm"
HOOK = "stopped_by_hook"
EARLY_STOPPED = "early_stopped"


class StopRequest:
    """Whether and why training should end.

    Attributes:
      reason: why, or None if it should go on.
      of_a_hook: whether a hook has ended the training, not the input. At the last step, this is a
        hook of the Estimator.
    """

    def __init__(self) -> None:
        self.reason: Optional[str] = None
        self.of_a_hook = False

    def ask(self, reason: str) -> None:
        self.reason = reason


class StopHook(tf.compat.v1.train.SessionRunHook):
    """Ends the training loop after a stop request. The saver hook then writes a checkpoint."""

    def __init__(self, request: StopRequest):
        self._request = request

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._request.reason is not None:
            run_context.request_stop()

    def end(self, session: Any) -> None:
        # TensorFlow calls `end` while it handles the error of the end of the input.
        self._request.of_a_hook = not isinstance(sys.exc_info()[1], tf.errors.OutOfRangeError)


class InterruptHook(tf.compat.v1.train.SessionRunHook):
    """Stops an evaluation on SIGTERM.

    Evaluations run after a checkpoint was saved, so no training is lost. Metrics over a part of the
    rows would be wrong, so they are dropped.

    Raises:
      Stopped: before the next step after SIGTERM.
    """

    def __init__(self, request: StopRequest):
        self._request = request

    def begin(self) -> None:
        self._check()

    def before_run(self, run_context: Any) -> None:
        self._check()

    def _check(self) -> None:
        if self._request.reason == SIGTERM:
            raise Stopped("stopped by SIGTERM; the checkpoint is saved")


@contextmanager
def stop_on_sigterm(request: StopRequest) -> Iterator[None]:
    """Turns SIGTERM into a stop request while the block runs.

    A second SIGTERM ends the process at once. Outside the main thread this does nothing, because
    Python allows signal handlers only there. A thread sets the request as well: Python runs a
    handler only when the main thread returns to Python, which may take as long as a call of
    TensorFlow.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, frame: Any) -> None:
        request.ask(SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def listen(received: int) -> None:
        with open(received, "rb", buffering=0) as numbers:
            while found := numbers.read(64):
                if signal.SIGTERM in found:
                    request.ask(SIGTERM)

    received, sent = os.pipe()
    os.set_blocking(sent, False)
    threading.Thread(target=listen, args=(received,), daemon=True).start()
    previous = signal.signal(signal.SIGTERM, handler)
    previous_sent = signal.set_wakeup_fd(sent, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous_sent)
        signal.signal(signal.SIGTERM, previous)
        os.close(sent)
