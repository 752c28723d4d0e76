"""Explains a wrong key in the methods that a user's model overrides, and names places in it.

    with user_code.explained(model, "logits", features=features):
        logits = model.logits(features, mode)

Without this, `features["prce"]` ends the program with a traceback, as a bug would. A KeyError that
the kit or TensorFlow raises stays as it is: it is not a mistake in the user's code.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, Optional

from estimator_kit.errors import ConfigError
from feature_specs.errors import nearest

_NOT_OF_USERS = (
    "estimator_kit", "feature_specs", "input_pipelines", "tensorflow", "tensorflow_estimator",
    "keras", "tf_keras", "numpy",
)  # fmt: skip
_SHOWN = 20
_STANDARD_LIBRARY = os.path.join(os.path.dirname(contextlib.__file__), "")


@contextlib.contextmanager
def explained(model: object, method: str, **arguments: Iterable[str]) -> Iterator[None]:
    """Turns a KeyError of the user's code into an error that names class, place and known keys.

    Args:
      model: the model whose method runs.
      method: the name of the method.
      **arguments: the keys of each argument that is a mapping.

    Raises:
      ConfigError: the method asked for a key that does not exist.
    """
    try:
        yield
    except KeyError as error:
        place = _place(error)
        if place is None or not error.args:
            raise
        key = error.args[0]
        known = [name for keys in arguments.values() for name in sorted(keys)]
        raise ConfigError(
            f"{place}: {type(model).__name__}.{method}: the key {key!r} does not exist"
            f"{nearest(key, known) or '.'} {' '.join(map(_listed, arguments, arguments.values()))}"
        ) from error


def check_new_name(place: str, noun: str, name: Any, taken: Iterable[str]) -> None:
    """Raises ConfigError if a name that a user's code gives is empty, not a text, or taken.

    Args:
      place: the result of `place_of_call`.
      noun: what gets the name, for the message.
      name: the name.
      taken: the names that the model has given already.
    """
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{place}: expected a name, got {name!r}. Use a text.")
    if name in taken:
        raise ConfigError(f"{place}: got the {noun} {name!r} twice. Use another name.")


def place_of_call(called: str) -> str:
    """`file:line: <called>` for a method of ModelFn that a user's code calls now.

    `<called>` without a place if a model of the kit calls it.
    """
    frame = sys._getframe(1)
    while _module(frame).startswith("estimator_kit.model.") and frame.f_back is not None:
        frame = frame.f_back
    if _module(frame).partition(".")[0] in _NOT_OF_USERS:
        return called
    return f"{frame.f_code.co_filename}:{frame.f_lineno}: {called}"


def _module(frame: types.FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _listed(argument: str, keys: Iterable[str]) -> str:
    """A sentence with the first keys of an argument."""
    known = sorted(keys)
    more = ", ..." if len(known) > _SHOWN else ""
    return f"`{argument}` has the keys {', '.join(known[:_SHOWN])}{more}."


def place_of(error: BaseException) -> Optional[str]:
    """`file:line` of the last line of a user's code that an error came through, or None."""
    place, trace = None, error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if _is_of_users(code.co_filename):
            place = f"{code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def place_of_op(op: Any) -> Optional[str]:
    """`file:line` of a user's code that made an op of a graph; None if the kit made it."""
    for frame in reversed(list(op.traceback or ())):
        if _is_of_users(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
        if _package_of(frame.filename) in _NOT_OF_USERS[:3]:
            return None
    return None


def _is_of_users(filename: str) -> bool:
    return not filename.startswith(("<", _STANDARD_LIBRARY)) and _package_of(filename) is None


def _package_of(filename: str) -> Optional[str]:
    """The package of the list above that a file belongs to, or None."""
    for name in _NOT_OF_USERS:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and filename.startswith(os.path.join(os.path.dirname(file), "")):
            return name
    return None


def _place(error: KeyError) -> Optional[str]:
    """`file:line` in the user's code that raised an error; None if other code raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return None
    if _module(trace.tb_frame).partition(".")[0] in _NOT_OF_USERS:
        return None
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
