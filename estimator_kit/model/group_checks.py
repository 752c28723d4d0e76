"""Checks whether a model can read a group of the spec, before any graph is built.

Each check raises `ConfigError` with the group, the column and a remedy. This module makes no
tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Optional, get_args

from estimator_kit.errors import ConfigError
from feature_specs.spec import FeatureSpec

Check = Callable[[FeatureSpec, str], None]

# The dense forms of columns that are embedding vectors.
VECTORS = ("embedding",)


def check_dense_group(spec: FeatureSpec, group: str) -> None:
    """Rejects a group that a DNN cannot read, before any graph is built."""
    for name in columns_of(spec, group):
        column = spec.columns[name]
        _refuse_ragged(spec, group, name)
        if spec.is_sequence(name):
            raise ConfigError(
                f"group {group!r}: column {name!r} has one value per step, expected one per "
                "record. To read steps, use a sequence model, or self.sequence_input in your own "
                "model."
            )
        if column.dense is None:
            raise ConfigError(
                f"group {group!r}: column {name!r} is {column.kind}, which has no dense form. "
                "Put an embedding or indicator column of it into the group instead."
            )


def check_linear_group(spec: FeatureSpec, group: str) -> None:
    """Rejects a group that a linear model cannot read."""
    for name in columns_of(spec, group):
        column = spec.columns[name]
        _refuse_ragged(spec, group, name)
        if spec.is_sequence(name):
            raise ConfigError(
                f"group {group!r}: column {name!r} has one value per step, which a linear model "
                "cannot read. Remove sequence."
            )
        reason = column.not_linear()
        if reason is not None:
            raise ConfigError(f"group {group!r}: column {name!r} {reason}")


def _refuse_ragged(spec: FeatureSpec, group: str, name: str) -> None:
    """Rejects a ragged column, with a remedy."""
    column = spec.columns[name]
    if not column.ragged:
        return
    ids = column.category(spec)
    remedy = "numbers of a fixed shape or a bucketized column of them"
    if ids is not None and not spec.features[next(spec.features_of(ids))].nested:
        remedy = f"an embedding of {ids!r} with a combiner, or an indicator of it"
    raise ConfigError(
        f"group {group!r}: column {name!r} is ragged, which only your own model can read, with "
        f"self.ragged_input. Instead of the column, use {remedy}."
    )


class MissingGroup(ConfigError):
    """A model reads a group that the spec does not have."""

    def __init__(self, spec: FeatureSpec, group: str):
        super().__init__(f"{_missing(spec, group)}, or set the model parameter that names it.")
        self.spec, self.group = spec, group

    def naming_parameter(self, params: Any) -> ConfigError:
        """The error with the model's parameter that names the group, if there is one."""
        names = [
            name
            for name in type(params).model_fields
            if name.split("_")[-1] == "group" and getattr(params, name) == self.group
        ]
        if not names:
            return ConfigError(str(self))
        name = names[0]
        part = self.group if name == "group" else name.removesuffix("_group")
        fits = [group for group in self.spec.groups if _takes(_CHECKS.get(part), self.spec, group)]
        remedy = f", or name another one with the model parameter {name}"
        if fits:
            remedy += f", as in --model_params={name}={fits[0]}"
        if type(None) in get_args(type(params).model_fields[name].annotation):
            remedy += f". {name}=null reads no group for it"
        return ConfigError(f"{_missing(self.spec, self.group)}{remedy}.")


def _missing(spec: FeatureSpec, group: str) -> str:
    return (
        f"the model needs a group {group!r}, but {spec.source} only has {', '.join(spec.groups)}. "
        "Add the group"
    )


def _takes(check: Optional[Check], spec: FeatureSpec, group: str) -> bool:
    try:
        (check or check_dense_group)(spec, group)
    except ConfigError:
        return False
    return True


def columns_of(spec: FeatureSpec, group: str) -> tuple[str, ...]:
    """The names of the columns of a group."""
    if group not in spec.groups:
        raise MissingGroup(spec, group)
    return spec.groups[group]


