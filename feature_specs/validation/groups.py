"""Checks how a spec uses its columns: in groups, together, and under which variable names.

As in `validation`, the checks are generators of problems that do not stop each other. All except
`check_groups`, `check_raw` and `check_row_lengths` need a spec in which all names exist. This
module does not import TensorFlow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Optional

from feature_specs.errors import Path, Problem, did_you_mean, unknown, value_text
from feature_specs.kinds import Embedding, Vocabulary
from feature_specs.kinds.base import LISTS_OF_LISTS, feature_under, is_nested
from feature_specs.spec import FeatureSpec
from feature_specs.validation.validation import Problems


def check_groups(spec: FeatureSpec) -> Problems:
    """Groups list existing columns, each once."""
    for group, names in spec.groups.items():
        path: Path = ("groups", group)
        if not names:
            yield Problem(path, "the group is empty. List its columns or remove it.")
        for i, name in enumerate(names):
            if name in names[:i]:
                yield Problem((*path, i), f"column {name!r} is listed twice. Remove one of them.")
            elif name not in spec.columns:
                hint = did_you_mean(name, spec.columns)
                if name in spec.features:
                    hint = f". {name!r} is a feature, but a group lists columns."
                yield Problem((*path, i), f"got {name!r}, expected the name of a column{hint}")


def check_raw(spec: FeatureSpec) -> Problems:
    """`raw` lists existing features, each once."""
    for i, name in enumerate(spec.raw):
        path: Path = ("raw", i)
        if name in spec.raw[:i]:
            yield Problem(path, f"feature {name!r} is listed twice. Remove one of them.")
        elif name not in spec.features and name in spec.labels:
            yield Problem(
                path,
                f"{name!r} is a label, which requests do not have. List a feature, or remove it.",
            )
        elif name not in spec.features:
            yield unknown(path, name, "the name of a feature", list(spec.features))


def check_use(spec: FeatureSpec) -> Problems:
    """Every feature and column is in use. Needs a spec in which all names exist."""
    used = {part for name in spec.used_columns() for part in _chain(spec, name)}
    for name in spec.columns:
        if name not in used:
            yield Problem(
                ("columns", name),
                "no group uses this column. Add it to a group or remove it.",
            )
    inputs = spec.used_features()
    for label_name, label in spec.labels.items():
        if label.true_probability in inputs:
            yield Problem(
                ("labels", label_name, "true_probability"),
                _leak(spec, label.true_probability),
            )
    for name, objective in spec.objectives.items():
        for part in objective.label_parts:
            if part.name in inputs:
                yield Problem(("objectives", name, *part.path), _leak(spec, part.name))
    features = set(spec.features_read())
    for name in spec.features:
        if name not in features and name not in spec.ignored:
            yield Problem(
                ("features", name),
                "no group uses this feature. Add a column of it to a group, or list it under "
                "`ignored`, or under `raw` for a model that you write.",
            )
    for i, name in enumerate(spec.ignored):
        if name in spec.ignored[:i]:
            yield Problem(("ignored", i), f"feature {name!r} is listed twice. Remove one of them.")
        elif name not in spec.features:
            yield unknown(("ignored", i), name, "the name of a feature", list(spec.features))
        elif name in features:
            users = ", ".join(_users(spec, name))
            yield Problem(
                ("ignored", i),
                f"feature {name!r} is used by {users}. To ignore it, remove these uses, and remove "
                "the columns from their groups. To use it, remove it from `ignored`.",
            )


def _leak(spec: FeatureSpec, name: str) -> str:
    """The message for a feature that holds a label's answer and is an input of the model."""
    a, the = ("`raw`", "`raw`") if name in spec.raw else ("a group", "the group")
    return f"feature {name!r} is in {a} and would leak into the model. Remove it from {the}."


def _users(spec: FeatureSpec, name: str) -> Iterator[str]:
    """The parts of a spec that read a feature, for a message."""
    for column in spec.columns:
        if name in spec.features_of(column):
            yield f"column {column!r}"
    for other, feature in spec.features.items():
        if feature.row_lengths == name:
            yield f"the row_lengths of feature {other!r}"
    for label_name, label in spec.labels.items():
        for field in ("weight", "true_probability"):
            if getattr(label, field) == name:
                yield f"the {field} of label {label_name!r}"
    for objective, entry in spec.objectives.items():
        if entry.group == name:
            yield f"the group of objective {objective!r}"
    for objective, part in spec.parts_named(name):
        yield f"the {part.field} of objective {objective!r}"
    if name in spec.filter_features():
        yield "`filter`"
    if name in spec.raw:
        yield "`raw`"


def _chain(spec: FeatureSpec, name: str) -> Iterator[str]:
    """A column and the columns that it is made from."""
    yield name
    for source in spec.columns[name].below(spec):
        yield from _chain(spec, source)


