"""The entry of a feature: what a record stores under one name, and how its bytes are decoded.

    pixels: {dtype: string, decode: {raw: {dtype: uint8, shape: [28, 28]}}}
    photo:  {dtype: string, decode: {image: {height: 64, width: 64, channels: 3}}}

Columns read a feature with `decode` as float32 numbers of the given shape;
`feature_specs.reference.ops` has the ops. The models check one entry on its own. `validation`
checks the columns that read the feature. This module does not import TensorFlow.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import (
    LARGEST_FLOAT32,
    Declared,
    Dtype,
    Entry,
    PositiveInt,
    Scalar,
    Shape,
    as_tuple,
    field,
    only_key,
)
from feature_specs.errors import value_text

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


def _one_value(value: Any) -> Any:
    if value is None or isinstance(value, (int, float, str)):
        return value
    raise ValueError(f"got {value!r}, expected one number or string")


def _is_finite_float32(value: Scalar) -> bool:
    number = value if isinstance(value, int) else float(value)
    return abs(number) <= LARGEST_FLOAT32  # An integer may be too large for a Python float.


class Feature(Declared):
    """One feature of a record, as a `tf.train.Example` or `tf.train.SequenceExample` stores it."""

    dtype: Dtype = field(
        changes="records values",
        description="The type of the stored values: `float32`, `int64` or `string`. A feature with "
        "`decode` has the dtype `string`.",
    )
    shape: Shape = field(
        (),
        changes="values",
        description="The number of values in a record. `[]` is one value, `[n]` and `[n, m]` are a "
        "fixed number of values, and `variable` is a list whose length differs between records. "
        "An absent list is read as an empty list.",
    )
    default: Annotated[Optional[Scalar], pydantic.BeforeValidator(_one_value)] = field(
        None,
        changes="values",
        description="The value for a record that lacks the feature. Without a default, such a "
        'record is an error. For a categorical feature of one value, `""` and `-1` mean '
        '"missing": the value has no id, and its embedding is the zero vector. With `decode` the '
        "only default is `zeros`: an absent or empty value becomes numbers or an image of zeros.",
    )
    required: Optional[Literal[True]] = field(
        None,
        changes="limits",
        description="`true` states that a record without the feature is an error. This is already "
        "so for a feature without a default. A feature list without it may be absent, which means "
        "that it has no steps.",
    )
    feature_list: bool = field(
        False,
        changes="records values",
        description="`true` for a feature in the `feature_lists` of a "
        "`tf.train.SequenceExample`: a list of steps with one value per step, or, with "
        "`shape: variable`, a list of values per step. If one feature is a feature list, all "
        "records are SequenceExamples, and the other features and the labels are in the `context`.",
    )
    row_lengths: Optional[str] = field(
        None,
        changes="values",
        description="Makes a list of `shape: variable` a list of lists. It names an int64 list "
        "that holds the length of each inner list, as `tf.io.RaggedFeature.RowLengths` does.",
    )
    decode: Optional[Decode] = field(
        None,
        changes="values",
        description="Decodes one stored string of bytes to float32 numbers (`raw`) or to an image "
        "(`image`). `dtype` and `shape` then describe the stored string.",
    )
    private: Optional[Literal[True]] = field(
        None,
        changes="nothing",
        description="`true` keeps the values out of the request logs of `serve "
        "--serving_log_dir`: the server removes the feature from each request before it logs the "
        "request. Training and predictions are not affected.",
    )

    @property
    def variable(self) -> bool:
        """Whether its length differs between records: a variable shape or a feature list."""
        return self.feature_list or self.shape == "variable"

    @property
    def single(self) -> bool:
        return self.shape == () and not self.feature_list

    @property
    def nested(self) -> bool:
        """Whether it is a list of lists. Only ragged columns read these."""
        return self.row_lengths is not None or (self.feature_list and self.shape == "variable")

    @property
    def length(self) -> int:
        """The number of values that a record stores. For fixed shapes only."""
        assert not self.variable and not isinstance(self.shape, str), "a list has no length"
        return math.prod(self.shape)

    @property
    def is_number(self) -> bool:
        """Whether columns read it as numbers: stored numbers, or numbers decoded from bytes."""
        return self.dtype != "string" or self.decode is not None

    @property
    def number_shape(self) -> tuple[int, ...]:
        """The shape of a record's numbers, for numeric columns. `()` is one number."""
        if self.decode is not None:
            return self.decode.shape
        assert not self.variable and not isinstance(self.shape, str), "a list has no shape"
        return self.shape

    @property
    def width(self) -> int:
        """The number of numbers in a numeric column of this feature."""
        return math.prod(self.number_shape)

    @property
    def is_required(self) -> bool:
        if self.feature_list:
            return self.required is True
        return self.default is None and not self.variable

    @property
    def form(self) -> str:
        """Its shape as a spec states it, for messages."""
        if self.feature_list:
            return f"feature_list: true{' and shape: variable' if self.nested else ''}"
        return f"the shape {self.shape}{' and row_lengths' if self.nested else ''}"

    @pydantic.model_validator(mode="after")
    def _check(self) -> Feature:
        if self.feature_list:
            if self.shape not in ((), "variable"):
                raise ValueError(
                    f"with feature_list: true the shape is either left out (one value per step) "
                    f"or variable (a list per step), got {list(self.shape)}. Remove shape, or "
                    "remove feature_list if the list is in the context."
                )
            if self.nested and self.required:
                raise ValueError(
                    "required: true cannot be combined with feature_list: true and "
                    "shape: variable, because TensorFlow reads an absent list of lists as an empty "
                    "one. Remove required."
                )
            if self.default is not None:
                raise ValueError(
                    "a feature list cannot have a default, because an absent list is read as an "
                    "empty list. Remove default."
                )
        if self.required and not self.is_required:
            raise ValueError(
                "required: true cannot be combined with a default or with shape: variable (an "
                "absent list is read as an empty list). Remove one of the two."
            )
        if self.row_lengths is not None and (self.feature_list or self.shape != "variable"):
            raise ValueError(
                "row_lengths needs shape: variable and cannot be combined with feature_list. Set "
                "shape: variable and remove feature_list, or remove row_lengths."
            )
        if self.decode is not None:
            self._check_decode()
        elif self.default is not None:
            if self.variable:
                raise ValueError(
                    "a feature of shape: variable cannot have a default, because an absent list is "
                    "read as an empty list. Remove default."
                )
            expected = {"float32": (int, float), "int64": (int,), "string": (str,)}[self.dtype]
            if isinstance(self.default, bool) or not isinstance(self.default, expected):
                raise ValueError(
                    f"the default must be of dtype {self.dtype}, got {value_text(self.default)}. "
                    "Change default or dtype."
                )
            if self.dtype == "float32" and not _is_finite_float32(self.default):
                raise ValueError(
                    f"the default must be a finite float32, got {value_text(self.default)}"
                )
            if self.dtype == "int64" and not -(2**63) <= int(self.default) < 2**63:
                raise ValueError(
                    f"the default must fit into an int64, got {value_text(self.default)}"
                )
        return self

    def _check_decode(self) -> None:
        if self.dtype != "string" or not self.single:
            raise ValueError(
                f"decode needs one string of bytes, got {self.dtype} with {self.form}. Set dtype: "
                "string and remove shape. Describe the contents of the bytes under decode."
            )
        if self.default not in (None, ZEROS):
            raise ValueError(
                f"with decode the default must be {ZEROS} or left out, got {self.default!r}"
            )
