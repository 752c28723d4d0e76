"""The SHA-256 of the code that an artifact depends on: the kit's own, and the user's model.

    of_kit()                                  all modules of the kit
    of_model("my_models.tower:Tower", kind)   the module that --model names, and what it imports

The user's modules are the one that `--model` names, the modules of the class and its bases, and all
modules that these import, also inside functions. A module counts with its name and its source, so
the same code in another folder has the same digest. Python's own library, the kit, TensorFlow and
installed packages do not count, except the package of the model itself if it is installed.

Imports are found in the sources, so a module whose name only the running program knows, as in
`importlib.import_module(name)`, is not found. No module is run. Imports no TensorFlow.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import logging
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, Optional

import estimator_kit
import feature_specs
import input_pipelines
from estimator_kit.config import user_errors
from input_pipelines import own_code

_log = logging.getLogger("estimator_kit")


def of_kit() -> str:
    """The digest of the kit's modules, in hex."""
    return own_code.of_packages(feature_specs, input_pipelines, estimator_kit)


def of_model(model: str, kind: type) -> str:
    """The digest of the user's code of a model, in hex.

    Args:
      model: the value of `--model`, as package.module:ClassName.
      kind: its class.
    """
    digest = hashlib.sha256()
    for name, content in sorted(sources(model, kind).items()):
        digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


def sources(model: str, kind: type) -> dict[str, bytes]:
    """The source of each of the user's modules that a model depends on, by name.

    A module without a source, such as one of a notebook, has an empty one, and a warning says so.

    Args:
      model, kind: see `of_model`.
    """
    named = model.partition(":")[0]
    package = named.partition(".")[0]
    left = [named, *(base.__module__ for base in kind.__mro__)]
    seen: set[str] = set()
    contents: dict[str, bytes] = {}
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        if not name or user_errors.is_of_kit(name):
            continue
        left.append(name.rpartition(".")[0])  # Importing a module runs the packages around it.
        spec = _spec_of(name)
        is_near = name == "__main__" or name.partition(".")[0] == package
        if spec is None or not _counts(spec, is_near):
            continue
        contents[name] = _content(name, spec)
        left.extend(_imports(contents[name], spec.parent or ""))
    return contents


def _counts(spec: ModuleSpec, is_near: bool) -> bool:
    """Whether a module is the user's code; `is_near` if it is in the package of the model."""
    if spec.origin is None:
        return is_near and spec.submodule_search_locations is None  # Not a mere folder.
    return spec.has_location and (is_near or user_errors.is_own_file(spec.origin))


def _spec_of(name: str) -> Optional[ModuleSpec]:
    """Where a module is, found without running it or the packages around it."""
    parent = name.rpartition(".")[0]
    try:
        if parent:
            above = _spec_of(parent)
            folders = above.submodule_search_locations if above is not None else None
            if folders is None:
                return None
            return PathFinder.find_spec(name, list(folders))
        return importlib.util.find_spec(name)
    except SyntaxError:  # In a zip file, Python compiles a module to find it.
        return None
    except (ImportError, ValueError):  # The module was not imported from a file, or is a script.
        module: Any = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if file is None:
            return ModuleSpec(name, None) if module is not None else None
        return importlib.util.spec_from_file_location(name, file)


def _content(name: str, spec: ModuleSpec) -> bytes:
    """The bytes of a module's file, which may be in a zip file."""
    read: Any = getattr(spec.loader, "get_data", None)
    with contextlib.suppress(OSError):
        if read is not None and spec.origin is not None:
            return bytes(read(spec.origin))
    _warn(name)
    return b""


@functools.cache
def _warn(name: str) -> None:
    _log.warning(
        "the module %s of --model has no source file, so changes of its code are not noticed. Put "
        "the code into a file that Python can import.",
        name,
    )


def _imports(content: bytes, package: str) -> Iterator[str]:
    """The names that a module imports, also inside functions; not all are modules.

    Args:
      content: its source.
      package: the package that its relative imports start from.
    """
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):  # Compiled code, or a module that cannot be imported.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            with contextlib.suppress(ImportError):  # Above the highest package.
                start = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                yield start
                yield from (f"{start}.{alias.name}" for alias in node.names)
