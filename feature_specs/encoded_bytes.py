"""What `decode` makes of a feature that is stored as one string of bytes: numbers, or an image.

    pixels: {dtype: string, decode: {raw: {dtype: uint8, shape: [28, 28]}}}
    photo:  {dtype: string, decode: {image: {height: 64, width: 64, channels: 3}}}

The ops are in `decoding`. To columns such a feature is float32 of the shape that is given here.
Imports no TensorFlow.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Union

import pydantic
from pydantic import Field

from feature_specs.entry import Entry, PositiveInt, as_tuple, only_key

# The default that says what an absent or empty value means.
ZEROS = "zeros"

# Bytes of a value of each dtype that `tf.io.decode_raw` reads.
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
    """Numbers as they lie in memory, row by row (NumPy's `array.tobytes()`), by `decode_raw`.

    Attributes (of `raw`):
      dtype: of a stored number. Columns get float32, which is exact for integers up to 2^24.
      shape: how many there are; `()`, the default, is one.
      little_endian: the order of the bytes of a number, that of common processors by default.
    """

    class Values(Entry):
        dtype: RawDtype
        shape: Sizes = ()
        little_endian: bool = True

    raw: Values

    @property
    def shape(self) -> tuple[int, ...]:
        return self.raw.shape

    @property
    def stored_bytes(self) -> int:
        """How many bytes a value has."""
        return math.prod(self.shape) * RAW_BYTES[self.raw.dtype]


class Image(Entry):
    """A JPEG, PNG, GIF (of one frame) or BMP image; which one its first bytes say.

    It is read as it is stored: a note in it that says how to turn it (EXIF) has no effect.

    Attributes (of `image`):
      height, width: of the image that the model gets; any other size is resized, without regard to
        its proportions.
      channels: 1 (grey), 3 (RGB) or 4 (RGBA), to which an image is converted: JPEG to 1 or 3, PNG
        to any, BMP to 3 or 4, GIF to 3. Another number is an error.
      resize: the method of `tf.image.resize`, without antialiasing. `area` takes the mean of what
        becomes one pixel, and so is the one for large images. `bicubic` may leave the range of
        values a little.
      scale: true (the default) divides by 255, so that values are in [0, 1]; false leaves them in
        [0, 255]. They are float32 either way.
    """

    class Values(Entry):
        height: PositiveInt
        width: PositiveInt
        channels: Literal[1, 3, 4]
        resize: Literal["bilinear", "nearest", "area", "bicubic"] = "bilinear"
        scale: bool = True

    image: Values

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
