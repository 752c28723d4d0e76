"""Which groups of a spec a model can read, checked before any graph is built.

Each check raises `ConfigError` with the group, the column and what to put in its place. Makes no
tensor.
"""

from __future__ import annotations

from estimator_kit.errors import ConfigError
from feature_specs.spec import FeatureSpec

# The dense forms of columns that are vectors of ids.
VECTORS = ("embedding", "dynamic_embedding")


def check_dense_group(spec: FeatureSpec, group: str) -> None:
    """Refuses a group that a DNN cannot take, before any graph is built."""
    for name in columns_of(spec, group):
        column = spec.columns[name]
        _refuse_ragged(spec, group, name)
        if spec.is_sequence(name):
            raise ConfigError(
                f"group {group!r}: column {name!r} has one value a step; this model reads one a "
                "record, and a model of your own reads steps with self.sequence_input"
            )
        if column.dense is None:
            raise ConfigError(
                f"group {group!r}: column {name!r} is {column.kind}, which has no dense form; "
                "put an embedding or indicator column of it into the group instead"
            )


def check_linear_group(spec: FeatureSpec, group: str) -> None:
    """Refuses a group that a linear model cannot take."""
    for name in columns_of(spec, group):
        column = spec.columns[name]
        _refuse_ragged(spec, group, name)
        if spec.is_sequence(name):
            raise ConfigError(
                f"group {group!r}: column {name!r} has one value a step, which a linear model "
                "does not read; remove sequence"
            )
        reason = column.not_linear()
        if reason is not None:
            raise ConfigError(f"group {group!r}: column {name!r} {reason}")


def _refuse_ragged(spec: FeatureSpec, group: str, name: str) -> None:
    """A model that knows no lists says so, and what to put in the place of one."""
    column = spec.columns[name]
    if not column.ragged:
        return
    ids = column.category(spec)
    remedy = "numbers of a fixed shape or a bucketized column of them"
    if ids is not None and not spec.features[next(spec.features_of(ids))].nested:
        remedy = f"an embedding of {ids!r} with a combiner, or an indicator of it,"
    raise ConfigError(
        f"group {group!r}: column {name!r} is ragged, which only a model of your own reads, with "
        f"self.ragged_input; put {remedy} into the group instead"
    )


def columns_of(spec: FeatureSpec, group: str) -> tuple[str, ...]:
    """The names of a group's columns."""
    if group not in spec.groups:
        raise ConfigError(
            f"the model needs a group {group!r}, and {spec.source} has {', '.join(spec.groups)}"
        )
    return spec.groups[group]


def check_field_group(spec: FeatureSpec, group: str) -> None:
    """Refuses a group that is not made of embeddings of one dimension, one a record."""
    check_dense_group(spec, group)
    names = columns_of(spec, group)
    first = spec.columns[names[0]].width(spec)
    for name in names:
        column = spec.columns[name]
        if column.dense not in VECTORS:
            raise ConfigError(
                f"group {group!r}: column {name!r} is {column.kind}, and this model reads fields, "
                "which are embeddings; put an embedding of it into the group instead"
                + (" (of a bucketized column)" if column.is_numbers(spec) else "")
            )
        if column.width(spec) != first:
            raise ConfigError(
                f"group {group!r}: column {name!r} has the dimension {column.width(spec)}, and "
                f"{names[0]!r} has {first}; this model compares fields, so make the "
                "dimensions equal"
            )


def check_sequence_group(spec: FeatureSpec, group: str) -> None:
    """Refuses a group without steps, before any graph is built."""
    for name in columns_of(spec, group):
        _refuse_ragged(spec, group, name)
        if not spec.is_sequence(name):
            raise ConfigError(
                f"group {group!r}: column {name!r} has one value a record, expected one a step: "
                "a sequence_numeric column, or one over a column with sequence: true"
            )


def check_ragged_group(spec: FeatureSpec, group: str) -> None:
    """Refuses a group with other columns than ragged ones."""
    for name in columns_of(spec, group):
        if not spec.columns[name].ragged:
            raise ConfigError(
                f"group {group!r}: column {name!r} is {spec.columns[name].kind}, expected a ragged "
                "one"
            )


def check_numeric(spec: FeatureSpec, name: str) -> None:
    """Refuses a name that is not that of a column of numbers."""
    column = spec.columns.get(name)
    if column is None or not column.is_numbers(spec):
        found = "there is none of that name" if column is None else f"it is {column.kind}"
        numeric = [n for n in spec.used_columns() if spec.columns[n].is_numbers(spec)]
        raise ConfigError(
            f"got the column {name!r}, expected a numeric one, and {found}; {spec.source} has "
            f"{', '.join(numeric) or 'no numeric column in a group'}"
        )
