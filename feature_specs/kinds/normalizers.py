"""The normalizers of numeric columns, one frozen model each, and the field that lists them.

`reference.normalizers` says what each is in TensorFlow. Imports no TensorFlow.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

import pydantic

from feature_specs.entry import Entry, FiniteFloat, PositiveFloat, Range, only_key, spelled_out


class Log1p(Entry):
    """log(1 + x), for counts and prices; x must be above -1."""

    log1p: Literal[True]


class ZScore(Entry):
    """(x - mean) / stddev."""

    class Values(Entry):
        mean: FiniteFloat
        stddev: PositiveFloat

    zscore: Values


class MinMax(Entry):
    """(x - min) / (max - min), 0 to 1 inside the range and not clipped outside it."""

    minmax: Range


class Clip(Entry):
    """x limited to [min, max]."""

    clip: Range


Normalizer = Annotated[
    Union[
        Annotated[Log1p, pydantic.Tag("log1p")],
        Annotated[ZScore, pydantic.Tag("zscore")],
        Annotated[MinMax, pydantic.Tag("minmax")],
        Annotated[Clip, pydantic.Tag("clip")],
    ],
    pydantic.Discriminator(
        only_key,
        custom_error_type="normalizer",
        custom_error_message="log1p, {zscore: {mean, stddev}}, {minmax: {min, max}}, "
        "{clip: {min, max}}, or a list of them",
    ),
]


def _steps(value: Any) -> Any:
    """Spells `log1p`, one mapping, or a list of both, as a tuple of mappings."""
    steps = value if isinstance(value, (list, tuple)) else [value]
    return tuple(spelled_out(step, "log1p") for step in steps)


# In the order in which they are applied.
Normalizers = Annotated[tuple[Normalizer, ...], pydantic.BeforeValidator(_steps)]
