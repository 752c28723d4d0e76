"""`ConvertOptions` and its parts: what a user decides about a conversion. Imports no packages."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any, Optional

# The parts of rows that are split, in the order of their numbers in `split.sides`.
SIDES = TRAIN, EVAL, TEST = "train", "eval", "test"

# The feature with the targets of the steps `item_id` is `next_item_id`.
NEXT = "next_"


@dataclasses.dataclass(frozen=True)
class SequenceOptions:
    """How the rows of a log become sequences, one history for each value of a key.

    Attributes:
      by: the key, such as the column with the user.
      order_by: the column with the time or another number that orders the rows of a history.
      columns: the columns whose values become lists. The first one is the item to predict.
      steps: the most steps of a sequence; None for no limit.
      targets: `next`: the target of each step is the item of the next row. `leave_one_out`: also,
        but the last item of each history is only in the test data, and the item before it is the
        last target of the evaluation data.
    """

    by: str
    order_by: str
    columns: tuple[str, ...]
    steps: Optional[int] = None
    targets: str = "next"

    @property
    def target(self) -> str:
        """The feature with the targets."""
        return f"{NEXT}{self.columns[0]}"

    @property
    def features(self) -> tuple[str, ...]:
        """The features of a record."""
        return (self.by, *self.columns, self.target)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of the log that are read."""
        return tuple(dict.fromkeys([self.by, self.order_by, *self.columns]))


TESTS = ("equals", "above", "in")
_DERIVED = re.compile(rf"([^=]+)=(.+?):({'|'.join(TESTS)}):(.+)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class DerivedLabel:
    """A label that is 1 if the value of a column passes a test, and 0 if not.

    Attributes:
      name: the name of the label.
      column: the column.
      test: `equals` a value, `above` a number, or `in` several values.
      values: what the test compares with, as text. Only `in` has several.
    """

    name: str
    column: str
    test: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> DerivedLabel:
        """A label from a text such as `liked=rating:above:3` or `bought=event:in:buy|order`.

        Raises:
          ValueError: the text has another form.
        """
        match = _DERIVED.fullmatch(text)
        if match is None:
            raise ValueError(
                f"--derive_labels: got {text!r}, expected a label, a column and a test, such as "
                "bought=event:equals:buy, liked=rating:above:3 or bought=event:in:buy|order."
            )
        name, column, test, value = match.groups()
        values = tuple(value.split("|")) if test == "in" else (value,)
        if "" in values:
            raise ValueError(f"--derive_labels: got {text!r}, which has an empty value. Remove it.")
        if test == "above" and not _is_number(value):
            raise ValueError(
                f"--derive_labels: got {text!r}, expected a number after above, such as 3."
            )
        return cls(name, column, test, values)

    def __str__(self) -> str:
        return f"{self.name}={self.column}:{self.test}:{'|'.join(self.values)}"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


@dataclasses.dataclass(frozen=True)
class ConvertOptions:
    """How rows become shards. The code for the flags checks the values.

    Attributes:
      shard_mib: about how many MiB of records a shard has, before compression.
      compression: `none`, or `gzip`, which adds .gz to the names.
      order: `stable` keeps the order of the rows in the sorted files; `shuffled` shuffles all rows.
      seed: decides the shuffled order.
      split_key: the column whose values decide which rows are for evaluation and for testing.
      split_rows: whether a hash of the number of each row decides it.
      split_time: the column whose later values are for evaluation and testing. At most one of these
        three is given; without any, rows are not split.
      eval_fraction: the share of the key's values, or of the rows, that is for evaluation.
      eval_from: with `split_time`, the first value for evaluation. If None, `eval_fraction` decides
        it.
      test_fraction: the share that is for testing; 0 for a split without a part for it.
      test_from: with `split_time`, the first value for testing. The rows for evaluation end before
        it. If None, `test_fraction` decides it.
      step_columns: without a spec, columns of lists that become feature lists of SequenceExamples.
      derived_labels: labels that are made from columns.
      sequences: how the rows become sequences; None to write each row as a record.
    """

    shard_mib: int = 100
    compression: str = "none"
    order: str = "stable"
    seed: int = 1
    split_key: Optional[str] = None
    split_rows: bool = False
    split_time: Optional[str] = None
    eval_fraction: float = 0.0
    eval_from: Optional[str] = None
    test_fraction: float = 0.0
    test_from: Optional[str] = None
    step_columns: tuple[str, ...] = ()
    derived_labels: tuple[DerivedLabel, ...] = ()
    sequences: Optional[SequenceOptions] = None

    @property
    def is_split(self) -> bool:
        """Whether there are records for training and for evaluation."""
        return self.split_key is not None or self.split_rows or self.split_time is not None

    @property
    def has_test(self) -> bool:
        """Whether a split has a part for testing."""
        return self.test_fraction > 0 or self.test_from is not None

    @property
    def columns_read(self) -> set[str]:
        """The columns that must be read, whether or not records have them."""
        names = {label.column for label in self.derived_labels}
        return names | {name for name in (self.split_key, self.split_time) if name is not None}

    @property
    def shares(self) -> dict[str, float]:
        """The parts into which rows are split, with each part's share of the keys or the rows."""
        if not self.is_split:
            return {"data": 1.0}
        shares = {
            TRAIN: 1.0 - self.eval_fraction - self.test_fraction,
            EVAL: self.eval_fraction,
        }
        return {**shares, TEST: self.test_fraction} if self.has_test else shares

    @property
    def suffix(self) -> str:
        return ".tfrecord.gz" if self.compression == "gzip" else ".tfrecord"

    def document(self) -> dict[str, Any]:
        """The options that influence the contents of shards, by the names of their flags."""
        values = {
            "shard_mib": self.shard_mib,
            "shard_compression": self.compression,
            "convert_order": self.order,
            "split_key": self.split_key,
            "eval_fraction": self.eval_fraction if self.is_split else None,
            "step_columns": list(self.step_columns),
        }
        if self.order == "shuffled":
            values["seed"] = self.seed
        # Options that are newer than the first plans appear only if they are given.
        if self.split_rows:
            values["split_rows"] = True
        if self.split_time is not None:
            values |= {"split_time": self.split_time, "eval_from": self.eval_from}
        if self.has_test:
            values |= {"test_fraction": self.test_fraction, "test_from": self.test_from}
        if self.derived_labels:
            values["derive_labels"] = list(map(str, self.derived_labels))
            values["compares"] = "all digits"  # Earlier versions compared rounded numbers.
        if self.sequences is not None:
            values["sequences"] = {
                **dataclasses.asdict(self.sequences),
                "columns": list(self.sequences.columns),
            }
        return values
