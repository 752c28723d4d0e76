"""Where the table of an embedding column starts: initializers and pretrained vectors.

The entries of the YAML only; `pretrained.py` reads the files. Imports no TensorFlow.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional, Union

import pydantic

from feature_specs.entry import Entry, PositiveFloat, Range, only_key, spelled_out


class Zeros(Entry):
    """All zeros."""

    zeros: Literal[True]


class TruncatedNormal(Entry):
    """Normal around 0, drawn again beyond two standard deviations."""

    class Values(Entry):
        stddev: PositiveFloat

    truncated_normal: Values


class Normal(Entry):
    """Normal around 0."""

    class Values(Entry):
        stddev: PositiveFloat

    normal: Values


class Uniform(Entry):
    """Uniform in [min, max)."""

    uniform: Range


def _spelled_out(value: Any) -> Any:
    return spelled_out(value, "zeros")


Initializer = Annotated[
    Union[
        Annotated[Zeros, pydantic.Tag("zeros")],
        Annotated[TruncatedNormal, pydantic.Tag("truncated_normal")],
        Annotated[Normal, pydantic.Tag("normal")],
        Annotated[Uniform, pydantic.Tag("uniform")],
    ],
    pydantic.Discriminator(
        only_key,
        custom_error_type="initializer",
        custom_error_message="zeros, {truncated_normal: {stddev}}, {normal: {stddev}}, or "
        "{uniform: {min, max}}",
    ),
    pydantic.BeforeValidator(_spelled_out),
]


class Pretrained(Entry):
    """Vectors learned elsewhere, for a training that starts from nothing.

    Attributes:
      file: relative to the spec, below its folder. A text file has a word and its numbers on each
        line, in any order, for a column over a vocabulary; words that it lacks start from the
        initializer, and are counted. A word goes to the first tab of its line, or to the first
        space where there is no tab. An `.npy` file is a float array [ids, dimension] in the order
        of the ids; it may leave out out-of-vocabulary buckets, which are the last ids.
      checkpoint, tensor: a TensorFlow checkpoint, as a path prefix, and the name of the tensor
        [ids, dimension] in it.
    """

    file: Optional[str] = None
    checkpoint: Optional[str] = None
    tensor: Optional[str] = None

    @pydantic.model_validator(mode="after")
    def _check(self) -> Pretrained:
        if (self.file is None) == (self.checkpoint is None):
            raise ValueError("give `file`, or `checkpoint` and `tensor`")
        if (self.checkpoint is None) != (self.tensor is None):
            raise ValueError("`checkpoint` and `tensor` go together")
        return self
