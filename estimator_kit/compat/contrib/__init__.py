"""`tf.contrib` of TensorFlow 1.15, as far as Estimator programs use it; part of tf1.

Each module of this folder is the module of `tf.contrib` with its name, except those that begin with
an underscore. It is imported when a program first uses it. Its names behave as in TensorFlow 1.15.
A module here has:

- `__all__`: its public names;
- `REMEDIES`: a name of TensorFlow 1.15 that it does not have -> what to use instead, as a sentence;
- `OLD_PATHS`: private modules under which programs import its names, such as
  `python.layers.initializers` of layers. They show the same names as the module. A dictionary
  gives each path the module whose names it shows instead; None is the module itself.

The last two are optional.

A module or a name that is not here raises AttributeError or ModuleNotFoundError, as any missing
name does, and the message says what to use instead.

This package never replaces a module: it adds `tensorflow.contrib` and modules below it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Optional

from ._remedies import FOR_MODULES as FOR_MODULES

NAME = "tensorflow.contrib"

# `import tensorflow.compat.v1 as tf` has a tf.contrib too.
_V1 = ("tensorflow.compat.v1", "tensorflow._api.v2.compat.v1")


def install(undo: contextlib.ExitStack) -> None:
    """Makes `tensorflow.contrib` importable; `undo` reverts that."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    undo.callback(_forget)
    undo.callback(sys.meta_path.remove, finder)
    root = importlib.import_module(NAME)
    # The import made it an attribute of the module tensorflow.
    undo.callback(vars(sys.modules["tensorflow"]).pop, "contrib", None)
    for name in _V1:
        holder = sys.modules.get(name)
        if holder is not None and "contrib" not in vars(holder):
            holder.contrib = root  # type: ignore[attr-defined]
            undo.callback(delattr, holder, "contrib")


def _forget() -> None:
    for name in list(sys.modules):
        if name == NAME or name.startswith(f"{NAME}."):
            del sys.modules[name]


class _Contrib(ModuleType):
    """tf.contrib or a module of it: shows the names of a module of this folder.

    Attributes:
      _home: the module of this folder; None for tf.contrib itself.
    """

    _home: Optional[ModuleType] = None

    def __setattr__(self, name: str, value: Any) -> None:
        # The import of the module framework.python.ops.arg_scope must not hide the function.
        if isinstance(value, _Contrib) and isinstance(getattr(self._home, "OLD_PATHS", ()), dict):
            shown = getattr(self._home, name, None)
            if shown is not None and not isinstance(shown, ModuleType):
                return
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if self._home is None:
            try:
                return importlib.import_module(f"{NAME}.{name}")
            except ModuleNotFoundError as error:
                if error.name != NAME:
                    raise
                raise AttributeError(str(error)) from None
        try:
            value = _name(self._home, name, self.__name__)
        except AttributeError:
            path = f"{self.__name__}.{name}"
            if not _is_old_path(self._home, path[len(NAME) + 1 :].partition(".")[2]):
                raise
            value = importlib.import_module(path)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        if self._home is None:
            return sorted({*vars(self), *modules()})
        return sorted({*vars(self), *_names(self._home)})

    @property
    def __all__(self) -> list[str]:
        return modules() if self._home is None else _names(self._home)


def _names(home: ModuleType) -> list[str]:
    """The public names of a module. Some modules of TensorFlow and tf_slim have no `__all__`."""
    return list(getattr(home, "__all__", None) or (n for n in dir(home) if n[0] != "_"))


def _name(home: ModuleType, name: str, where: str) -> Any:
    try:
        return getattr(home, name)
    except AttributeError:
        remedy = getattr(home, "REMEDIES", {}).get(name)
        end = f": {remedy}" if remedy else ""
        raise AttributeError(f"module {where!r} has no attribute {name!r}{end}") from None


def modules() -> list[str]:
    """The modules of tf.contrib that are here."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


class _Finder(MetaPathFinder, Loader):
    """Finds tensorflow.contrib and what is below it."""

    def find_spec(
        self, name: str, path: Optional[Sequence[str]], target: Any = None
    ) -> Optional[ModuleSpec]:
        if name == NAME:
            return ModuleSpec(name, self, is_package=True)
        if not name.startswith(f"{NAME}."):
            return None
        first, _, rest = name[len(NAME) + 1 :].partition(".")
        home = f"{__name__}.{first}"
        if first.startswith("_") or importlib.util.find_spec(home) is None:
            raise _missing(name, FOR_MODULES.get(first))
        if rest:
            module = importlib.import_module(home)
            if not _is_old_path(module, rest):
                remedies = getattr(module, "REMEDIES", {})
                known = [remedies[part] for part in rest.split(".") if part in remedies]
                if known:
                    raise _missing(name, known[0])
                return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = _Contrib(spec.name)
        first, _, rest = spec.name[len(NAME) + 1 :].partition(".")
        if first:
            module._home = importlib.import_module(f"{__name__}.{first}")
            paths = getattr(module._home, "OLD_PATHS", ())
            if isinstance(paths, dict) and paths.get(rest):
                module._home = importlib.import_module(paths[rest])
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


def _missing(name: str, remedy: Optional[str]) -> ModuleNotFoundError:
    """The error for a module; it is also shown for `from module import name`.

    Its `name` is that of the package: Python hides an error with the name of the module itself.
    """
    return ModuleNotFoundError(
        f"No module named {name!r}" + (f": {remedy}" if remedy else ""), name=NAME
    )


def _is_old_path(home: ModuleType, path: str) -> bool:
    """Whether `path` is a private module, or a package above one."""
    paths = getattr(home, "OLD_PATHS", ())
    return any(known == path or known.startswith(f"{path}.") for known in paths)
