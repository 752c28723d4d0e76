"""How training computes the dense part of a model: in which precision, and whether compiled."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Optional

from estimator_kit.config.settings.computing import ComputeSettings
from estimator_kit.model import precision as precisions
from estimator_kit.model import xla as xla_scopes


@dataclasses.dataclass(frozen=True)
class Computing:
    """The settings of `ComputeSettings`; the defaults change nothing.

    Attributes:
      precision: `bfloat16` or `float16`; see `model.precision`.
      xla: whether XLA compiles the dense part; see `model.xla`.
    """

    precision: Optional[str] = None
    xla: bool = False

    @staticmethod
    def of(settings: ComputeSettings) -> Computing:
        """What the settings of a training say."""
        return Computing(settings.mixed_precision, xla=settings.xla == "on")

    @contextlib.contextmanager
    def applied(self, model: str, *, training: bool) -> Iterator[None]:
        """Computes the ops of the block so, if they train; `model` is its name, for messages."""
        if not training:
            yield
            return
        with (
            xla_scopes.compiled(on=self.xla, model=model),
            precisions.lowered(self.precision, model),
        ):
            yield
