"""The entry `decode` of a feature: bytes that hold numbers or an image.

    pixels: {dtype: string, decode: {raw: {dtype: uint8, shape: [28, 28]}}}
    photo:  {dtype: string, decode: {image: {height: 64, width: 64, channels: 3}}}

`feature_specs.reference.decoding` has the ops. Columns read such a feature as float32 numbers of
the given shape. This module does not import TensorFlow.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Union

import pydantic
from pydantic import Field

from feature_specs.entry import Entry, PositiveInt, as_tuple, only_key

# The only default of a feature with `decode`: zeros for an absent or empty value.
ZEROS = "zeros"

# The number of bytes of each dtype that `tf.io.decode_raw` reads.
RAW_BYTES = {
    "uint8": 1,
    "int8": 1,
    "uint16": 2,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float16": 2,
    "float32": 4,
    "float64": 8,
}

RawDtype = Literal[
    "uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32", "float64"
]
Sizes = Annotated[tuple[PositiveInt, ...], pydantic.BeforeValidator(as_tuple)]


class Raw(Entry):
    """Numbers in the form of NumPy's `array.tobytes()`, which `tf.io.decode_raw` reads."""

    class Values(Entry):
        """The form of the stored numbers."""

        dtype: RawDtype = Field(
            description="The type of a stored number. Columns get float32, which is exact for "
            "integers up to 2^24."
        )
        shape: Sizes = Field(
            (), description="The shape of the numbers, in row-major order. `[]` is one number."
        )
        little_endian: bool = Field(
            True,
            description="Whether the lowest byte of a number comes first, as on most processors.",
        )

    raw: Values = Field(description="Numbers in the form of NumPy's `array.tobytes()`.")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.raw.shape

    @property
    def stored_bytes(self) -> int:
        """The number of bytes of a value."""
        return math.prod(self.shape) * RAW_BYTES[self.raw.dtype]


class Image(Entry):
    """A JPEG, PNG, BMP or GIF image. A GIF must have one frame.

    The first bytes of the image tell its format. An EXIF orientation has no effect.
    """

    class Values(Entry):
        """The form of the image that the model gets."""

        height: PositiveInt = Field(
            description="The height in pixels. Other images are resized; their aspect ratio is "
            "not kept."
        )
        width: PositiveInt = Field(
            description="The width in pixels. Other images are resized; their aspect ratio is not "
            "kept."
        )
        channels: Literal[1, 3, 4] = Field(
            description="The number of channels that the image is converted to: 1 (gray), 3 (RGB) "
            "or 4 (RGBA). TensorFlow converts JPEG to 1 or 3, PNG to any, BMP to 3 or 4, and GIF "
            "to 3 channels. Any other combination is an error."
        )
        resize: Literal["bilinear", "nearest", "area", "bicubic"] = Field(
            "bilinear",
            description="The method of `tf.image.resize`, without antialiasing. `area` averages "
            "all pixels that become one pixel, which suits large images. `bicubic` may slightly "
            "exceed the range of values.",
        )
        scale: bool = Field(
            True,
            description="`true` divides the float32 values by 255, so that they are in [0, 1]. "
            "`false` leaves them in [0, 255].",
        )

    image: Values = Field(description="A JPEG, PNG, BMP or GIF image.")

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.image.height, self.image.width, self.image.channels


Decode = Annotated[
    Union[Annotated[Raw, pydantic.Tag("raw")], Annotated[Image, pydantic.Tag("image")]],
    Field(
        discriminator=pydantic.Discriminator(
            only_key,
            custom_error_type="decode",
            custom_error_message="{raw: {dtype, shape}} or {image: {height, width, channels}}",
        )
    ),
]
