"""What a warm start takes of its source, and how it is named there: variables and tables.

The ids of growing columns are taken with their tables in every mode, because rows mean nothing
without them. So is how often and when their values were read, if the source has it. Tables that the
model itself makes are taken whole. This module reads only specs, names and shapes.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.checkpoints import run_record
from estimator_kit.checkpoints.model_outline import ModelOutline, Shapes
from estimator_kit.checkpoints.reading import have_equal_shapes
from estimator_kit.checkpoints.warm_start.growing_moves import Keys
from estimator_kit.checkpoints.warm_start.place_moves import PlacesRecord
from estimator_kit.checkpoints.warm_start.row_moves import ColumnsOfTables
from estimator_kit.checkpoints.warm_start.variable_moves import base_of
from estimator_kit.embeddings import growing_ids
from estimator_kit.errors import ConfigError
from estimator_kit.optimizers.gradient_changes import ACCUMULATED
from feature_specs.kinds import Growing
from feature_specs.spec import FeatureSpec

_log = logging.getLogger(__name__)

STEP = "global_step"

# The variables of `model.objectives.item_frequency`.
_ITEM_FREQUENCY = re.compile(r"(^|/)item_frequency/(last_step|gap)$")


def kept_spec(source: str) -> Optional[FeatureSpec]:
    """The spec stored with a model directory, a checkpoint or an export, or None."""
    folder = _kept_folder(source)
    return None if folder is None else run_record.kept_spec(folder)


def kept_places(source: str) -> Optional[PlacesRecord]:
    """What owns each row and column of a kernel in a source. None if it has not stored that."""
    folder = _kept_folder(source)
    return None if folder is None else run_record.kept_places(folder)


def kept_keys(spec: Optional[FeatureSpec], checkpoint: str, shapes: Shapes) -> Keys:
    """The keys of the rows of a source's growing columns."""
    stored: dict[str, Any] = {}
    if spec is not None:
        for name, column in spec.of_kind(Growing).items():
            variable = f"{growing_ids.state_of(spec, name)}/{growing_ids.KEYS}"
            if column.ids_of is None and variable in shapes:
                stored[column.ids_name(spec)] = tf.train.load_variable(checkpoint, variable)
    return Keys(stored, growing_ids.keys_of)


def steps_of(checkpoint: str, shapes: Shapes, *, with_own: bool) -> int:
    """The steps of a source and of the trainings from which it started warm.

    Args:
      checkpoint, shapes: the source.
      with_own: whether the steps of its last training count. They do not if the new training has
        them, because it goes on with the source's global step.
    """
    names = [growing_ids.STEPS_BEFORE, *([STEP] if with_own else [])]
    return sum(int(tf.train.load_variable(checkpoint, n)) for n in names if n in shapes)


def _kept_folder(source: str) -> Optional[str]:
    for folder in (source, os.path.dirname(source), os.path.join(source, "assets.extra")):
        kept = os.path.join(folder, "feature_spec")
        if tf.io.gfile.exists(os.path.join(kept, "spec.json")):
            return kept
    return None


def weights_to_take(
    outline: ModelOutline, spec: FeatureSpec, mode: str, pattern: str
) -> Iterator[str]:
    """The names of the weights to take. `mode` and `pattern` are as in `warm_start.plan`."""
    columns = ColumnsOfTables(spec)
    for name in outline.weights:
        # A frozen table is neither a trainable variable nor a statistic.
        is_weight = name in outline.trainable or _is_embedding(spec, columns.of(name))
        if growing_ids.is_state(name):
            continue  # It is taken with its tables.
        if (is_weight or mode != "weights") and re.fullmatch(pattern, name):
            yield name


def _is_embedding(spec: FeatureSpec, column: Optional[str]) -> bool:
    return column is not None and spec.columns[column].dense == "embedding"


def more_to_take(
    weights: list[str],
    outline: ModelOutline,
    shapes: Shapes,
    names: dict[str, str],
    mode: str,
    pattern: str,
) -> Iterator[str]:
    """The names to take in addition to weights."""
    if not mode.startswith("all"):
        yield from _ftrl_slots(weights, outline, shapes, names)
        return
    chosen = set(weights)
    for name in sorted({*outline.variables} - outline.weights - {STEP}):
        if name.startswith(ACCUMULATED):
            continue  # Gradients of the source's last batches, which it has not applied yet.
        if growing_ids.is_state(name):
            continue
        if mode != "all" and _ITEM_FREQUENCY.search(name):
            continue  # They count steps, which start at 0 again.
        base = base_of(name, outline)
        if base in chosen if base is not None else re.fullmatch(pattern, name):
            yield name
    if mode == "all":
        yield STEP


