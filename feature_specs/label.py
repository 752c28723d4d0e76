"""The entry of a label: what a record stores for an objective to learn.

The model checks one entry on its own. `validation.labels` checks whether a label fits its head.
This module does not import TensorFlow.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import Declared, Dtype, Shape, Words, field


class Label(Declared):
    """One label of a record. Unless `missing` is set, a record without the label is an error."""

    dtype: Dtype = field(
        changes="records values",
        description="The type of the stored label: `int64`, `float32`, or `string` with a "
        "`vocabulary`.",
    )
    shape: Shape = field(
        (),
        changes="values",
        description="`[]` is one value. `[n]` is a vector, or one value at each of n steps. "
        "`[n, m]` is a vector of m numbers at each of n steps. `variable` is a list of classes or "
        "items.",
    )
    vocabulary: Optional[Annotated[Words, Field(min_length=2)]] = field(
        None,
        changes="values weights outputs",
        description="The classes of a string label, in the order of their ids. The head "
        "`next_item` takes the words of its column instead.",
    )
    missing: Optional[Literal["mask", "no_class"]] = field(
        None,
        changes="values",
        description="What to do with a record that has no value. By default it is an error. `mask` "
        "leaves the record out of the loss and the metrics of this label, and of a label of which "
        "it is a part, such as the `event` of a `survival` head. `no_class`, only for lists, "
        "treats the record as a row that has none of the classes. TensorFlow cannot tell an absent "
        "list from an empty list.",
    )
    weight: Optional[str] = field(
        None,
        changes="values",
        description="The name of a feature or label whose value is the row's weight in this "
        "label's loss and metrics. A weight of 0 leaves the row out. For example, "
        "`purchase: {dtype: int64, weight: click}` learns purchases only from rows with a click.",
    )
    true_probability: Optional[str] = field(
        None,
        changes="values",
        description="The name of a float32 feature that holds the true probability of class 1, for "
        "simulated data. Evaluation then also reports the best AUC and log loss that any model "
        "could reach. Only for the label of a `binary` head.",
    )

    @property
    def variable(self) -> bool:
        """Whether it is a list of classes."""
        return self.shape == "variable"

    @property
    def single(self) -> bool:
        return self.shape == ()

    @property
    def length(self) -> int:
        """The number of values. For fixed shapes only."""
        assert not isinstance(self.shape, str), "a list has no length"
        return math.prod(self.shape)

    @pydantic.model_validator(mode="after")
    def _check(self) -> Label:
        string = self.dtype == "string"
        # The words of a list may also come from a column. `validation.labels` checks that.
        lacks_words = string and self.vocabulary is None and not self.variable
        if lacks_words or (self.vocabulary is not None and not string):
            raise ValueError(
                "a string label needs a vocabulary, and only a string label can have one"
            )
        if self.vocabulary is not None and len(set(self.vocabulary)) < len(self.vocabulary):
            raise ValueError("the vocabulary lists a word twice. Remove one of them.")
        if self.variable and self.dtype == "float32":
            raise ValueError("a list of classes must be int64 or string, got float32")
        if not self.variable and len(self.shape) > 2:
            raise ValueError(
                f"the shape is {list(self.shape)}, expected [], [n], or [steps, n] for a label"
            )
        if not self.variable and not self.single and self.dtype == "string":
            raise ValueError(
                f"a string label is one word or a list, got the shape {list(self.shape)}. Use "
                "shape: variable for a list of words."
            )
        if self.missing == "no_class" and not self.variable:
            raise ValueError(
                "missing: no_class needs a list (shape: variable). Use missing: mask to leave out "
                "rows without a value, or remove missing to make them an error."
            )
        return self
