"""What is wrapped in tensorflow-estimator: `pandas_input_fn` and `model_to_estimator`.

Since pandas 3 a string column has the type `str` instead of `object`, and TensorFlow has no such
type: `pandas_input_fn` failed with "Cannot convert the argument `type_value`". It is wrapped, and
gets string columns and a string index as `object`. A string column with missing values is an error,
because TensorFlow has no missing string. A frame without string columns is not changed.

`import keras` is Keras 3 since TensorFlow 2.16. `model_to_estimator` failed on its models with
"'Sequential' object has no attribute '_is_graph_network'"; now the error names Keras 3.

This module replaces nothing in TensorFlow, and does not import pandas or Keras.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

_NAME = "pandas_input_fn"
_PACKAGE = "tensorflow_estimator"

# The names of pandas.StringDtype with its different backends.
_STRINGS = ("str", "string")


def install_pandas_strings(undo: contextlib.ExitStack) -> None:
    """Wraps the function wherever tensorflow-estimator has it; `undo` restores it."""

    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        def pandas_input_fn(x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
            return original(_plain(x, "x"), _plain(y, "y"), *args, **kwargs)

        return pandas_input_fn

    _wrap("inputs.pandas_io", _NAME, wrapper, undo)


def install_keras_check(undo: contextlib.ExitStack) -> None:
    """Wraps `model_to_estimator` wherever tensorflow-estimator has it; `undo` restores it."""

    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        def model_to_estimator(keras_model: Any = None, *args: Any, **kwargs: Any) -> Any:
            for base in type(keras_model).__mro__:
                if base.__module__.startswith("keras.src."):
                    raise TypeError(
                        "model_to_estimator: keras_model: expected a model of tf.keras, which is "
                        f"Keras 2, got {type(keras_model).__name__} of Keras 3. `import keras` is "
                        "Keras 3. Write `from tensorflow import keras` or `import tf_keras as "
                        "keras`."
                    )
            return original(keras_model, *args, **kwargs)

        return model_to_estimator

    _wrap("keras_lib", "model_to_estimator", wrapper, undo)


def _wrap(
    module: str,
    name: str,
    wrapper: Callable[[Callable[..., Any]], Callable[..., Any]],
    undo: contextlib.ExitStack,
) -> None:
    original = getattr(importlib.import_module(f"{_PACKAGE}.python.estimator.{module}"), name)
    wrapped = functools.wraps(original)(wrapper(original))
    for path, holder in list(sys.modules.items()):
        if path.split(".")[0] == _PACKAGE and vars(holder).get(name) is original:
            setattr(holder, name, wrapped)
            undo.callback(setattr, holder, name, original)


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
