"""Lets `tf.compat.v1.estimator.inputs.pandas_input_fn` read the string columns of pandas 3.

Since pandas 3 a column of words has the type `str` in the place of `object`, of which TensorFlow
has no type: the function ended with "Cannot convert the argument `type_value`". It is wrapped, and
is given such columns, and an index of words, as `object`. A column of words with missing values is
refused, as TensorFlow has no missing string.

Does not import pandas, and leaves a frame without such columns as it is.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from typing import Any

_NAME = "pandas_input_fn"
_PACKAGE = "tensorflow_estimator"

# The names of pandas.StringDtype, by which backend it may be.
_STRINGS = ("str", "string")


def install(undo: contextlib.ExitStack) -> None:
    """Wraps the function wherever tensorflow-estimator has it; `undo` puts it back."""
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
    """A DataFrame or Series with words as `object`; what is neither is left for the function."""
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
            f"{_NAME}: {where}: {missing} of {len(series)} values are missing, expected words; "
            "give them one, as by fillna('')"
        )
