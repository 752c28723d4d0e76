"""Checks of features that are lists of lists, and of the groups of ragged columns.

As in `validation`, the checks are generators of problems that do not stop each other. This module
does not import TensorFlow.
"""

from __future__ import annotations

from feature_specs.errors import Path, Problem, unknown
from feature_specs.kinds.base import LISTS_OF_LISTS, feature_under, is_nested
from feature_specs.spec import FeatureSpec
from feature_specs.validation.validation import Problems


def check_row_lengths(spec: FeatureSpec) -> Problems:
    """`row_lengths` names a list of int64."""
    for name, feature in spec.features.items():
        if feature.row_lengths is None:
            continue
        path: Path = ("features", name, "row_lengths")
        lengths = spec.features.get(feature.row_lengths)
        if lengths is None:
            known = [other for other in spec.features if other != name]
            yield unknown(path, feature.row_lengths, "the name of a feature", known)
        elif lengths.dtype != "int64" or lengths.shape != "variable" or lengths.nested:
            yield Problem(
                path,
                f"feature {feature.row_lengths!r} is {lengths.dtype} with {lengths.form}, expected "
                "int64 with shape: variable, the length of each list",
            )


def check_ragged_groups(spec: FeatureSpec) -> Problems:
    """Ragged columns have separate groups, and no other group contains a list of lists."""
    for group, names in spec.groups.items():
        path: Path = ("groups", group)
        ragged = [name for name in names if spec.columns[name].ragged]
        rest = [name for name in names if name not in ragged]
        if ragged and rest:
            yield Problem(
                path,
                f"columns {', '.join(ragged)} are ragged, but {', '.join(rest)} are not. Put them "
                "into separate groups.",
            )
        for name in rest:
            if spec.columns[name].categorical and is_nested(spec, feature_under(spec, name)):
                yield Problem(
                    path,
                    f"column {name!r} {LISTS_OF_LISTS}. Put {{ragged: {name}}} into the group "
                    "instead.",
                )
