"""The entry of a label: what a record stores for an objective to learn.

Checks one entry by itself; what heads accept is checked in `validation.labels`. Imports no
TensorFlow.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import Dtype, Entry, Shape, Words


class Label(Entry):
    """One label of a record; a record without it is an error, never a default.

    Attributes:
      dtype: `int64`, `float32`, or `string` with a `vocabulary`.
      shape: `()` for one value (the default), `(n,)` for a vector or a value at each of n steps,
        `(n, m)` for a vector at each step, `"variable"` for a list of classes.
      vocabulary: the classes of a string label, in the order of their ids.
      missing: what a record without a value is: by default an error; `mask` gives it no weight in
        this label's loss and metrics; `no_class`, of lists alone, takes it as a row that has none
        of the classes (an absent list and an empty one are the same to TensorFlow).
      weight: a feature or label whose value weighs the example in this label's loss and metrics;
        0 masks it. `purchase: {dtype: int64, weight: click}` learns purchase from clicks alone.
      true_probability: for data with a known truth, the float feature that holds the probability
        of class 1; evaluation then reports the best AUC and log loss that any model could reach.
    """

    dtype: Dtype
    shape: Shape = ()
    vocabulary: Optional[Annotated[Words, Field(min_length=2)]] = None
    missing: Optional[Literal["mask", "no_class"]] = None
    weight: Optional[str] = None
    true_probability: Optional[str] = None

    @property
    def variable(self) -> bool:
        """Whether it is a list of classes."""
        return self.shape == "variable"

    @property
    def single(self) -> bool:
        return self.shape == ()

    @property
    def length(self) -> int:
        """Number of values of a label that is no list."""
        assert not isinstance(self.shape, str), "a list has no length"
        return math.prod(self.shape)

    @pydantic.model_validator(mode="after")
    def _check(self) -> Label:
        if (self.dtype == "string") != (self.vocabulary is not None):
            raise ValueError("a string label needs a vocabulary, and only a string label has one")
        if self.vocabulary is not None and len(set(self.vocabulary)) < len(self.vocabulary):
            raise ValueError("the vocabulary has duplicates")
        if self.variable and self.dtype == "float32":
            raise ValueError("a list of classes is int64 or string, not float32")
        if not self.variable and len(self.shape) > 2:
            raise ValueError(
                f"the shape is {list(self.shape)}, expected [], [n], or [steps, n] for a label"
            )
        if not self.variable and not self.single and self.dtype == "string":
            raise ValueError("a vector holds numbers; a list of words is shape: variable")
        if self.missing == "no_class" and not self.variable:
            raise ValueError(
                "missing: no_class is for lists (shape: variable); say mask to leave rows without "
                "a value out, or nothing to make them an error"
            )
        return self
