"""Warm start: a new training takes its first variables from an older model.

    plan(...)           decides and checks what to take; reads only shapes and specs
    WarmStart.values    the values, read when the session starts (`initial_values`)
    WarmStart.report    the status of every variable

A warm start happens once. If the model directory has a checkpoint, training goes on from that
checkpoint instead. The graph and its exports do not depend on the warm start. A variable that does
not fit is an error: if a hash size changed, a warm start must not silently drop every embedding
table. If words, columns or objectives have moved, their weights move too (`variable_moves`),
according to the spec and the places that the source has stored in its model directory or export.
Weights with another meaning are an error.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.checkpoints.model_outline import ModelOutline, Shapes
from estimator_kit.checkpoints.reading import find_checkpoint, shapes_in
from estimator_kit.checkpoints.warm_start import row_moves, taken_variables
from estimator_kit.checkpoints.warm_start.row_moves import Counts, MeaningError
from estimator_kit.checkpoints.warm_start.variable_moves import (
    Taken,
    VariableMoves,
    base_of,
    fits,
)
from estimator_kit.embeddings import growing_ids
from estimator_kit.errors import CheckpointError, ConfigError
from feature_specs.files import documents
from feature_specs.spec import FeatureSpec

logger = logging.getLogger(__name__)

# How many variables of each status the log names. The report file names all of them.
_NAMED = 8


class Variable(documents.Part):
    """The status of a variable of the model, its other name in the source, and what moved."""

    name: str
    status: str
    source: Optional[str] = None
    rows: Optional[Counts] = None
    inputs: Optional[Counts] = None
    units: Optional[Counts] = None
    logits: Optional[Counts] = None

    def __str__(self) -> str:
        moves = "; ".join(
            f"{what} {n.kept:,} kept, {n.new:,} new, {n.dropped:,} dropped"
            for what, n in self
            if isinstance(n, Counts)
        )
        return self.name + (f" ({moves})" if moves else "")


class Report(documents.Document):
    """`warm_start_report.json`; `unused` lists variables of the source."""

    source: str
    mode: str
    variables: list[Variable]
    unused: list[str]


@dataclasses.dataclass(frozen=True)
class WarmStart:
    """A checked warm start.

    Attributes:
      checkpoint: the path prefix of the source.
      taken: the variables to take, by their names in the new model.
      report: what happens to each variable.
      step: the first global step; 0 if the source's step is not taken.
      tables: the names of the tensors of the model's own tables to take; see `taken_variables`.
    """

    checkpoint: str
    taken: dict[str, Taken]
    report: Report
    step: int = 0
    tables: frozenset[str] = frozenset()

    @property
    def restored(self) -> frozenset[str]:
        """The names of the variables that are taken whole, without values of an initializer."""
        return frozenset(name for name, entry in self.taken.items() if entry.is_whole)

    @property
    def remapped(self) -> frozenset[str]:
        """The names of the variables that are taken in part."""
        return frozenset(self.taken) - self.restored

    def values(self, current: Callable[[str], np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
        """(name, value) for each variable. `current(name)` returns the values of new places."""
        reader = tf.train.load_checkpoint(self.checkpoint)
        for name, entry in self.taken.items():
            value = entry.value if entry.value is not None else reader.get_tensor(entry.source)
            if not entry.is_whole:
                moves = {move.axis: move.places for move in entry.moves}
                value = row_moves.moved(current(name), value, moves)
            yield name, value

    def write_report(self, model_dir: str) -> None:
        self.report.save(os.path.join(model_dir, "warm_start_report.json"))

    def table(self) -> str:
        """The report as text: the number and the names of the variables of each status."""
        groups: dict[str, list[str]] = {}
        for entry in self.report.variables:
            groups.setdefault(entry.status, []).append(str(entry))
        groups["unused in the source"] = self.report.unused
        lines = [f"warm start from {self.checkpoint}:"]
        for status, names in groups.items():
            if names:
                shown = names if status == "remapped" else names[:_NAMED]
                more = f", and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
                lines.append(f"  {len(names):>4} {status}: {', '.join(shown)}{more}")
        return "\n".join(lines)


def plan(
    source: str,
    outline: ModelOutline,
    spec: FeatureSpec,
    *,
    mode: str = "weights_and_stats",
    pattern: str = ".*",
    renames: Iterable[str] = (),
) -> WarmStart:
    """Decides what a new training takes.

    Args:
      source: a checkpoint, a model directory or a SavedModel.
      outline: the outline of the new model.
      spec: the spec of the new model. It is compared with the source's spec, if the source has
        stored one.
      mode: `weights` takes trainable variables and embedding tables. `weights_and_stats` also takes
        the statistics of layers (moving means of a normalization). `all_but_step` also takes
        optimizer slots and moving averages of weights, but not how often items are in batches
        (`sampled_items`), which counts steps. `all` also takes the global step. The first
        two also take FTRL's slots, because without them FTRL forgets the weights at its first step.
      pattern: a regular expression. A variable is taken if its whole name matches; slots are taken
        with their variable.
      renames: `old=new`: a regular expression for names in the source, and their new names, with
        groups as in `re.sub`. The first rename that matches a whole name applies.

    Raises:
      ConfigError: the source does not exist, or a pattern matches nothing.
      CheckpointError: a variable to take is missing in the source, has another shape there, or its
        rows mean something else.
    """
    checkpoint = find_checkpoint(source)
    shapes = shapes_in(checkpoint)
    old_spec = taken_variables.kept_spec(source)
    tables = taken_variables.tables_to_take(outline, shapes, mode=mode, pattern=pattern)
    fixed = _without(outline, outline.growing)
    weights = sorted(taken_variables.weights_to_take(fixed, spec, mode, pattern))
    if not weights and not tables.names and not tables.problems:
        raise ConfigError(
            f"--warm_start_vars={pattern} matches none of the model's variables: "
            f"{', '.join(sorted(outline.weights))}"
        )
    names = taken_variables.names_in_source(renames, shapes, fixed)
    wanted = [*weights, *taken_variables.more_to_take(weights, fixed, shapes, names, mode, pattern)]
    keys = taken_variables.kept_keys(old_spec, checkpoint, shapes)
    moves = VariableMoves(old_spec, spec, fixed, taken_variables.kept_places(source), keys)
    taken, problems = _fitting(wanted, fixed, shapes, names, moves)
    _take_growing_state(taken, problems, fixed, shapes, moves, pattern)
    waiting = _waiting_values(taken, outline, shapes)
    if growing_ids.STEPS_BEFORE in outline.variables:
        steps = taken_variables.steps_of(checkpoint, shapes, with_own=mode != "all")
        taken[growing_ids.STEPS_BEFORE] = Taken(growing_ids.STEPS_BEFORE, value=np.array(steps))
    problems = [*tables.problems, *problems]
    untraced = [*moves.problems()] if pattern == ".*" else []
    if problems or untraced:
        listing = "\n".join(f"  {problem}" for problem in (*problems, *untraced))
        hint = "" if untraced else _pattern_hint(problems, weights, fixed)
        if mode.startswith("all"):
            hint += ", or --warm_start_mode=weights_and_stats, which takes no slots"
        count = len(wanted) + len(tables.names) + len(tables.problems)
        raise CheckpointError(
            f"cannot warm start from {checkpoint}: of {count} variables to take, these do not fit:"
            f"\n{listing}\nUse --warm_start_vars to take only variables that fit{hint}."
        )
    for warning in moves.warnings():
        logger.warning("warm start: %s", warning)
    for change in _used_otherwise(old_spec, spec):
        logger.warning("warm start: the model uses its variables in another way: %s", change)
    step = int(tf.train.load_variable(checkpoint, taken_variables.STEP)) if mode == "all" else 0
    loaded = tables.names | waiting
    report = Report(
        source=checkpoint,
        mode=mode,
        variables=[
            *_statuses(fixed, shapes, names, taken),
            *(
                Variable(name=name, status="restored" if name in loaded else "new")
                for name in sorted(outline.growing)
            ),
        ],
        unused=sorted({*shapes} - {entry.source for entry in taken.values()} - loaded),
    )
    return WarmStart(checkpoint, taken, report, step, loaded)


def _fitting(
    wanted: Iterable[str],
    outline: ModelOutline,
    shapes: Shapes,
    names: dict[str, str],
    moves: VariableMoves,
) -> tuple[dict[str, Taken], list[str]]:
    """The wanted variables that fit, and a sentence for each variable that does not."""
    taken: dict[str, Taken] = {}
    problems: list[str] = []
    for name in wanted:
        entry = Taken(names.get(name, name))
        if entry.source not in shapes:
            if entry.source != name or not moves.is_new(name):
                renamed = f" as {entry.source}" if entry.source != name else ""
                problems.append(f"{name}: not in the source{renamed}")
            continue
        old, new = shapes[entry.source], outline.variables[name]
        differ = f"{name}: {list(old)} in the source, {list(new)} in the model"
        try:
            entry = moves.of(name, entry.source, old)
        except MeaningError as error:
            if len(old) and old[0] != new[0]:
                problems.append(differ)
            problems.append(f"{name}: it means something else: {error}")
            continue
        if fits(old, new, entry):
            taken[name] = entry
        else:
            problems.append(differ)
    return taken, problems


def _take_growing_state(
    taken: dict[str, Taken],
    problems: list[str],
    outline: ModelOutline,
    shapes: Shapes,
    moves: VariableMoves,
    pattern: str,
) -> None:
    """Takes the keys of growing columns, and their readings, if tables over them are taken.

    Rows mean nothing without their keys, so the mode does not count, and the pattern only for ids
    that no table reads.
    """
    for name in sorted(filter(growing_ids.is_state, outline.variables)):
        if name == growing_ids.STEPS_BEFORE:
            continue
        try:
            entry = moves.of_state(name, matches=re.fullmatch(pattern, name) is not None)
        except MeaningError as error:
            problems.append(f"{name}: {error}")
            continue
        if entry is None or (entry.value is None and entry.source not in shapes):
            continue  # It starts as in a new training. An export has no readings.
        if entry.value is not None or fits(shapes[entry.source], outline.variables[name], entry):
            taken[name] = entry


def _waiting_values(
    taken: dict[str, Taken], outline: ModelOutline, shapes: Shapes
) -> frozenset[str]:
    """The tables of values that wait for a row, of ids that the source has under the same name."""
    return frozenset(
        name
        for name in outline.growing & shapes.keys()
        if growing_ids.is_state(name)
        and (keys := taken.get(f"{name.rpartition('/')[0]}/{growing_ids.KEYS}")) is not None
        and keys.value is None
        and keys.source.rpartition("/")[0] == name.rpartition("/")[0]
    )


def _pattern_hint(problems: list[str], weights: list[str], outline: ModelOutline) -> str:
    """`, as in --warm_start_vars='...'` with a pattern of the fitting weights; "" if it is long."""
    named = [problem.partition(": ")[0] for problem in problems]
    unfit = dict.fromkeys(base_of(name, outline) or name for name in named)
    if len(unfit) > _NAMED or not {*weights} - {*unfit}:
        return ""
    return f", as in --warm_start_vars='(?!({'|'.join(map(re.escape, unfit))})$).*'"


def _used_otherwise(kept: Optional[FeatureSpec], spec: FeatureSpec) -> Iterator[str]:
    """What differs, and no shape and no row shows it, such as a combiner or a feature's default."""
    if kept is None:
        return
    values, now = (each.meaning(("values",), ("features",)) for each in (kept, spec))
    for place in sorted(values.keys() & now.keys()):
        if values[place] != now[place]:
            yield f"{place}: was {values[place]!r}, is {now[place]!r}"
    for name, column in spec.columns.items():
        before = kept.columns.get(name)
        if before is None or before.kind != column.kind:
            continue
        of_rows = column.fields_of_values() | column.by_row
        for field in type(column).model_fields:
            was, value = getattr(before, field), getattr(column, field)
            changes = "weights" in column.changes_of(field).aspects and field not in of_rows
            if changes and was != value:
                yield f"columns.{name}.{field}: was {was!r}, is {value!r}"


def _without(outline: ModelOutline, names: frozenset[str]) -> ModelOutline:
    """An outline without some names."""
    kept = {name: shape for name, shape in outline.variables.items() if name not in names}
    return dataclasses.replace(outline, variables=kept, weights=outline.weights - names)


def _statuses(
    outline: ModelOutline, shapes: Shapes, names: dict[str, str], taken: dict[str, Taken]
) -> Iterator[Variable]:
    """One entry of the report for each variable of the model."""
    for name in sorted(outline.variables):
        entry = taken.get(name)
        if entry is None:
            stored = shapes.get(names.get(name, name))
            differs = stored is not None and stored != outline.variables[name]
            status = "shape differs, not taken" if differs else "new"
            yield Variable(name=name, status=status)
            continue
        if entry.value is not None:
            counted = name == growing_ids.STEPS_BEFORE
            yield Variable(name=name, status="counted on" if counted else "made from words")
            continue
        shape = shapes[entry.source]
        more: dict[str, Any] = {
            move.what: row_moves.counts(move.places, shape[move.axis]) for move in entry.moves
        }
        if entry.source != name:
            more["source"] = entry.source
        status = "restored" if entry.is_whole else "remapped"
        yield Variable(name=name, status=status, **more)
