"""What is replaced in tensorflow-estimator: its TPU part, and `pandas_input_fn`.

TensorFlow 2.16 removed the TPU embedding and session modules that `TPUEstimator` needs, but
`import tensorflow_estimator` still imports it. So before anything imports them, two modules of
tensorflow-estimator are replaced by stand-ins. Their classes can be imported and subclassed, but
making an object raises a clear error. `tf.compat.v1.estimator.tpu.RunConfig`, `TPUConfig` and
`InputPipelineConfig` are the real classes, because they only hold settings.

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
from types import ModuleType
from typing import Any

from estimator_kit.errors import UnsupportedTensorFlowError

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


_TPU = "tensorflow_estimator.python.estimator.tpu"

# Stand-in module -> the classes that tensorflow-estimator's API takes from it.
_STAND_INS: dict[str, tuple[str, ...]] = {
    f"{_TPU}.tpu_estimator": ("TPUEstimator", "TPUEstimatorSpec"),
    f"{_TPU}._tpu_estimator_embedding": ("EmbeddingConfigSpec",),
}


def install_tpu_stand_ins(undo: contextlib.ExitStack, *, tensorflow_version: str) -> None:
    """Installs the stand-in modules; `undo` removes them."""
    for name, classes in _STAND_INS.items():
        if name in sys.modules:
            continue
        module = ModuleType(name, f"Stand-in for {name}, not supported after TensorFlow 2.15.")
        for class_name in classes:
            setattr(module, class_name, _given_up(class_name, name, tensorflow_version))
        sys.modules[name] = module
        undo.callback(sys.modules.pop, name, None)


def _given_up(name: str, module: str, tensorflow_version: str) -> type:
    message = (
        f"{name} is not available on TensorFlow {tensorflow_version}: TensorFlow removed the TPU "
        "code that it needs after 2.15. Use tf.estimator.Estimator on CPUs and GPUs, or stay on "
        "TensorFlow 2.15 for TPUs."
    )

    def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedTensorFlowError(message)

    return type(name, (), {"__new__": refuse, "__doc__": message, "__module__": module})
