"""Which rows of a table a first experiment trains on, if the user does not say it.

    split, why = first_split.default(statistics, roles, times, ranking=False)   # "rows", "..."

Rows are split at random, unless rows of one person or query would give away the answer of others:
then all rows of one are on the same side. This module only reads statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from feature_specs.kinds.time import UNITS
from feature_specs.statistics import Statistics
from input_pipelines.prepare.analyze.roles import Roles

EVAL_SHARE = TEST_SHARE = "0.1"

# With fewer ids, a tenth of them says little.
_FEWEST_IDS = 50

# If only one or two features belong to an id, they hardly give a row away.
_FEWEST_FEATURES = 3


class Split(NamedTuple):
    """A value of `--split`, and why."""

    value: str
    why: str


def default(
    statistics: Statistics, roles: Roles, times: Mapping[str, str], *, ranking: bool
) -> Split:
    """The split of a first experiment.

    Args:
      statistics: of all rows.
      roles: which features name persons and queries.
      times: the format of each feature of dates or times.
      ranking: whether an objective ranks the rows of a query.
    """
    at_random = Split("rows", f"rows at random{_by_time(statistics, times)}")
    group = roles.group
    feature = statistics.features.get(group) if group is not None else None
    if group is None or feature is None or feature.missing:
        return at_random
    if ranking and group == roles.query:
        return Split(f"key:{group}", f"all rows of one {group} are on the same side, to be ranked")
    if feature.cardinality.value < _FEWEST_IDS:
        return at_random
    if roles.shared_labels:
        label = roles.shared_labels[0]
        why = f"all rows of one {group} are on the same side, because they share {label}"
        return Split(f"key:{group}", why)
    if len(roles.of_group) >= _FEWEST_FEATURES:
        some = ", ".join(roles.of_group[:_FEWEST_FEATURES])
        more = ", ..." if len(roles.of_group) > _FEWEST_FEATURES else ""
        why = f"all rows of one {group} are on the same side, because they share {some}{more}"
        return Split(f"key:{group}", why)
    why = f"rows at random, so rows of one {group} are on both sides"
    why += f"; for a {group} that is new, use --split=key:{group}"
    return Split("rows", why + _by_time(statistics, times))


def _by_time(statistics: Statistics, times: Mapping[str, str]) -> str:
    """How to split by the first feature whose times can be compared; "" without one."""
    for name, form in times.items():
        feature = statistics.features[name]
        grows = ("%Y", *UNITS) if feature.dtype == "int64" else ("%Y-%m-%d",)
        if not feature.missing and form.startswith(grows):
            return f"; to be judged by later rows, use --split=time:{name}"
    return ""
