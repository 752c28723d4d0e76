"""The normalizers of numeric columns, one frozen model each, and the field that lists them.

`feature_specs.reference.normalizers` has their TensorFlow ops. This module does not import
TensorFlow.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

import pydantic
from pydantic import Field

from feature_specs.entry import Entry, ExactNumber, PositiveFloat, Range, only_key, spelled_out


class Log1p(Entry):
    """log(1 + x), for counts and prices. x must be greater than -1."""

    log1p: Literal[True] = Field(
        description="log(1 + x). x must be greater than -1. Write `log1p` without a value."
    )


class ZScore(Entry):
    """(x - mean) / stddev.

    `{zscore: {statistics: statistics.json}}` takes both numbers from a statistics file.
    """

    class Values(Entry):
        """The options of `zscore`."""

        mean: ExactNumber = Field(description="The number that is subtracted.")
        stddev: PositiveFloat = Field(description="The number that the difference is divided by.")

    zscore: Values = Field(description="(x - mean) / stddev.")


class MinMax(Entry):
    """(x - min) / (max - min). Values outside the range are not clipped.

    `{minmax: {statistics: statistics.json}}` takes both numbers from a statistics file.
    """

    minmax: Range = Field(
        description="(x - min) / (max - min). Values outside the range are not clipped."
    )


class Clip(Entry):
    """x, limited to [min, max]."""

    clip: Range = Field(description="x, limited to [min, max].")


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
    """Turns `log1p`, a mapping, or a list of them into a tuple of mappings."""
    steps = value if isinstance(value, (list, tuple)) else [value]
    return tuple(spelled_out(step, "log1p") for step in steps)


# They are applied in order.
Normalizers = Annotated[tuple[Normalizer, ...], pydantic.BeforeValidator(_steps)]
