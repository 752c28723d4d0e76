"""The entries for the start values of an embedding table: initializers and pretrained vectors.

`feature_specs.embeddings.pretrained` reads the files. This module does not import TensorFlow.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import Entry, PositiveFloat, Range, only_key, spelled_out


class Zeros(Entry):
    """All values are 0."""

    zeros: Literal[True] = Field(description="All values are 0. Write `zeros` without a value.")


class TruncatedNormal(Entry):
    """A normal distribution with the mean 0. Values beyond two standard deviations are redrawn."""

    class Values(Entry):
        """The options of `truncated_normal`."""

        stddev: PositiveFloat = Field(description="The standard deviation before the truncation.")

    truncated_normal: Values = Field(
        description="A normal distribution with the mean 0. Values beyond two standard deviations "
        "are redrawn."
    )


class Normal(Entry):
    """A normal distribution with the mean 0."""

    class Values(Entry):
        """The options of `normal`."""

        stddev: PositiveFloat = Field(description="The standard deviation.")

    normal: Values = Field(description="A normal distribution with the mean 0.")


class Uniform(Entry):
    """A uniform distribution over [min, max)."""

    uniform: Range = Field(description="A uniform distribution over [min, max).")


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
    """Vectors that were learned elsewhere. Only a new training reads them.

    Set `file`, or `checkpoint` and `tensor`.
    """

    file: Optional[str] = Field(
        None,
        description="A path relative to the folder of the spec, and below it. In a text file each "
        "line has a word and its numbers; it needs a column over a vocabulary. The word ends at "
        "the first tab of its line, or at the first space if the line has no tab. Words without a "
        "line start from the initializer, and the log reports their number. An `.npy` file holds a "
        "float array [ids, dimension] in the order of the ids. It may leave out the "
        "out-of-vocabulary buckets, which are the last ids.",
    )
    checkpoint: Optional[str] = Field(
        None,
        description="The path prefix of a TensorFlow checkpoint, relative to the folder of the "
        "spec and below it.",
    )
    tensor: Optional[str] = Field(
        None, description="The name of the tensor [ids, dimension] in the checkpoint."
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Pretrained:
        if (self.file is None) == (self.checkpoint is None):
            raise ValueError("set either `file`, or `checkpoint` and `tensor`")
        if (self.checkpoint is None) != (self.tensor is None):
            raise ValueError("`checkpoint` and `tensor` need each other. Set both.")
        return self
