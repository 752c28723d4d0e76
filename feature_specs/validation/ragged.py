"""Checks of ragged columns and of the features that are lists of lists.

Like `validation`, generators of problems that do not stop each other. Imports no TensorFlow.
"""

from __future__ import annotations

from feature_specs.errors import Path, Problem
from feature_specs.kinds.column_kinds import (
    Crossed,
    DynamicEmbedding,
    HashBucket,
    Identity,
    Ragged,
    SequenceNumeric,
    Vocabulary,
    Weighted,
)
from feature_specs.spec import FeatureSpec
from feature_specs.validation.validation import Problems, unknown

_LISTS_OF_LISTS = "is a list of lists, which ragged columns alone read"


def check_row_lengths(spec: FeatureSpec) -> Problems:
    """`row_lengths` names a list of int64, beside the list that it cuts."""
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


def check_ragged(spec: FeatureSpec) -> Problems:
    """A ragged column is of a list of numbers, or of ids out of a list."""
    for name, column in spec.columns.items():
        if not isinstance(column, Ragged):
            continue
        path: Path = ("columns", name, "ragged")
        source = spec.columns.get(column.source)
        feature = spec.features.get(column.source)
        if source is not None and source.categorical:
            yield from _check_ids(spec, column, path)
        elif feature is None and source is not None and column.source != name:
            yield Problem(
                path,
                f"column {column.source!r} is {source.kind}, expected an identity, vocabulary or "
                "hash_bucket column, or a feature of numbers",
            )
        elif feature is None:
            known = [*(n for n, c in spec.columns.items() if c.categorical), *spec.features]
            yield unknown(
                path, column.source, "a categorical column or a feature of numbers", known
            )
        elif feature.dtype == "string" or not feature.variable:
            hint = "; for words make a hash_bucket or vocabulary column, and a ragged one of it"
            yield Problem(
                path,
                f"feature {column.source!r} is {feature.dtype} with {feature.form}, expected "
                "numbers with shape: variable or feature_list: true"
                + hint * (feature.dtype == "string" and feature.variable),
            )


def _check_ids(spec: FeatureSpec, column: Ragged, path: Path) -> Problems:
    source = spec.columns[column.source]
    if not isinstance(source, (Identity, Vocabulary, HashBucket)):
        yield Problem(
            path,
            f"column {column.source!r} is {source.kind}, expected an identity, vocabulary or "
            "hash_bucket column",
        )
        return
    if column.normalizer:
        yield Problem(
            (*path[:-1], "normalizer"),
            f"column {column.source!r} has ids, which are not normalized; remove it",
        )
    feature = spec.features.get(source.source)
    if feature is not None and not feature.variable:
        yield Problem(
            path,
            f"column {column.source!r} is of one value a record, expected a list; declare its "
            "feature with shape: variable",
        )


def check_lists_of_lists(spec: FeatureSpec) -> Problems:
    """No other column than a ragged one reads a list of lists."""
    for name, column in spec.columns.items():
        path: Path = ("columns", name)
        if isinstance(column, Crossed):
            for i, key in enumerate(column.sources):
                if _is_nested(spec, _feature_under(spec, key)):
                    yield Problem((*path, "crossed", i), f"{key!r} {_LISTS_OF_LISTS}")
        elif isinstance(column, SequenceNumeric):
            if _is_nested(spec, column.source):
                yield Problem(
                    (*path, column.kind),
                    f"feature {column.source!r} {_LISTS_OF_LISTS}; make it {{ragged: "
                    f"{column.source}}}",
                )
        elif isinstance(column, DynamicEmbedding):
            if _is_nested(spec, column.source):
                yield Problem(
                    (*path, column.kind), f"feature {column.source!r} {_LISTS_OF_LISTS}"
                )
        elif isinstance(column, (Identity, Vocabulary, HashBucket)):
            if column.sequence and _is_nested(spec, column.source):
                yield Problem(
                    (*path, "sequence"),
                    f"feature {column.source!r} {_LISTS_OF_LISTS}; remove sequence",
                )
        elif column.kind in ("embedding", "indicator", "weighted"):
            if _is_nested(spec, _feature_under(spec, column.source)):
                yield Problem(
                    (*path, column.kind),
                    f"column {column.source!r} {_LISTS_OF_LISTS}; make it {{ragged: "
                    f"{column.source}}}, and combine vectors in a model of your own",
                )
            elif isinstance(column, Weighted) and _is_nested(spec, column.weight):
                yield Problem(
                    (*path, "weight"), f"feature {column.weight!r} {_LISTS_OF_LISTS}"
                )


def _feature_under(spec: FeatureSpec, key: str) -> str:
    """The feature that a column of single ids reads, or the key itself."""
    column = spec.columns.get(key)
    return column.source if isinstance(column, (Identity, Vocabulary, HashBucket)) else key


def _is_nested(spec: FeatureSpec, feature: str) -> bool:
    return feature in spec.features and spec.features[feature].nested


def check_ragged_groups(spec: FeatureSpec) -> Problems:
    """A group of ragged columns has no others, and a list of lists is in no other group."""
    for group, names in spec.groups.items():
        path: Path = ("groups", group)
        ragged = [name for name in names if isinstance(spec.columns[name], Ragged)]
        rest = [name for name in names if name not in ragged]
        if ragged and rest:
            yield Problem(
                path,
                f"columns {', '.join(ragged)} are ragged, and {', '.join(rest)} not; put them into "
                "groups of their own",
            )
        for name in rest:
            if spec.columns[name].categorical and _is_nested(spec, _feature_under(spec, name)):
                yield Problem(
                    path,
                    f"column {name!r} {_LISTS_OF_LISTS}; put {{ragged: {name}}} into the group "
                    "instead",
                )
