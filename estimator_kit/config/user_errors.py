"""Says what went wrong in a user's code, and where. Imports no TensorFlow.

    text_of(error)                    # TypeError: can only concatenate str (not "int") to str.
    place_of(error)                   # mine.py:12, the last line of a user that it came through
    place_of_method(Mine, "logits")   # mine.py:9, where the method is defined

A user's code is all code outside of the kit, TensorFlow, Keras, NumPy and Python's own library.
This module raises nothing.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import sys
import traceback
from typing import Any, Optional

from estimator_kit import exit_codes

_KIT = ("estimator_kit", "feature_specs", "input_pipelines")
_NOT_OF_USERS = (*_KIT, "tensorflow", "tensorflow_estimator", "keras", "tf_keras", "numpy")
_STANDARD_LIBRARY = os.path.join(os.path.dirname(contextlib.__file__), "")
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
# TensorFlow writes functions that it has converted into files with this name.
_CONVERTED = "__autograph_generated_file"


def has_status(error: Exception) -> bool:
    """Whether an error has its own exit status. An error of absl flags has none here.

    The kit has parsed its own flags before, so it is an error in the use of other flags.
    """
    of_absl = any(kind.__module__.startswith("absl.flags") for kind in type(error).__mro__)
    return not of_absl and exit_codes.exit_code(error) != exit_codes.BUG


def text_of(error: Exception) -> str:
    """The kind and text of an error of a user's code, as a sentence."""
    if type(error).__name__ == "UnparsedFlagAccessError":
        return _of_own_flag(error)
    message = getattr(error, "message", None) if hasattr(error, "node_def") else str(error)
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    text = text if text.endswith((".", "!", "?")) else f"{text}."
    frames = traceback.extract_tb(error.__traceback__)
    package = _package_of(frames[-1].filename) if frames else None
    if package in _KIT:
        text += f" {frames[-1].filename}:{frames[-1].lineno} raised it."
    return text


def _of_own_flag(error: Exception) -> str:
    """The text for an absl flag of the user that nobody has parsed."""
    match = re.search(r"--(\w+)", str(error))
    name = match[1] if match else "name"
    return (
        f"the absl flag --{name} is read, but the kit does not parse flags that a model's module "
        f"defines. Make it a field of the class Params, read self.params.{name}, and set it with "
        f"--model_params={name}=value. In your own program, parse the flags before ek.run."
    )


def place_of(error: BaseException) -> Optional[str]:
    """`file:line` of the last line of a user's code that an error came through, or None."""
    return next(reversed(places_of(error)), None)


def places_of(error: BaseException) -> list[str]:
    """`file:line` of each line of a user's code that an error came through, the last one last."""
    frames = [
        (frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    frames = [frame for frame in frames if _is_of_users(frame[0])]
    # A package that the user's code calls may be installed, and so may be the user's code.
    frames = [frame for frame in frames if is_own_file(frame[0])] or frames
    if isinstance(error, SyntaxError) and error.filename:  # No line of this file has run.
        frames.append((error.filename, error.lineno or 1))
    return list(dict.fromkeys(f"{file}:{line}" for file, line in frames))


def place_of_method(kind: type, method: str) -> Optional[str]:
    """`file:line` of the definition of a method; None if it is not a user's."""
    function = inspect.unwrap(getattr(kind, method, None) or place_of)
    code = getattr(function, "__code__", None)
    if code is None or not _is_of_users(code.co_filename):
        return None
    return f"{code.co_filename}:{code.co_firstlineno}"


def place_of_class(kind: type) -> str:
    """`file:line: ` of the definition of a class, or `` if Python cannot find it."""
    try:
        return f"{inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]}: "
    except (OSError, TypeError):
        return ""


def place_of_op(op: Any) -> Optional[str]:
    """`file:line` of a user's code that made an op of a graph; None if the kit made it."""
    for frame in reversed(list(op.traceback or ())):
        if _is_of_users(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
        if _package_of(frame.filename) in _KIT:
            return None
    return None


def places_of_op(error: Any) -> list[str]:
    """`file:line` of the user's code that made the op of a session's error; empty if none did.

    An error in the body of a `tf.cond`, a loop or a `tf.function` names the op, but not the body.
    So these are the lines of all ops of this name in the functions of the session's graph.
    """
    op = getattr(error, "op", None)
    if op is not None:
        place = place_of_op(op)
        return [] if place is None else [place]
    nodes = re.findall(r"\[\[\{\{node ([^}]+)\}\}\]\]", str(error))
    graph = _graph_of_session(error)
    if not nodes or graph is None:
        return []
    functions: list[Any] = [getattr(f, "graph", None) for f in list(graph._functions.values())]
    bodies = [function for function in functions if function is not None]
    ops = [op for body in bodies for op in body.get_operations() if op.name == nodes[0]]
    return sorted({place for place in map(place_of_op, ops) if place is not None})


def _graph_of_session(error: BaseException) -> Any:
    """The graph of the session that raised an error, or None."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        session: Any = frame.f_locals.get("self")
        if hasattr(session, "_do_run") and hasattr(session, "graph"):
            return session.graph
    return None


def is_of_kit(module: str) -> bool:
    """Whether a module is not a user's, by its name."""
    return module.partition(".")[0] in _NOT_OF_USERS


def is_own_file(filename: str) -> bool:
    """Whether a user's code is in a file, and it does not belong to an installed package."""
    return _is_of_users(filename) and not _INSTALLED.search(filename)


def _is_of_users(filename: str) -> bool:
    if filename.startswith("<") or _CONVERTED in filename:
        return False
    if filename.startswith(_STANDARD_LIBRARY) and not _INSTALLED.search(filename):
        return False
    return _package_of(filename) is None


def _package_of(filename: str) -> Optional[str]:
    """The package of the list above that a file belongs to, or None."""
    for name in _NOT_OF_USERS:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and filename.startswith(os.path.join(os.path.dirname(file), "")):
            return name
    return None
