"""The labels of a first spec: their entries, and a guess of the head for each label.

    int64 or float32, only values 0 and 1      binary
    int64, every value from 0 to n - 1         multi_class, for 3 to 1000 classes
    string of 2, or of 3 to 1000 words         binary, multi_class, with the words as vocabulary
    any other number                           regression
    a list that follows the steps of another   next_item; see `next_items`

The spec marks each guess as a guess. A label that no head can learn is an error: a label that is
missing in all records, is a list, or has only one value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from feature_specs.entry import NAME_PATTERN
from feature_specs.errors import counted, did_you_mean
from feature_specs.statistics import FeatureStatistics, Statistics
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import next_items
from input_pipelines.prepare.analyze.columns import Entry, percent
from input_pipelines.prepare.analyze.numbers import with_commas

_MOST_CLASSES = 1000


def check_labels(labels: Sequence[str], statistics: Statistics) -> None:
    """Checks that every label is a feature of the records that a head can learn.

    Raises:
      DataError: a label is not such a feature.
    """
    for label in labels:
        found = statistics.features.get(label)
        if found is None:
            raise DataError(
                f"--labels: no record has a feature {label!r}"
                f"{did_you_mean(label, statistics.features)}"
            )
        if not re.fullmatch(NAME_PATTERN, label):
            raise DataError(
                f"--labels: the name {label!r} cannot be part of a TensorFlow variable's name; use "
                "letters, digits, _, - and ., and start with a letter or digit"
            )
        if not found.values:
            raise DataError(f"--labels: feature {label!r} has no value in any record")
        if found.odd_steps is not None:
            raise DataError(
                f"--labels: {label!r} is a feature list; a label must be one value in the context"
            )
        items = next_items.items_of(label, statistics) is not None
        if found.lengths.max > 1 and not items:
            raise DataError(
                f"--labels: feature {label!r} has up to {found.lengths.max} values in a record; "
                "a label must have one"
            )
        if found.cardinality.value < 2:
            raise DataError(
                f"--labels: feature {label!r} has the same value in all records, from which a "
                "model cannot learn"
            )
        if (
            found.dtype == "string"
            and not items
            and not 2 <= found.cardinality.value <= _MOST_CLASSES
        ):
            raise DataError(
                f"--labels: feature {label!r} is text with {found.cardinality.value:,} different "
                f"values; a label must have 2 to {_MOST_CLASSES} classes, or be a number"
            )


def label_entries(
    label: str, statistics: FeatureStatistics, rows: int, words: Sequence[tuple[str, int]]
) -> tuple[Entry, Entry]:
    """The entries of a label under `labels` and `objectives`.

    Args:
      label: its name.
      statistics: its statistics, which `check_labels` has accepted.
      rows: the number of records.
      words: all words of a string label and their counts, in decreasing order.
    """
    value: dict[str, Any] = {"dtype": statistics.dtype}
    comments = []
    if statistics.missing:
        comments.append(
            f"missing in {percent(statistics.missing, rows)} of the records, which stop training: "
            "a label has no default"
        )
    if statistics.dtype == "string":
        # Words are sorted by name, so that ids do not change when frequencies change.
        classes = sorted(word for word, _ in words)
        value["vocabulary"] = classes
        head, guess = _head_of_classes(len(classes))
        if statistics.words is not None and statistics.words.empty:
            comments.append(
                f"{counted(statistics.words.empty, 'value')} with the empty string, which is not "
                "a class"
            )
    else:
        head, guess = _head_of_number(statistics)
    shares = [f"{word!a} {percent(count, statistics.values)}" for word, count in words[:5]]
    if head["head"] != "regression" and shares:
        comments.append(", ".join(shares) + (", ..." if len(words) > 5 else ""))
    elif statistics.numbers is not None:
        numbers = statistics.numbers
        low, high, mean = map(with_commas, (numbers.min, numbers.max, numbers.mean))
        comments.append(f"{low} to {high}, mean {mean}")
    if statistics.numbers is not None and statistics.numbers.non_finite:
        comments.append(f"{counted(statistics.numbers.non_finite, 'value')} with NaN or infinity")
    return Entry(label, value, "; ".join(comments)), Entry(label, head, f"a guess: {guess}")


def _head_of_classes(classes: int) -> tuple[dict[str, Any], str]:
    if classes == 2:
        return {"head": "binary"}, "two values"
    return {"head": "multi_class", "num_classes": classes}, f"{classes} values"


def _head_of_number(statistics: FeatureStatistics) -> tuple[dict[str, Any], str]:
    numbers, cardinality = statistics.numbers, statistics.cardinality
    assert numbers is not None
    classes = cardinality.value
    whole = numbers.min == 0 and numbers.max == classes - 1
    if whole and classes == 2:
        return {"head": "binary"}, "0 and 1 are all its values"
    if whole and statistics.dtype == "int64" and classes <= _MOST_CLASSES:
        head = {"head": "multi_class", "num_classes": classes}
        return head, (
            f"all values are integers from 0 to {classes - 1}, and each occurs. If the label is a "
            "count, use the head regression or poisson"
        )
    return {"head": "regression"}, "a number that is not the index of a class"