def _ftrl_slots(
    wanted: list[str], outline: ModelOutline, shapes: Shapes, names: dict[str, str]
) -> list[str]:
    """FTRL's slots of the variables to take, if the source has them.

    FTRL does not store a weight between steps. It computes the weight from its slots at each step
    (McMahan et al., 2013, algorithm 1). So without its slots a weight is nearly lost at the first
    step.
    """
    stored = [name for name in wanted if names.get(name, name) in shapes]
    slots = [f"{name}/{slot}" for name in stored for slot in ("Ftrl", "Ftrl_1")]
    slots = [slot for slot in slots if slot in outline.variables]
    fitting = [slot for slot in slots if names.get(slot, slot) in shapes]
    if len(fitting) < len(slots):
        _log.warning(
            "warm start: the source lacks some of FTRL's slots for this model, so FTRL will "
            "forget the weights without slots at their first step. Start from a checkpoint that "
            "FTRL trained, or train with another optimizer, such as adagrad."
        )
    return fitting


def names_in_source(
    renames: Iterable[str], shapes: Shapes, outline: ModelOutline
) -> dict[str, str]:
    """For each renamed variable of the model and its slots, its name in the source."""
    names: dict[str, str] = {}
    renamed = set()
    for rename in renames:
        old, _, new = rename.rpartition("=")
        matches = {name: re.fullmatch(old, name) for name in shapes}
        if not any(matches.values()):
            raise ConfigError(
                f"--warm_start_rename={rename}: {old!r} matches none of the source's variables: "
                f"{', '.join(sorted(shapes))}"
            )
        results = set()
        for name, match in matches.items():
            if match is None or name in renamed:
                continue
            renamed.add(name)
            try:
                result = match.expand(new)
            except (re.error, IndexError) as error:
                raise ConfigError(f"--warm_start_rename={rename}: {new!r}: {error}") from error
            results.add(result)
            if names.setdefault(result, name) != name:
                raise ConfigError(
                    f"--warm_start_rename={rename}: {name} and {names[result]} of the source both "
                    f"become {result}. Give each a different name."
                )
        if not results & set(outline.variables):
            raise ConfigError(
                f"--warm_start_rename={rename}: expected names of the model's variables, got "
                f"{', '.join(sorted(results)) or 'none, since earlier renames matched first'}"
            )
    # A renamed variable can no longer be found under its old name.
    for name in renamed:
        names.setdefault(name, f"{name} (renamed)")
    for name in outline.variables:
        base = base_of(name, outline)
        if base is not None and base in names:  # A slot is renamed with its variable.
            names.setdefault(name, names[base] + name[len(base) :])
    return names


@dataclasses.dataclass(frozen=True)
class TakenTables:
    """The names of the checkpoint tensors to take, and the reasons why some cannot be taken."""

    names: frozenset[str]
    problems: tuple[str, ...]


def tables_to_take(
    outline: ModelOutline, shapes: Shapes, *, mode: str, pattern: str
) -> TakenTables:
    """Decides which tables of the model itself a new training takes.

    Args:
      outline: the outline of the new model.
      shapes: the shapes in the source.
      mode, pattern: see `warm_start.plan`. A table is taken if its name matches the pattern.
    """
    names: set[str] = set()
    problems: list[str] = []
    for name in sorted(_own_tables(outline)):
        if mode == "weights" or not re.fullmatch(pattern, name.rpartition("-")[0]):
            continue
        if name not in shapes:
            problems.append(f"{name}: not in the source")
        elif not have_equal_shapes(shapes[name], outline.variables[name]):
            problems.append(f"{name}: {list(shapes[name])} in the source has another shape here")
        else:
            names.add(name)
    return TakenTables(frozenset(names), tuple(problems))


def _own_tables(outline: ModelOutline) -> set[str]:
    """The tensors of tables that the model itself makes, such as a `MutableHashTable`."""
    return set(outline.growing & outline.weights)
