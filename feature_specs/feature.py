"""The entry of a feature: what a record stores under one name.

The model checks one entry on its own. `validation` checks the columns that read the feature. This
module does not import TensorFlow.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Optional

import pydantic

from feature_specs.encoded_bytes import ZEROS, Decode
from feature_specs.entry import LARGEST_FLOAT32, Declared, Dtype, Scalar, Shape, field
from feature_specs.errors import value_text


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
