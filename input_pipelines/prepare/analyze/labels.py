"""The labels of a first spec: their entries, and a guess of the head for each label.

    int64 or float32, only values 0 and 1      binary
    int64, every value from 0 to n - 1         multi_class, for 3 to 1000 classes
    int64 in a CSV file, two other values      binary, with these as words: 2 of 1 and 2 is positive
    string of 2, or of 3 to 1000 words         binary, multi_class, with the words as vocabulary
    any other number                           regression
    a grade of the rows of a query             ranking, if a feature names the query
    a list that follows the steps of another   next_item: `next_item_id` for the steps in `item_id`

The spec marks each guess as a guess. A label that no head can learn is an error: a label that is
missing in all records, is a list, or has only one value.

`--mode=convert --sequence_by` writes records with next items. Their label is a list of categories
that has the name of a feature after `next_`, and as many values. The feature, and other lists of
categories that are as long, get columns of steps, which `sasrec` and `gru4rec` read. This module
only reads statistics, and writes nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from feature_specs.errors import counted, did_you_mean
from feature_specs.statistics import FeatureStatistics, Numbers, Statistics
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze.columns import Choice, Entry, free_name, percent
from input_pipelines.prepare.analyze.numbers import with_commas
from input_pipelines.prepare.analyze.overrides import check_name
from input_pipelines.prepare.convert.options import NEXT

# Items are scored with these vectors, so they are wider than the vectors of other categories.
_ITEM_DIMENSION = 64


def items_of(label: str, statistics: Statistics) -> Optional[str]:
    """The feature with the steps that a label follows; None for a label of another kind."""
    name = label.removeprefix(NEXT)
    items, targets = statistics.features.get(name), statistics.features.get(label)
    if name == label or items is None or targets is None or items.dtype != targets.dtype:
        return None
    if items.dtype not in ("string", "int64") or targets.lengths.max < 2:
        return None
    return name if _as_long(items, targets) else None


def _as_long(one: FeatureStatistics, other: FeatureStatistics) -> bool:
    return one.odd_steps is None and one.lengths.counts == other.lengths.counts


def with_steps(
    choices: Mapping[str, Choice], labels: Sequence[str], statistics: Statistics
) -> tuple[dict[str, Choice], list[str]]:
    """The choices, with columns of steps for labels of next items; and the names of these features.

    Raises:
      DataError: a feature with items has no column.
    """
    changed = dict(choices)
    items = {items_of(label, statistics): label for label in labels}
    names = []
    for name, choice in choices.items():
        as_long = any(
            of is not None and _as_long(statistics.features[name], statistics.features[label])
            for of, label in items.items()
        )
        category = choice.columns and "numeric" not in choice.columns[0].value
        if name in items and not category:
            raise DataError(
                f"--labels: {items[name]!r} follows {name!r}, which has no usable values"
            )
        if as_long and category:
            names.append(name)
            changed[name] = _steps(name, choice, name in items, frozenset(statistics.features))
    return changed, names


def _steps(name: str, choice: Choice, items: bool, taken: frozenset[str]) -> Choice:
    """A choice with columns of steps. The first column has the ids."""
    ids, dense = choice.columns[0], choice.columns[1]
    step = free_name(f"{name}_step", taken)
    vector = free_name(f"{step}_emb", taken)
    of_step = {"embedding": step, "dimension": dense.value.get("dimension", 4)}
    why = "the vector of each step"
    if items:
        of_step["dimension"] = _ITEM_DIMENSION
        why = "the vector of each step; the next items are scored with it, so it is wide"
    columns = (
        *choice.columns,
        Entry(step, {**ids.value, "sequence": True}, "the same ids, one for each step, in order"),
        Entry(vector, of_step, why),
    )
    return dataclasses.replace(choice, columns=columns, steps=(vector,))


def next_item_entries(
    label: str, name: str, statistics: Statistics, choice: Choice, *, repeats: bool
) -> tuple[Entry, Entry]:
    """The entries of a label under `labels` and `objectives`.

    Args:
      label: the name of the label.
      name: the feature with its items.
      statistics: of all features.
      choice: the columns of the items.
      repeats: whether a record has an item twice.
    """
    feature = statistics.features[label]
    (step,) = (entry.name for entry in choice.columns if entry.value.get("sequence"))
    lengths = f"{feature.lengths.mean:.3g} values on average"
    value = {"dtype": feature.dtype, "shape": "variable"}
    head: dict[str, Any] = {"head": "next_item", "items": step}
    if not repeats:
        head["exclude_seen"] = True
    guess = (
        f"a guess: its name is {NEXT} and the name of {name}, and both have as many values. Train "
        "with --model=sasrec or gru4rec. "
    )
    guess += (
        "Records have items twice, so exclude_seen stays off"
        if repeats
        else "No record has an item twice, so exclude_seen leaves out the items that a user has had"
    )
    return Entry(label, value, f"the item after each step, {lengths}"), Entry(label, head, guess)


# The grades of usual data sets for ranking are 0 to 4.
_LARGEST_GRADE = 4


def is_ranking(label: str, statistics: Statistics, query: Optional[str]) -> bool:
    """Whether a label has the grades of the rows of a query: 0 to 4, or 0 and 1 with a `qid`."""
    feature = statistics.features[label]
    numbers = feature.numbers
    if query is None or numbers is None or feature.dtype != "int64" or feature.missing:
        return False
    if numbers.min < 0 or numbers.max > _LARGEST_GRADE:
        return False
    return numbers.max > 1 or query.lower() == "qid"


def ranking_entries(label: str, query: str, statistics: Statistics) -> tuple[Entry, Entry]:
    """The entries of a label with grades under `labels` and `objectives`."""
    feature, groups = statistics.features[label], statistics.features[query].cardinality.value
    numbers = feature.numbers
    assert numbers is not None
    value = {"dtype": feature.dtype}
    head = {"head": "ranking", "group_by": query, "metrics": [{"ndcg": 10}]}
    grades = f"grades {int(numbers.min)} to {int(numbers.max)}, mean {with_commas(numbers.mean)}"
    guess = (
        f"a guess: {query!r} names the query of a row, with {statistics.rows / groups:.3g} rows "
        "each on average, and a higher grade is better. To learn each row alone, use the head "
        f"{_head_of_number(feature)[0]['head']}"
    )
    return Entry(label, value, grades), Entry(label, head, guess)


_MOST_CLASSES = 1000

# With fewer rows of a class, a tenth of all rows may have none of them.
_RARE = 50


def check_labels(labels: Sequence[str], statistics: Statistics) -> None:
    """Checks that every label is a feature of the records that a head can learn.

    Raises:
      DataError: a label is not such a feature.
    """
    for label in labels:
        feature = statistics.features.get(label)
        if feature is None:
            raise DataError(
                f"--labels: no record has a feature {label!r}"
                f"{did_you_mean(label, statistics.features)}"
            )
        check_name("labels", label)
        if not feature.values:
            raise DataError(f"--labels: feature {label!r} has no value in any record")
        if feature.odd_steps is not None:
            raise DataError(
                f"--labels: {label!r} is a feature list; a label must be one value in the context"
            )
        items = items_of(label, statistics) is not None
        if feature.lengths.max > 1 and not items:
            raise DataError(
                f"--labels: feature {label!r} has up to {feature.lengths.max} values in a record; "
                "a label must have one"
            )
        if feature.cardinality.value < 2:
            raise DataError(
                f"--labels: feature {label!r} has the same value in all records, from which a "
                "model cannot learn"
            )
        if (
            feature.dtype == "string"
            and not items
            and not 2 <= feature.cardinality.value <= _MOST_CLASSES
        ):
            raise DataError(
                f"--labels: feature {label!r} is text with {feature.cardinality.value:,} different "
                f"values; a label must have 2 to {_MOST_CLASSES} classes, or be a number"
            )


def label_entries(
    label: str,
    statistics: FeatureStatistics,
    rows: int,
    words: Sequence[tuple[str, int]],
    *,
    text_cells: bool = False,
) -> tuple[Entry, Entry]:
    """The entries of a label under `labels` and `objectives`.

    Args:
      label: its name.
      statistics: its statistics, which `check_labels` has accepted.
      rows: the number of records.
      words: all words of a string label and their counts, in decreasing order. The integers of
        another label, as text.
      text_cells: whether the records are text, as in a CSV file. Then the integers 1 and 2 may be
        read as the two words of a binary label.
    """
    value: dict[str, Any] = {"dtype": statistics.dtype}
    comments = []
    if statistics.missing:
        comments.append(
            f"missing in {percent(statistics.missing, rows)} of the records, which `mask` leaves "
            "out of the loss and the metrics"
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
    elif text_cells and _two_other_integers(statistics):
        classes = sorted((word for word, _ in words), key=int)
        value = {"dtype": "string", "vocabulary": classes}
        head, guess = {"head": "binary"}, f"two values; {classes[1]} is the positive class"
    else:
        head, guess = _head_of_number(statistics)
    if statistics.missing:
        value["missing"] = "mask"
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


def warnings_of(
    label: str,
    statistics: FeatureStatistics,
    rows: int,
    words: Sequence[tuple[str, int]],
    head: str,
) -> list[str]:
    """What a user must know of a label before training; for the arguments, see `label_entries`."""
    result = []
    numbers = statistics.numbers
    if head == "regression" and numbers is not None and _two_other_integers(statistics):
        low, high = int(numbers.min), int(numbers.max)
        result.append(
            f"{label} has the two values {low} and {high}, and is learned as a number. If they "
            f"are classes, make a label of 0 and 1: --derive_labels=NAME={label}:equals:{high}"
        )
    counts = [count for _, count in words] if head in ("binary", "multi_class") else []
    if counts and min(counts) < _RARE:
        rarest = min(words, key=lambda word: word[1])
        result.append(
            f"only {counted(rarest[1], 'row')} have {label} {rarest[0]!r}. An evaluation may have "
            "none of them, and then a metric such as the AUC is undefined and training stops. "
            "Use more rows, or larger parts with --split_eval and --split_test"
        )
    if statistics.missing:
        result.append(
            f"{percent(statistics.missing, rows)} of the records have no {label}, and are left out "
            "of the loss and the metrics"
        )
    return result


def _two_other_integers(statistics: FeatureStatistics) -> bool:
    """Whether all values are two integers other than 0 and 1, such as 1 and 2 or -1 and 1."""
    numbers = statistics.numbers
    if statistics.dtype != "int64" or statistics.cardinality.value != 2 or numbers is None:
        return False
    return (numbers.min, numbers.max) != (0, 1)


def _head_of_classes(classes: int) -> tuple[dict[str, Any], str]:
    if classes == 2:
        return {"head": "binary"}, "two values"
    return {"head": "multi_class", "num_classes": classes}, f"{classes} values"


def _head_of_number(statistics: FeatureStatistics) -> tuple[dict[str, Any], str]:
    numbers, cardinality = statistics.numbers, statistics.cardinality
    assert numbers is not None
    classes = cardinality.value
    is_class_index = numbers.min == 0 and numbers.max == classes - 1
    if is_class_index and classes == 2:
        return {"head": "binary"}, "0 and 1 are all its values"
    if is_class_index and statistics.dtype == "int64" and classes <= _MOST_CLASSES:
        head = {"head": "multi_class", "num_classes": classes}
        return head, (
            f"all values are integers from 0 to {classes - 1}, and each occurs. If the label is a "
            "count, use the head regression or poisson"
        )
    return _regression(numbers), (
        "a number that is not the index of a class. The model learns it in standard deviations "
        "from its mean"
    )


def _regression(numbers: Numbers) -> dict[str, Any]:
    """The head of a number, whatever its unit: a model learns prices slowly, but not z-scores."""
    center, scale = (float(f"{value:.6g}") for value in (numbers.mean, numbers.stddev))
    if not math.isfinite(center) or not math.isfinite(scale) or scale <= 0:
        return {"head": "regression"}
    return {"head": "regression", "center": center, "scale": scale}