def check_variable_names(spec: FeatureSpec) -> Problems:
    """No two columns of a group have the same variable name."""
    for group, names in spec.groups.items():
        canned = [spec.canned_name(name) for name in names]
        for variable, count in Counter(canned).items():
            if count > 1:
                same = [name for name, c in zip(names, canned) if c == variable]
                yield Problem(
                    ("groups", group),
                    f"columns {', '.join(same)} would all have variables named {variable!r}, "
                    "because TensorFlow names a column after its features. Keep one of them.",
                )


def check_sequences(spec: FeatureSpec) -> Problems:
    """The columns of a group have one value per step, or all have one per record."""
    for group, names in spec.groups.items():
        steps = [name for name in names if spec.is_sequence(name)]
        rest = [name for name in names if name not in steps]
        if steps and rest:
            yield Problem(
                ("groups", group),
                f"columns {', '.join(steps)} have one value per step, but {', '.join(rest)} one "
                "per record. Put them into separate groups.",
            )
        for name in steps:
            if spec.columns[name].categorical:
                yield Problem(
                    ("groups", group),
                    f"column {name!r} is {spec.columns[name].kind}, which has no dense form. Put "
                    "an embedding or indicator column of it into the group instead.",
                )


def check_embedding_tables(spec: FeatureSpec) -> Problems:
    """Each table has columns, and its rows mean the same for all of them; growing ones train."""
    columns_of: dict[str, list[tuple[str, Embedding]]] = {}
    for name, column in spec.of_kind(Embedding).items():
        if column.table is not None:
            columns_of.setdefault(column.table, []).append((name, column))
        category = spec.columns[spec.ids_of(name)]
        if category.keyed and not column.trainable:
            yield Problem(
                (*column.place_of_options(name), "trainable"),
                f"column {column.source!r} is {category.kind}: a new row would keep the vector of "
                "its bucket. Remove trainable: false.",
            )
    for table in spec.embedding_tables:
        members = columns_of.get(table)
        if members is None:
            yield Problem(
                ("embedding_tables", table),
                "no embedding has this table. Remove it, or name it in a column: {embedding: ..., "
                f"table: {table}}}.",
            )
            continue
        if table == "global_step":
            yield Problem(
                ("embedding_tables", table),
                "is the name of a variable of TensorFlow. Use another name.",
            )
        (first_name, first), *others = members
        size = spec.size_of(first.source)
        for name, column in others:
            uses = f"uses the table {table!r} as {first_name!r} does, but"
            if spec.size_of(column.source) != size:
                yield Problem(
                    ("columns", name),
                    f"{uses} has {spec.size_of(column.source)} ids, and {first_name!r} has "
                    f"{size}. Make them equal.",
                )
                continue
            ids = [spec.columns[n].ids_source or n for n in (column.source, first.source)]
            difference = _difference_of_ids(spec, *ids)
            if difference is not None:
                yield Problem(
                    ("columns", name, "table"),
                    f"{uses} {difference}. An id must mean the same in both. Make them equal, "
                    "with one list or file if they are vocabularies; or give each column its own "
                    "table.",
                )


def _difference_of_ids(spec: FeatureSpec, name: str, first_name: str) -> Optional[str]:
    """How the ids of two categorical columns with as many ids differ in meaning, or None."""
    column, first = spec.columns[name], spec.columns[first_name]
    if column.looks_up:  # Equal entries over two features: large files need not be read again.
        own = {"source": True, "sequence": True}
        if column.kind == first.kind and column.model_dump(exclude=own) == first.model_dump(
            exclude=own
        ):
            return None
    meaning, others = column.ids_meaning(spec), first.ids_meaning(spec)
    key = next((key for key, value in meaning.items() if value != others[key]), None)
    if key is None:
        return None
    if key == "words":
        vocabularies = spec.of_kind(Vocabulary)
        for i, (word, other) in enumerate(zip(meaning[key], others[key])):
            if word != other:
                return (
                    f"id {i} is {word!r} in {vocabularies[name].place_of(name, i)}, and {other!r} "
                    f"in {vocabularies[first_name].place_of(first_name, i)}"
                )
    return (
        f"{key} is {value_text(meaning[key])} in column {name!r}, and {value_text(others[key])} in "
        f"column {first_name!r}"
    )


def check_row_lengths(spec: FeatureSpec) -> Problems:
    """`row_lengths` names a list of int64."""
    for name, feature in spec.features.items():
        if feature.row_lengths is None:
            continue
        path: Path = ("features", name, "row_lengths")
        lengths = spec.features.get(feature.row_lengths)
        if lengths is None:
            choices = [other for other in spec.features if other != name]
            yield unknown(path, feature.row_lengths, "the name of a feature", choices)
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
