"""What is wrapped in tensorflow-estimator: `pandas_input_fn`.

Since pandas 3 a string column has the type `str` instead of `object`, and TensorFlow has no such
type: `pandas_input_fn` failed with "Cannot convert the argument `type_value`". It is wrapped, and
gets string columns and a string index as `object`. A string column with missing values is an error,
because TensorFlow has no missing string. A frame without string columns is not changed.

This module replaces nothing in TensorFlow, and does not import pandas.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from typing import Any

_NAME = "pandas_input_fn"
_PACKAGE = "tensorflow_estimator"

# The names of pandas.StringDtype with its different backends.
_STRINGS = ("str", "string")


def install_pandas_strings(undo: contextlib.ExitStack) -> None:
    """Wraps the function wherever tensorflow-estimator has it; `undo` restores it."""
    module = importlib.import_module(f"{_PACKAGE}.python.estimator.inputs.pandas_io")
    original = getattr(module, _NAME)

    @functools.wraps(original)
    def pandas_input_fn(x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        return original(_plain(x, "x"), _plain(y, "y"), *args, **kwargs)

    for name, holder in list(sys.modules.items()):
        if name.split(".")[0] == _PACKAGE and vars(holder).get(_NAME) is original:
            setattr(holder, _NAME, pandas_input_fn)
            undo.callback(setattr, holder, _NAME, original)


def _plain(data: Any, argument: str) -> Any:
    """A DataFrame or Series with strings as `object`. Returns any other data unchanged."""
    if not hasattr(data, "index") or not hasattr(data, "astype"):
        return data
    if hasattr(data, "columns"):
        words = [name for name, dtype in data.dtypes.items() if _is_string(dtype)]
        for name in words:
            _check_present(data[name], f"column {name!r} of {argument}")
        data = data.astype(dict.fromkeys(words, object)) if words else data
    elif _is_string(data.dtype):
        _check_present(data, argument)
        data = data.astype(object)
    if _is_string(data.index.dtype):
        data = data.set_axis(data.index.astype(object), axis=0)
    return data


def _is_string(dtype: Any) -> bool:
    return getattr(dtype, "name", None) in _STRINGS


def _check_present(series: Any, where: str) -> None:
    missing = int(series.isna().sum())
    if missing:
        raise ValueError(
            f"{_NAME}: {where}: expected strings, got {missing} missing values of {len(series)}. "
            "Fill them, for example with fillna('')."
        )
