"""What a warm start takes from dynamic embeddings, and from tables of the model: whole tables.

A value has the same key in every model, so rows do not move. With the rows of a table, the warm
start takes the counts that decide which values have a row. It reduces the stored steps by the
source's step, so that every value that the new training reads counts as more recent. It takes
optimizer slots if it takes the slots of variables.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Optional

from estimator_kit.checkpoints.reading import ModelOutline, Shapes, have_equal_shapes
from estimator_kit.checkpoints.warm_start.row_moves import is_new_column
from estimator_kit.embeddings import dynamic_tables
from feature_specs.kinds.base import Sourced
from feature_specs.spec import FeatureSpec


@dataclasses.dataclass(frozen=True)
class TakenTables:
    """The names of the checkpoint tensors to take, and the reasons why some cannot be taken."""

    names: frozenset[str]
    problems: tuple[str, ...]


def plan(
    outline: ModelOutline,
    found: Shapes,
    old: Optional[FeatureSpec],
    new: FeatureSpec,
    *,
    mode: str,
    pattern: str,
) -> TakenTables:
    """Decides what a new training takes.

    Args:
      outline: the outline of the new model.
      found: the shapes in the source.
      old, new: the specs of the source (None if unknown) and of the new model.
      mode, pattern: see `warm_start.plan`. A table is taken if its name matches the pattern; its
        counts and slots are taken with it.
    """
    names: set[str] = set()
    problems: list[str] = []
    for column in dynamic_tables.columns(new):
        if old is not None and is_new_column(old, new, column):
            continue
        own = re.compile(rf"{re.escape(new.canned_name(column))}_table(_\d+)?/(.+)_mht_.*")
        rows = {n: m[2] for n in outline.growing & outline.weights if (m := own.fullmatch(n))}
        taken = {name for name in rows if re.fullmatch(pattern, name)}
        tables = {rows[name] for name in taken}
        counts = _of(outline, {f"{table[: -len('_table')]}_seen_mht_" for table in tables})
        slots = _of(outline, {f"{table}_" for table in tables}) - set(rows)
        if not mode.startswith("all"):
            # FTRL computes a row from its slots at each step.
            slots = {name for name in slots if "_Ftrl_" in name and name in found}
        for name in sorted({*taken, *counts, *slots}):
            if name not in found:
                in_no_export = ". An export does not store it, so use a checkpoint."
                hint = in_no_export if name in counts else ""
                problems.append(f"{name}: not in the source{hint}")
            elif not have_equal_shapes(found[name], outline.variables[name]):
                widths = f"[*, {found[name][-1]}] in the source, [*, "
                problems.append(f"{name}: {widths}{outline.variables[name][-1]}] in the model")
            else:
                names.add(name)
        problems += _meaning(old, new, column)
    for name in sorted(_own_tables(outline)):
        if mode == "weights" or not re.fullmatch(pattern, name.rpartition("-")[0]):
            continue
        if name not in found:
            problems.append(f"{name}: not in the source")
        elif not have_equal_shapes(found[name], outline.variables[name]):
            problems.append(f"{name}: {list(found[name])} in the source has another shape here")
        else:
            names.add(name)
    return TakenTables(frozenset(names), tuple(problems))


def _own_tables(outline: ModelOutline) -> set[str]:
    """The tensors of tables that the model itself makes, such as a `MutableHashTable`."""
    return {name for name in outline.growing & outline.weights if "_mht_" not in name}


def _of(outline: ModelOutline, prefixes: set[str]) -> set[str]:
    """The growing tensors whose names, after the scope of their op, start with a prefix."""
    return {name for name in outline.growing if name.partition("/")[2].startswith(tuple(prefixes))}


def _meaning(old: Optional[FeatureSpec], new: FeatureSpec, column: str) -> Iterator[str]:
    before = old.columns.get(column) if old is not None else None
    if old is None or not isinstance(before, Sourced):
        return
    feature = dynamic_tables.column_of(new, column).source
    dtypes = [
        spec.features[name].dtype if name in spec.features else None
        for spec, name in ((old, before.source), (new, feature))
    ]
    if before.source != feature or dtypes[0] != dtypes[1]:
        yield (
            f"{column}: its rows mean something else: it reads {before.source!r} ({dtypes[0]}) in "
            f"the source, and {feature!r} ({dtypes[1]}) in the model"
        )
