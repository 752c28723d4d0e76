"""Shapes of inputs, held against those of a signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from estimator_kit.serving.errors import invalid


def check(alias: str, info: Any, shape: Sequence[int]) -> None:
    """Holds the shape of an input against its `TensorInfo`.

    Raises:
      RequestError: they differ in their rank, or in a size that is not free.
    """
    expected = info.tensor_shape
    sizes = [dim.size for dim in expected.dim]
    fits = len(sizes) == len(shape) and all(
        size < 0 or size == given for size, given in zip(sizes, shape)
    )
    if not expected.unknown_rank and not fits:
        wanted = text(["?" if size < 0 else size for size in sizes])
        raise invalid(f"input {alias}: expected the shape {wanted}, got {text(shape)}")


def text(shape: Sequence[Any]) -> str:
    """A shape as TensorFlow Serving writes it, `[2,3]`."""
    return f"[{','.join(map(str, shape))}]"
