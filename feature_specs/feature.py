"""The entry of a feature: what a record stores under one name.

Checks one entry by itself; the columns that read it are checked in `validation`. Imports no
TensorFlow.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Optional

import pydantic

from feature_specs.encoded_bytes import ZEROS, Decode
from feature_specs.entry import LARGEST_FLOAT32, Dtype, Entry, Scalar, Shape


def _one_value(value: Any) -> Any:
    if value is None or isinstance(value, (int, float, str)):
        return value
    raise ValueError(f"got {value!r}, expected one number or string")


def _is_finite_float32(value: Scalar) -> bool:
    number = value if isinstance(value, int) else float(value)
    return abs(number) <= LARGEST_FLOAT32  # Of integers, too, that no float holds.


class Feature(Entry):
    """One feature of a record, as a `tf.train.Example` or `tf.train.SequenceExample` stores it.

    Attributes:
      dtype: `float32`, `int64` or `string`.
      shape: `()` for one value (the default), `(n,)` or `(n, m)` for a fixed number of values,
        `"variable"` for a list whose length differs from record to record (an absent list is an
        empty one).
      default: the value of a record that has no such feature; without it the feature is required.
        For single-valued categoricals `""` and `-1` stand for "missing": no id, a zero embedding.
        With `decode` it is `zeros`: numbers or an image of zeros for an absent or empty value.
      required: `true` says what leaving out `default` means; nothing else may be said.
      feature_list: `true` for a feature of `feature_lists` in a `tf.train.SequenceExample`: a list
        of steps, each of which has one value. An absent list is an empty one, unless `required`
        says that it has to be there (it may still have no step). One such feature makes a spec
        one of SequenceExamples, whose `context` holds all other features and the labels. With
        `shape: variable` each step is a list, and the feature a list of lists.
      row_lengths: makes a list a list of lists: the name of an int64 list that says how many
        values each of them has, as in `tf.io.RaggedFeature.RowLengths`.
      decode: how one string of bytes, as the record stores it, becomes numbers or an image; see
        `encoded_bytes`. `dtype` and `shape` then are those of the string.
    """

    dtype: Dtype
    shape: Shape = ()
    default: Annotated[Optional[Scalar], pydantic.BeforeValidator(_one_value)] = None
    required: Optional[Literal[True]] = None
    feature_list: bool = False
    row_lengths: Optional[str] = None
    decode: Optional[Decode] = None

    @property
    def variable(self) -> bool:
        """Whether it is a list whose length differs: one of the record's, or a feature list."""
        return self.feature_list or self.shape == "variable"

    @property
    def single(self) -> bool:
        return self.shape == () and not self.feature_list

    @property
    def nested(self) -> bool:
        """Whether it is a list of lists, which ragged columns alone read."""
        return self.row_lengths is not None or (self.feature_list and self.shape == "variable")

    @property
    def length(self) -> int:
        """Number of values that a record stores of a fixed shape."""
        assert not self.variable and not isinstance(self.shape, str), "a list has no length"
        return math.prod(self.shape)

    @property
    def is_number(self) -> bool:
        """Whether columns read numbers: as they are stored, or out of bytes."""
        return self.dtype != "string" or self.decode is not None

    @property
    def number_shape(self) -> tuple[int, ...]:
        """The shape of the numbers of a record, for numeric columns; `()` is one."""
        if self.decode is not None:
            return self.decode.shape
        assert not self.variable and not isinstance(self.shape, str), "a list has no shape"
        return self.shape

    @property
    def width(self) -> int:
        """How many numbers a numeric column of it has."""
        return math.prod(self.number_shape)

    @property
    def is_required(self) -> bool:
        if self.feature_list:
            return self.required is True
        return self.default is None and not self.variable

    @property
    def form(self) -> str:
        """How a spec writes its shape, for messages."""
        if self.feature_list:
            return f"feature_list: true{' and shape: variable' if self.nested else ''}"
        return f"the shape {self.shape}{' and row_lengths' if self.nested else ''}"

    @pydantic.model_validator(mode="after")
    def _check(self) -> Feature:
        if self.feature_list:
            if self.shape not in ((), "variable"):
                raise ValueError(
                    "feature_list: true is a list of steps, of one value each without a shape and "
                    "of a list each with shape: variable; remove shape, or feature_list for a "
                    "list in the context"
                )
            if self.nested and self.required:
                raise ValueError(
                    "required: true does not go with feature_list: true and shape: variable "
                    "together (to TensorFlow an absent one is an empty one); remove required"
                )
            if self.default is not None:
                raise ValueError(
                    "a feature list has no default (an absent list is empty); remove default"
                )
        if self.required and not self.is_required:
            raise ValueError(
                "required: true goes with neither a default nor shape: variable (an absent list "
                "is empty); remove one of the two"
            )
        if self.row_lengths is not None and (self.feature_list or self.shape != "variable"):
            raise ValueError(
                "row_lengths cuts a list of shape: variable, which is no feature list, into lists"
            )
        if self.decode is not None:
            self._check_decode()
        elif self.default is not None:
            if self.variable:
                raise ValueError("a variable feature has no default (an absent list is empty)")
            expected = {"float32": (int, float), "int64": (int,), "string": (str,)}[self.dtype]
            if isinstance(self.default, bool) or not isinstance(self.default, expected):
                raise ValueError(f"the default {self.default!r} is no {self.dtype}")
            if self.dtype == "float32" and not _is_finite_float32(self.default):
                raise ValueError("the default must be finite, as a float32")
            if self.dtype == "int64" and not -(2**63) <= int(self.default) < 2**63:
                raise ValueError(f"the default {self.default!r} is too large for int64")
        return self

    def _check_decode(self) -> None:
        if self.dtype != "string" or not self.single:
            raise ValueError(
                f"decode reads one string of bytes, and this is {self.dtype} with {self.form}; "
                "say dtype: string and no shape (what the bytes hold is said under decode)"
            )
        if self.default not in (None, ZEROS):
            raise ValueError(
                f"the default of bytes that are decoded is {ZEROS} or none, got {self.default!r}"
            )
