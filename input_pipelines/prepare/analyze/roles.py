"""Which features name the person, the query and the item of a row.

    roles = recognized(statistics, labels=["click"], sample=sample)
    roles.person, roles.query, roles.item      # "user_id", None, "item_id"

Names decide, and then the values must fit: each value of an id occurs in several rows, and there
are many of them. In a sample of rows, a feature *belongs* to an id if it is the same in all rows
with one value of the id: the age of a person, the price of an item. An id without such a name is
recognized if many features belong to it. This module only reads statistics.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Optional

import numpy as np

from feature_specs.statistics import FeatureStatistics, Statistics

# Some rows, by feature: int64 [rows], equal for equal values, -1 for a missing one.
Sample = Mapping[str, np.ndarray]

_SUFFIX = "(id|key|no|num|number|hash|uuid)"
_NAMES = {
    "query": rf"qid|(q|query|search|srch){_SUFFIX}",
    "person": rf"uid|user|visitor|customer|member|(user|customer|client|member|person|visitor|"
    rf"account|patient|subject|player|viewer|shopper|session|household){_SUFFIX}",
    "item": rf"item|sku|asin|(item|product|movie|film|book|song|track|artist|ad|article|news|video|"
    rf"creative|hotel|doc|document|post|recipe){_SUFFIX}",
    "time": r"ts|time|datetime|timestamp|unixtime|(event|click|view|order|created|visit|purchase|"
    r"rating|review)(time|timestamp|date|at)|date|day|position|pos|step",
}

# Fewer different values are a category, such as member: yes or no.
_FEWEST_IDS = 20

# With fewer rows for each value, an id is nearly a key of the row.
_FEWEST_ROWS = 1.5

# The sample decides nothing if fewer values of an id have two rows or more.
_FEWEST_SEEN = 20

# The share of rows that may differ from the first row of their id.
_ODD = 0.01

# How many features belong to an id without the name of one: a number, and a share of all.
_FEWEST_OF_ID, _SHARE_OF_ID = 5, 0.4


@dataclasses.dataclass(frozen=True)
class Roles:
    """The features with a role; None or empty if no feature has it.

    Attributes:
      person: who the row is about, also a session.
      query: the search or request that the row answers.
      item: what is shown or bought.
      group: the id whose rows belong together: the query, the person, or an id without such a name.
      of_person, of_item, of_group: the features that belong to these ids, without ids.
      shared_labels: the labels that all rows of the group have in common.
    """

    person: Optional[str] = None
    query: Optional[str] = None
    item: Optional[str] = None
    group: Optional[str] = None
    of_person: tuple[str, ...] = ()
    of_item: tuple[str, ...] = ()
    of_group: tuple[str, ...] = ()
    shared_labels: tuple[str, ...] = ()


def recognized(
    statistics: Statistics, labels: Sequence[str], sample: Optional[Sample] = None
) -> Roles:
    """The roles of the features.

    Args:
      statistics: of all records.
      labels: the labels, which have no role.
      sample: some rows. Without it, only names and counts decide.
    """
    sample = sample or {}
    ids = [
        name
        for name, feature in statistics.features.items()
        if name not in labels and _repeats(feature, statistics.rows)
    ]
    found: dict[str, str] = {}
    for role in ("query", "person", "item"):
        for name in ids:
            if name not in found.values() and named(role, name):
                found.setdefault(role, name)
    others = [n for n in statistics.features if n not in labels and n not in found.values()]
    person, item = found.get("person"), found.get("item")
    of_person = _belonging(person, others, sample)
    of_item = [n for n in _belonging(item, others, sample) if n not in of_person]
    group = found.get("query") or person or _unnamed(ids, others, sample)
    of_group = [n for n in _belonging(group, others, sample) if n != group]
    return Roles(
        **found,
        group=group,
        of_person=tuple(of_person),
        of_item=tuple(of_item),
        of_group=tuple(of_group),
        shared_labels=tuple(_belonging(group, labels, sample)),
    )


def named(role: str, name: str) -> bool:
    """Whether a name says that a feature has a role; also the role `time`."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return re.fullmatch(_NAMES[role], plain) is not None


def _repeats(feature: FeatureStatistics, rows: int) -> bool:
    """Whether a feature may be the id of something that several rows have in common."""
    if feature.dtype not in ("int64", "string") or feature.lengths.max > 1:
        return False
    count = feature.cardinality.value
    return count >= _FEWEST_IDS and rows >= _FEWEST_ROWS * count


def _unnamed(ids: Sequence[str], names: Sequence[str], sample: Sample) -> Optional[str]:
    """The id to which the most features belong, if these are many."""
    counts = {key: len([n for n in _belonging(key, names, sample) if n != key]) for key in ids}
    best = max(counts, key=lambda key: counts[key], default=None)
    fewest = max(_FEWEST_OF_ID, _SHARE_OF_ID * len(names))
    return best if best is not None and counts[best] >= fewest else None


def _belonging(key: Optional[str], names: Sequence[str], sample: Sample) -> list[str]:
    """The features that are the same in all rows with one value of `key`, but not in all rows."""
    if key is None or key not in sample:
        return []
    codes = sample[key]
    rows = np.argsort(codes, kind="stable")
    rows = rows[codes[rows] >= 0]
    _, starts, sizes = np.unique(codes[rows], return_index=True, return_counts=True)
    if int((sizes > 1).sum()) < _FEWEST_SEEN:
        return []
    first_of = np.repeat(starts, sizes)
    later = np.repeat(sizes > 1, sizes) & (np.arange(len(rows)) != first_of)
    found = []
    for name in names:
        if name not in sample:
            continue
        values = sample[name][rows]
        odd = int((values != values[first_of])[later].sum())
        varies = len(np.unique(values[starts[sizes > 1]])) > 1
        if varies and odd <= _ODD * int(later.sum()):
            found.append(name)
    return found
