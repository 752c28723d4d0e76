"""Turns AutoGraph off for the functions of an input pipeline, which use only graph operations.

tf.data lets AutoGraph read the source of every function that it gets, and of every function that
these call. The kit's functions have no Python `if` or `for` that AutoGraph must convert. AutoGraph
only delayed each start by some seconds, and caused warnings on Python 3.13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

_F = TypeVar("_F", bound=Callable[..., Any])


def as_written(function: _F) -> _F:
    """The same function. tf.data functions that it defines are not converted by AutoGraph."""
    same: _F = tf.autograph.experimental.do_not_convert(function)
    return same
