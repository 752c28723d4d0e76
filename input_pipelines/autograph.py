"""AutoGraph left out: the functions of an input are graph operations as they are written.

tf.data has AutoGraph read the source of every function that it is given, and of all that these
call, to find no Python `if` or `for` that it had to change. That took each start of a program some
seconds, and printed warnings on Python 3.13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

_F = TypeVar("_F", bound=Callable[..., Any])


def as_written(function: _F) -> _F:
    """The same function, inside which tf.data takes functions as they are."""
    same: _F = tf.autograph.experimental.do_not_convert(function)
    return same
