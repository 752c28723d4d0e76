"""Modules that can be imported in place of ones that cannot work here.

Any name of such a module is a class, so that other modules can import it, derive from it and
annotate with it. Making an object of it raises UnsupportedTensorFlowError.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..errors import UnsupportedTensorFlowError


class StandIn(ModuleType):
    """A stand-in for the module `name`.

    Args:
      name: the full name of the module.
      why: the end of the error's message: why it cannot work, and what to do.
    """

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, f"Stand-in for {name}. {why}")
        self._why = why

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        made = _class(name, self.__name__, self._why)
        setattr(self, name, made)
        return made


def _class(name: str, module: str, why: str) -> type:
    message = f"{module}.{name}: {why}"

    def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedTensorFlowError(message)

    return type(name, (), {"__new__": refuse, "__doc__": message, "__module__": module})
