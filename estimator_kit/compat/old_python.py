"""Names of Python and NumPy that programs for TensorFlow 1 use, and that have been removed.

Python 3.10 removed `collections.Iterable` and the other abstract classes there, Python 3.11
`inspect.getargspec`, Python 3.8 `time.clock`. NumPy 1.24 removed `numpy.int`, `numpy.float` and the
like, and NumPy 2 `numpy.float_`, `numpy.unicode_` and more.

It only adds names that do not exist. Code for Python 2 (`print x`, `xrange`) stays an error.
"""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import inspect
import time
import warnings
from typing import Any, NamedTuple

import numpy as np

_NUMPY: dict[str, Any] = {
    "bool": bool, "complex": complex, "float": float, "int": int, "long": int, "object": object,
    "str": str, "unicode": str,
    "bool8": np.bool_, "Inf": np.inf, "Infinity": np.inf, "NINF": -np.inf, "NaN": np.nan,
    "PINF": np.inf, "infty": np.inf,
    "float_": np.float64, "complex_": np.complex128, "string_": np.bytes_, "unicode_": np.str_,
    "asscalar": lambda array: array.item(), "product": np.prod, "cumproduct": np.cumprod,
    "alltrue": np.all, "sometrue": np.any, "in1d": np.isin, "mat": np.asmatrix,
    "round_": np.round, "row_stack": np.vstack, "trapz": getattr(np, "trapezoid", None),
    "asfarray": lambda array, dtype=np.float64: np.asarray(array, dtype),
}  # fmt: skip


class ArgSpec(NamedTuple):
    """What `inspect.getargspec` returned."""

    args: list[str]
    varargs: Any
    keywords: Any
    defaults: Any


def _getargspec(function: Any) -> ArgSpec:
    return ArgSpec(*inspect.getfullargspec(function)[:4])


def install(undo: contextlib.ExitStack) -> None:
    """Adds the names that are missing; `undo` removes them."""
    names: list[tuple[Any, str, Any]] = [
        (collections, name, getattr(collections.abc, name)) for name in collections.abc.__all__
    ]
    names += [(inspect, "getargspec", _getargspec), (time, "clock", time.perf_counter)]
    names += [(np, name, value) for name, value in _NUMPY.items()]
    for module, name, value in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of names that it is about to remove.
            missing = not hasattr(module, name)
        if missing:
            setattr(module, name, value)
            undo.callback(delattr, module, name)
