"""Collects what methods of a model add while the kit calls `logits`: outputs and losses.

    _OUTPUTS = Collector[Output]("outputs")
    with _OUTPUTS.collected() as outputs:
        model.logits(features, mode)         # calls _OUTPUTS.current(place).append(...)

It keeps them by thread and not in the graph: with a mirrored strategy, the replicas build their
parts of one graph in several threads.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Generic, Optional, TypeVar

from estimator_kit.errors import ConfigError

_T = TypeVar("_T")


class Collector(Generic[_T]):
    """What is added to a block, such as a call of `logits`.

    Args:
      name: a name for debuggers.
    """

    def __init__(self, name: str):
        self._added: contextvars.ContextVar[Optional[list[_T]]] = contextvars.ContextVar(
            name, default=None
        )

    @contextlib.contextmanager
    def collected(self) -> Iterator[list[_T]]:
        """The list that `current` returns in this block."""
        added: list[_T] = []
        token = self._added.set(added)
        try:
            yield added
        finally:
            self._added.reset(token)

    def current(self, place: str) -> list[_T]:
        """The list of the block.

        Raises:
          ConfigError: the call, which `place` names, is in no block.
        """
        added = self._added.get()
        if added is None:
            raise ConfigError(f"{place}: got a call outside of logits. Call it in logits.")
        return added
