"""Labels of a first spec: their entries, and a guess of the head that learns each.

    int64 or float32, values 0 and 1 alone     binary
    int64, every value from 0 to n - 1         multi_class, for 3 to 1000 classes
    string of 2, or of 3 to 1000 words         binary, multi_class, with the words as vocabulary
    any other number                           regression

A guess is marked as one. What no head can learn is an error: a label that is missing everywhere,
that is a list, or that has one value only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from feature_specs.entry import NAME_PATTERN
from feature_specs.errors import did_you_mean
from feature_specs.statistics import FeatureStatistics, Statistics
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze.columns import Entry, number, percent

_MOST_CLASSES = 1000


def check_labels(labels: Sequence[str], statistics: Statistics) -> None:
    """Every label is a feature of the records that a head can learn.

    Raises:
      DataError: one is not.
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
                f"--labels: the name {label!r} cannot be part of a TensorFlow variable's; a name "
                "starts with a letter or digit and goes on with those, _, - and ."
            )
        if not found.values:
            raise DataError(f"--labels: feature {label!r} has no value in any record")
        if found.odd_steps is not None:
            raise DataError(
                f"--labels: {label!r} is a feature list; a label is one value in the context"
            )
        if found.lengths.max > 1:
            raise DataError(
                f"--labels: feature {label!r} has up to {found.lengths.max} values in a record; "
                "a label has one"
            )
        if found.cardinality.value < 2:
            raise DataError(
                f"--labels: feature {label!r} has the same value in all records, from which "
                "nothing can be learned"
            )
        if found.dtype == "string" and not 2 <= found.cardinality.value <= _MOST_CLASSES:
            raise DataError(
                f"--labels: feature {label!r} is text with {found.cardinality.value:,} different "
                f"values; a label has 2 to {_MOST_CLASSES} classes, or is a number"
            )


def label_entries(
    label: str, statistics: FeatureStatistics, rows: int, words: Sequence[tuple[str, int]]
) -> tuple[Entry, Entry]:
    """The entries of a label under `labels` and `objectives`.

    Args:
      label: its name.
      statistics: what was found; `check_labels` has passed.
      rows: number of records.
      words: all words of a string label and their counts, falling.
    """
    value: dict[str, Any] = {"dtype": statistics.dtype}
    comments = []
    if statistics.missing:
        comments.append(
            f"missing in {percent(statistics.missing, rows)} of the records, at which training "
            "stops: a label has no default"
        )
    if statistics.dtype == "string":
        # Words in the order of the alphabet, so that ids stay when frequencies change.
        classes = sorted(word for word, _ in words)
        value["vocabulary"] = classes
        head, guess = _head_of_classes(len(classes))
        if statistics.words is not None and statistics.words.empty:
            comments.append(f"{statistics.words.empty:,} are the empty string, which is no class")
    else:
        head, guess = _head_of_number(statistics)
    shares = [f"{word!a} {percent(count, statistics.values)}" for word, count in words[:5]]
    if head["head"] != "regression" and shares:
        comments.append(", ".join(shares) + (", ..." if len(words) > 5 else ""))
    elif statistics.numbers is not None:
        numbers = statistics.numbers
        comments.append(
            f"{number(numbers.min)} to {number(numbers.max)}, mean {number(numbers.mean)}"
        )
    if statistics.numbers is not None and statistics.numbers.non_finite:
        comments.append(f"{statistics.numbers.non_finite:,} values are NaN or infinite")
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
        return head, f"every integer from 0 to {classes - 1} occurs and no other; or is it a count?"
    return {"head": "regression"}, "a number that is not the index of a class"