def check_field_group(spec: FeatureSpec, group: str) -> None:
    """Rejects a group unless its columns are embeddings with equal dimensions, one per record."""
    check_dense_group(spec, group)
    names = columns_of(spec, group)
    first = spec.columns[names[0]].width(spec)
    for name in names:
        column = spec.columns[name]
        if column.dense not in VECTORS:
            raise ConfigError(
                f"group {group!r}: column {name!r} is {column.kind}, but this model reads fields, "
                "which are embeddings. Put an embedding of it into the group instead"
                + (" (of a bucketized column)." if column.is_numbers(spec) else ".")
            )
        if column.width(spec) != first:
            raise ConfigError(
                f"group {group!r}: column {name!r} has the dimension {column.width(spec)}, but "
                f"{names[0]!r} has {first}. This model compares fields. Make the dimensions equal."
            )


def check_same_scope(spec: FeatureSpec, groups: Iterable[str], parameter: str = "") -> None:
    """Rejects groups that a model reads in one scope if two embeddings would have equal variables.

    The spec checks this for the columns of one group. A column that is in two groups has one table.

    Args:
      spec: the feature spec.
      groups: the groups.
      parameter: the model's parameter that may name the first group for the last one, too.
    """
    groups = list(groups)
    groups_of: dict[str, str] = {}
    for group in groups:
        for name in columns_of(spec, group):
            groups_of.setdefault(name, group)
    first, second = _clash(spec, groups_of)
    if first:
        remedy = ""
        if parameter:
            remedy = (
                ", or let the model read one group for both, with --model_params="
                f"{parameter}={groups[0]}"
            )
        raise ConfigError(
            f"groups {groups_of[first]!r} and {groups_of[second]!r}: "
            f"{_would_clash(spec, first, second)}, and this model reads both groups together. List "
            f"the same column in both groups{remedy}."
        )


def check_clash(spec: FeatureSpec, names: Iterable[str]) -> None:
    """Rejects columns that a model reads in one scope if two would have equal variables."""
    first, second = _clash(spec, names)
    if first:
        raise ConfigError(
            f"{_would_clash(spec, first, second)}, and the model reads them in one scope. Read the "
            "same column in both places. In your own model, you can also read each in another "
            "`with tf.compat.v1.variable_scope(name):`."
        )


def _clash(spec: FeatureSpec, names: Iterable[str]) -> tuple[str, str]:
    """Two embeddings that would have equal variables, or two empty names."""
    names_by_variable: dict[str, str] = {}
    for name in names:
        if spec.columns[name].dense in VECTORS:
            first = names_by_variable.setdefault(spec.canned_name(name), name)
            if first != name:
                return first, name
    return "", ""


def _would_clash(spec: FeatureSpec, first: str, second: str) -> str:
    return (
        f"columns {first!r} and {second!r} would both have variables named "
        f"{spec.canned_name(first)!r}, because TensorFlow names a column after its features"
    )


def check_sequence_group(spec: FeatureSpec, group: str) -> None:
    """Rejects a group without steps, before any graph is built."""
    for name in columns_of(spec, group):
        _refuse_ragged(spec, group, name)
        if not spec.is_sequence(name):
            raise ConfigError(
                f"group {group!r}: column {name!r} has one value per record, expected one per "
                "step. Use a sequence_numeric column, or an embedding or indicator of a column "
                "with sequence: true."
            )


def check_ragged_group(spec: FeatureSpec, group: str) -> None:
    """Rejects a group unless all its columns are ragged."""
    for name in columns_of(spec, group):
        if not spec.columns[name].ragged:
            raise ConfigError(
                f"group {group!r}: column {name!r} is {spec.columns[name].kind}, expected a ragged "
                "column"
            )


# What a group must be, by the name of the parameter that names it. Otherwise it is dense.
_CHECKS: dict[str, Check] = {
    "wide": check_linear_group,
    "fields": check_field_group,
    "steps": check_sequence_group,
}


def check_numeric(spec: FeatureSpec, name: str) -> None:
    """Rejects a name unless it names a numeric column."""
    column = spec.columns.get(name)
    if column is None or not column.is_numbers(spec):
        reason = "it does not exist" if column is None else f"it is {column.kind}"
        numeric = [n for n in spec.used_columns() if spec.columns[n].is_numbers(spec)]
        raise ConfigError(
            f"got the column {name!r}, expected a numeric column, but {reason}. {spec.source} has "
            f"{', '.join(numeric) or 'no numeric column in a group'}."
        )
