"""Puts a value into a variable of a graph that may be finished or exported."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf


def assign(session: tf.compat.v1.Session, variable: Any, value: np.ndarray) -> None:
    """What `Variable.load` does: feeds the initializer, so that no constant is in the graph."""
    session.run(variable.initializer, {variable.initializer.inputs[1]: value})
