"""Finds `tensorflow.contrib` and the modules below it, which show the modules of this folder.

It imports a module of this folder when a program first uses it, and never changes one.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Optional

from ._remedies import FOR_MODULES

NAME = "tensorflow.contrib"
V1_NAME = "tensorflow.compat.v1.contrib"  # Its modules are the modules of tensorflow.contrib.
_PACKAGE = __name__.rpartition(".")[0]


class _Contrib(ModuleType):
    """tf.contrib or a module of it: shows the names of a module of this folder."""

    _home: Optional[ModuleType] = None  # The module of this folder; None for tf.contrib itself.

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
                if error.name not in (NAME, "tf_slim"):
                    raise
                raise AttributeError(str(error)) from None
        path = f"{self.__name__}.{name}"
        if _is_old_path(path, above_one=True):
            value = importlib.import_module(path)
        else:
            try:
                value = _name(self._home, name, self.__name__)
            except AttributeError:
                if not _is_old_path(path):
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
        error = AttributeError(f"module {where!r} has no attribute {name!r}{end}")
        if remedy:
            error.name = name  # Without the object, Python suggests no other name.
        raise error from None


def modules() -> list[str]:
    """The modules of tf.contrib that are here."""
    infos = pkgutil.iter_modules([os.path.dirname(__file__)])
    return sorted(m.name for m in infos if not m.name.startswith("_"))


class Finder(MetaPathFinder, Loader):
    """Finds tensorflow.contrib and what is below it."""

    def find_spec(
        self, name: str, path: Optional[Sequence[str]], target: Any = None
    ) -> Optional[ModuleSpec]:
        if name == NAME or f"{name}.".startswith(f"{V1_NAME}."):
            return ModuleSpec(name, self, is_package=True)
        if not name.startswith(f"{NAME}."):
            return None
        first, _, rest = name[len(NAME) + 1 :].partition(".")
        home = f"{_PACKAGE}.{first}"
        if first.startswith("_") or importlib.util.find_spec(home) is None:
            raise _missing(name, FOR_MODULES.get(first))
        if rest:
            module = importlib.import_module(home)
            if not _is_old_path(name):
                remedies = getattr(module, "REMEDIES", {})
                reasons = [remedies[part] for part in rest.split(".") if part in remedies]
                if reasons:
                    raise _missing(name, reasons[0])
                return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if f"{spec.name}.".startswith(f"{V1_NAME}."):
            return importlib.import_module(NAME + spec.name[len(V1_NAME) :])
        module = _Contrib(spec.name)
        first, _, rest = spec.name[len(NAME) + 1 :].partition(".")
        if first:
            module._home = importlib.import_module(f"{_PACKAGE}.{first}")
            paths = getattr(module._home, "OLD_PATHS", ())
            if isinstance(paths, dict) and paths.get(rest):
                module._home = importlib.import_module(paths[rest])
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


def _missing(name: str, remedy: Optional[str]) -> ModuleNotFoundError:
    """The error for a module; it is also shown for `from module import name`.

    Its `name` is the package's: Python hides an error that has the name of the module itself.
    """
    return ModuleNotFoundError(
        f"No module named {name!r}" + (f": {remedy}" if remedy else ""), name=NAME
    )


def _is_old_path(name: str, *, above_one: bool = False) -> bool:
    """Whether `name` is a private module or a package above one; `above_one`: such a package."""
    first, _, rest = name[len(NAME) + 1 :].partition(".")
    paths = getattr(importlib.import_module(f"{_PACKAGE}.{first}"), "OLD_PATHS", ())
    return any((path == rest and not above_one) or path.startswith(f"{rest}.") for path in paths)
