"""Warm start: a new training takes its first variables from an older model.

The values are read once, when training starts from nothing; a model directory that has a
checkpoint goes on from that instead. Takes the model's own variables only, never the step or an
optimizer's slots. A variable whose shape differs is an error: dropping, say, every embedding table
because a hash size changed is not a warm start.
"""

from __future__ import annotations

import re
from typing import Any

from estimator_kit.checkpoints import ModelOutline, find_checkpoint, shapes_in
from estimator_kit.errors import CheckpointError, ConfigError
from estimator_kit.tf_estimator import estimator


def warm_start_settings(source: str, pattern: str, outline: ModelOutline) -> Any:
    """Settings for `Estimator(warm_start_from=...)`.

    Args:
      source: a checkpoint, a model directory or a SavedModel.
      pattern: regular expression that a variable's whole name must match to be taken.
      outline: of the new model.

    Raises:
      ConfigError: there is no such source, or no variable matches the pattern.
      CheckpointError: a variable to take is missing in the source or has another shape there.
    """
    checkpoint = find_checkpoint(source)
    wanted = sorted(name for name in outline.weights if re.fullmatch(pattern, name))
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
    if problems:
        listing = "\n".join(f"  {problem}" for problem in problems)
        raise CheckpointError(
            f"cannot warm start from {checkpoint}; {len(problems)} of {len(wanted)} variables do "
            f"not fit:\n{listing}\nname those that are to be taken with --warm_start_vars"
        )
    return estimator.WarmStartSettings(
        ckpt_to_initialize_from=checkpoint,
        # TensorFlow matches these as prefixes; ":0" keeps `kernel` from taking `kernel/Adagrad`.
        vars_to_warm_start=[f"{re.escape(name)}:0$" for name in wanted],
    )
