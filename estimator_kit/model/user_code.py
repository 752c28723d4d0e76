"""Explains errors in the methods that a user's model overrides.

    with user_code.explained(model, "logits"):
        logits = split_logits(model.logits(user_code.Named(features, "features"), mode))

Without this, a TypeError in `logits` ends the program with a traceback, as a bug of the kit does,
and a wrong result is reported without its place. The block contains the call and the checks of the
result. The new error has the user's file and line, the class and the method, and the old error as
its cause. What no user's code is part of stays as it is: an error in a model of the kit is a bug.
So does an error that already has an exit status, such as an object store that is away.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.config import user_errors
from estimator_kit.errors import ConfigError
from feature_specs.errors import nearest
from input_pipelines.transform.checks import bounded

# How many keys a message lists.
_SHOWN = 20


class MissingKey(KeyError):
    """A user's code asked an argument of a method for a key that it does not have."""

    def __init__(self, key: Any, argument: str, known: Iterable[Any]):
        super().__init__(key)
        keys = sorted(map(str, known))
        more = ", ..." if len(keys) > _SHOWN else ""
        self.text = (
            f"the key {key!r} does not exist{nearest(key, keys) or '.'} "
            f"`{argument}` has the keys {', '.join(keys[:_SHOWN])}{more}."
        )


class Named(dict[str, Any]):
    """An argument of a method that is a mapping. It is a dict whose missing keys are explained."""

    def __init__(self, values: Any = (), argument: str = "the argument"):
        super().__init__(values)
        self._argument = argument

    def __missing__(self, key: Any) -> Any:
        raise MissingKey(key, self._argument, self)


class WrongRows(ConfigError):
    """A result of a user's method has another number of rows than the batch."""


# The messages of checks in a graph begin with this; `session_errors` finds them.
CHECK = "estimator_kit model check: "


def name_of(model: object, method: str) -> str:
    """`file:line: class.method` for messages; without a place for a method of the kit."""
    place = user_errors.place_of_method(type(model), method)
    name = f"{type(model).__name__}.{method}"
    return name if place is None else f"{place}: {name}"


def check_graph(text: str, tensors: Iterable[tf.Tensor]) -> None:
    """Raises ConfigError if a tensor belongs to another graph than the one that is made now.

    Args:
      text: what the tensors are, such as `the loss`, for the message.
      tensors: the tensors.
    """
    for tensor in tensors:
        if getattr(tensor, "graph", None) is not tf.compat.v1.get_default_graph():
            raise ConfigError(
                f"{text} belongs to another graph, got {tensor!r}. Make it in each call, and keep "
                "no tensor in self."
            )


def equal_shapes(text: str, shape: Any, expected: Any) -> Any:
    """An op that ends a session with a message about a user's code if two shapes differ.

    Args:
      text: the message, which the shapes complete.
      shape, expected: int32 tensors.
    """
    equal = tf.reduce_all(tf.equal(shape, expected))
    return tf.debugging.Assert(equal, [f"{CHECK}{text}", shape, "instead of", expected])


def checked_weights(text: str, weights: tf.Tensor) -> tf.Tensor:
    """The weights, with a check in the graph that they are finite and 0 or more."""
    return bounded(f"{CHECK}{text}", weights, (0, None))


def check_text(error: BaseException) -> Optional[str]:
    """The message of a failed check of `CHECK` without what TensorFlow adds, or None."""
    line = next((line for line in str(error).splitlines() if CHECK in line), "")
    text = line.partition(CHECK)[2].replace("\\'", "'")
    return re.sub(r"\] \[|\]$", " ", text).strip() or None


@contextlib.contextmanager
def explained(model: object, method: str) -> Iterator[None]:
    """Gives errors in a block that calls a method, and checks its result, the place of the method.

    Args:
      model: the model, or its class, whose method runs.
      method: the name of the method.

    Raises:
      ConfigError: the method failed, or its result was refused.
    """
    try:
        yield
    except Exception as error:
        kind = model if isinstance(model, type) else type(model)
        placed_error = _explained(error, kind, method)
        if placed_error is None:
            raise
        raise placed_error from error


def _explained(error: Exception, kind: type, method: str) -> Optional[Exception]:
    """The error with its place; None if it stays as it is."""
    own = isinstance(error, ConfigError)
    if not own and user_errors.has_status(error):
        return None
    head = f"{kind.__name__}.{method}"
    if isinstance(error, MissingKey):
        text = error.text
    else:
        text = str(error) if own else user_errors.text_of(error)
    if re.match(r".+:\d+: \w+\.\w+", text):
        return None  # An inner block, or `place_of_call`, has given it a place.
    places = user_errors.places_of(error)
    place = places[-1] if places else user_errors.place_of_method(kind, method)
    if place is None:
        return None
    if not own and len(places) > 1:
        text += f" It was called at {', '.join(reversed(places[:-1]))}."
    text = text if re.match(rf"{re.escape(head)}\b", text) else f"{head}: {text}"
    error_type = type(error) if own else ConfigError
    # Its `__init__` may take other arguments.
    return error_type.__new__(error_type, f"{place}: {text}")


def check_methods(kind: type, base: type) -> None:
    """Raises ConfigError for what a user's class has in the place of a method of the kit.

    Args:
      kind: the class of a model.
      base: `ModelFn`.
    """
    for name, method in vars(base).items():
        owner = next(each for each in kind.__mro__ if name in vars(each))
        if not inspect.isfunction(method) or user_errors.is_of_kit(owner.__module__):
            continue
        place = f"{user_errors.place_of_class(owner)}{owner.__name__}.{name}"
        if not callable(getattr(kind, name)):
            raise ConfigError(
                f"{place}: expected a method, got {vars(owner)[name]!r}. Write `def {name}(self, "
                "...)`, as in ek.ModelFn."
            )
        if name == "__call__" or re.match("_[^_]", name):
            raise ConfigError(
                f"{place}: this method of ek.ModelFn connects the other methods, and must not be "
                "overridden. Override `logits` or another one of them, or use another name."
            )


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
    if user_errors.is_of_kit(_module(frame)):
        return called
    return f"{frame.f_code.co_filename}:{frame.f_lineno}: {called}"


def _module(frame: types.FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
