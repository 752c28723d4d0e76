"""Assigns a value to a variable of a graph that may be finalized or exported."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf


def assign(session: tf.compat.v1.Session, variable: Any, value: np.ndarray) -> None:
    """Feeds the initializer, as `Variable.load` does, so that the graph gets no constant."""
    session.run(variable.initializer, {variable.initializer.inputs[1]: value})
