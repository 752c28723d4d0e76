"""Warm start: a new training takes its first variables from an older model.

The values are read once, when training starts from nothing; a model directory that has a
checkpoint goes on from that instead. Takes the model's own variables, never the step, and of
optimizers' slots only those of FTRL, which would forget the weights without them. A variable whose
shape differs is an error: dropping, say, every embedding table because a hash size changed is not a
warm start. Neither is one whose vocabulary was reordered: the spec that the source keeps, in its
model directory or in its export, is compared.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from typing import Any

from estimator_kit.checkpoints import ModelOutline, Shapes, find_checkpoint, shapes_in
from estimator_kit.errors import CheckpointError, ConfigError
from estimator_kit.run_record import changes_since
from estimator_kit.tf_estimator import estimator
from feature_specs.column_kinds import Embedding
from feature_specs.naming import canned_name
from feature_specs.schema import FeatureSpec

logger = logging.getLogger(__name__)


def warm_start_settings(
    source: str, pattern: str, outline: ModelOutline, spec: FeatureSpec
) -> Any:
    """Settings for `Estimator(warm_start_from=...)`.

    Args:
      source: a checkpoint, a model directory or a SavedModel.
      pattern: regular expression that a variable's whole name must match to be taken.
      outline: of the new model.
      spec: of the new model; compared with the source's own, where it has kept one.

    Raises:
      ConfigError: there is no such source, or no variable matches the pattern.
      CheckpointError: a variable to take is missing in the source or has another shape there.
    """
    checkpoint = find_checkpoint(source)
    wanted = sorted(warm_started(pattern, outline))
    if not wanted:
        raise ConfigError(
            f"--warm_start_vars={pattern} matches none of the model's variables: "
            f"{', '.join(sorted(outline.weights))}"
        )
    found = shapes_in(checkpoint)
    problems = []
    for name in wanted:
        if name not in found:
            problems.append(f"{name}: not in the source")
        elif found[name] != outline.variables[name]:
            problems.append(
                f"{name}: {list(found[name])} in the source, "
                f"{list(outline.variables[name])} in the model"
            )
    problems += _other_meanings(source, wanted, spec)
    if problems:
        listing = "\n".join(f"  {problem}" for problem in problems)
        raise CheckpointError(
            f"cannot warm start from {checkpoint}; of {len(wanted)} variables these do "
            f"not fit:\n{listing}\nname those that are to be taken with --warm_start_vars"
        )
    return estimator.WarmStartSettings(
        ckpt_to_initialize_from=checkpoint,
        # TensorFlow matches these as prefixes; ":0" keeps `kernel` from taking `kernel/Adagrad`.
        vars_to_warm_start=[
            f"{re.escape(name)}:0$" for name in (*wanted, *_ftrl_slots(wanted, outline, found))
        ],
    )


def _ftrl_slots(wanted: list[str], outline: ModelOutline, found: Shapes) -> list[str]:
    """FTRL's slots of the variables to take, as far as the source has them.

    FTRL keeps no weight from step to step but makes it anew from its slots (McMahan et al., 2013,
    algorithm 1): a weight whose slots start from nothing is all but forgotten at its first step.
    """
    slots = [f"{name}/{slot}" for name in wanted for slot in ("Ftrl", "Ftrl_1")]
    slots = [slot for slot in slots if slot in outline.variables]
    fitting = [slot for slot in slots if found.get(slot) == outline.variables[slot]]
    if len(fitting) < len(slots):
        logger.warning(
            "warm start: the source has not all of FTRL's slots for this model, so FTRL will "
            "forget the weights it lacks them for at their first step; start from a checkpoint "
            "that FTRL trained, or train with another optimizer, such as adagrad"
        )
    return fitting


def warm_started(pattern: str, outline: ModelOutline) -> frozenset[str]:
    """Names of the model's variables that a warm start with this pattern takes."""
    return frozenset(name for name in outline.weights if re.fullmatch(pattern, name))


def _other_meanings(source: str, wanted: list[str], spec: FeatureSpec) -> Iterator[str]:
    """Variables of the right shape whose rows stand for something else in the source."""
    for folder in (source, os.path.dirname(source), os.path.join(source, "assets.extra")):
        changes = changes_since(os.path.join(folder, "feature_spec"), spec)
        for (section, name), sentence in changes.items():
            if section != "columns" or name not in spec.columns:
                continue
            for variable in wanted:
                if any(_is_of(variable, spec, other) for other in spec.made_from(name)):
                    yield f"{variable}: its rows mean something else; {sentence}"


def _is_of(variable: str, spec: FeatureSpec, name: str) -> bool:
    """Whether a variable belongs to a column."""
    column = spec.columns[name]
    if isinstance(column, Embedding) and column.shared is not None:
        return variable == column.shared
    return f"/{canned_name(spec, name)}/" in variable
