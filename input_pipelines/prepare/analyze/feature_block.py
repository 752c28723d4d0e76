"""`FeatureBlock`: the values of one feature in a block of records. Does not import TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Union

import numpy as np

NO_TYPE = ""


@dataclasses.dataclass(frozen=True)
class FeatureBlock:
    """The values of one feature, of one type, in one block.

    Attributes:
      dtype: `float32`, `int64`, `string`, or `NO_TYPE` for a feature without a type (and without
        values).
      rows: [n] the records that have it, increasing.
      lengths: [n] the number of values in each of these records, 0 or more.
      values: all values, joined: float32, int64, or a list of bytes.
      feature_list: whether the values are the steps of a feature list.
      odd_steps: how many of the steps do not have exactly one value.
    """

    dtype: str
    rows: np.ndarray
    lengths: np.ndarray
    values: Union[np.ndarray, list[bytes]]
    feature_list: bool = False
    odd_steps: int = 0
