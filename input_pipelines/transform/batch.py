"""A batch of records while `Transform` turns it into columns, and the ids of a categorical column.

    batch = Batch(spec, parsed, tables)
    batch.present_of("city")                # bool [rows]: which rows have a value
    Ids(values, present).masked()           # -1 where the value is missing

`kinds` makes single columns of a batch, and `stacks` makes many columns with the same ops.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Union

import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines.transform import lookups


@dataclasses.dataclass(frozen=True)
class Ids:
    """Ids of a categorical column before missing values are replaced by -1.

    A missing value has no cross, but a word outside a vocabulary crosses as -1. So the two are kept
    apart until the end.

    Attributes:
      values: int64 [rows], or a RaggedTensor [rows, None].
      present: bool [rows], or None if no value is missing (always None for lists).
    """

    values: Union[tf.Tensor, tf.RaggedTensor]
    present: Any = None

    def masked(self) -> Union[tf.Tensor, tf.RaggedTensor]:
        if self.present is None:
            return self.values
        return tf.where(self.present, self.values, tf.constant(-1, tf.int64))


Made = Union[Ids, tf.Tensor, tf.RaggedTensor]


@dataclasses.dataclass
class Batch:
    """A batch of records while it is transformed.

    Attributes:
      spec: the feature spec.
      parsed: the parsed and decoded features.
      tables: the lookup tables of vocabulary columns, by column.
      made: the columns that were made so far. Its numbers were checked to be finite.
      present: for features of one value, which rows have one: bool [rows], as far as it was made.
    """

    spec: FeatureSpec
    parsed: Mapping[str, Any]
    tables: Mapping[str, Any]
    made: dict[str, Made] = dataclasses.field(default_factory=dict)
    present: dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)

    def present_of(self, feature: str) -> tf.Tensor:
        """Which rows have a value of a feature of one value: bool [rows]."""
        if feature not in self.present:
            self.present[feature] = lookups.is_present(self.parsed[feature])
        return self.present[feature]
