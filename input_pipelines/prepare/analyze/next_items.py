"""A label of next items in a first spec: `next_item_id` for the steps in `item_id`.

    items = next_items.items_of("next_item_id", statistics)      # "item_id"; None for other labels

`--mode=convert --sequence_by` writes such records. The label is a list of categories that has the
name of a feature after `next_`, and as many values. The feature, and other lists of categories that
are as long, get columns of steps, which `sasrec` and `gru4rec` read. This module only reads
statistics, and writes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Optional

from feature_specs.statistics import FeatureStatistics, Statistics
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze.columns import Choice, Entry, free_name
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
    made = dict(choices)
    items = {items_of(label, statistics): label for label in labels}
    found = []
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
            found.append(name)
            made[name] = _steps(name, choice, name in items, frozenset(statistics.features))
    return made, found


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


def label_entries(
    label: str, name: str, statistics: Statistics, choice: Choice
) -> tuple[Entry, Entry]:
    """The entries of a label under `labels` and `objectives`; `choice` is for its items."""
    found = statistics.features[label]
    (step,) = (entry.name for entry in choice.columns if entry.value.get("sequence"))
    lengths = f"{found.lengths.mean:.3g} values on average"
    value = {"dtype": found.dtype, "shape": "variable"}
    head = {"head": "next_item", "items": step}
    guess = (
        f"a guess: its name is {NEXT} and the name of {name}, and both have as many values. Train "
        "with --model=sasrec or gru4rec"
    )
    return Entry(label, value, f"the item after each step, {lengths}"), Entry(label, head, guess)
