"""What a new training starts from. Imports no TensorFlow."""

from __future__ import annotations

from typing import ClassVar, Literal, Optional

from estimator_kit.config.areas.base import Settings, pattern_problem, setting
from estimator_kit.config.areas.run import Run

WarmStartMode = Literal["weights", "weights_and_stats", "all_but_step", "all"]

# The characters that have a meaning in a pattern of TensorFlow.
_WILDCARDS = "*?[\\"


class WarmStart(Settings):
    """What a new training starts from."""

    heading: ClassVar[str] = "Warm start"

    warm_start_from: Optional[str] = setting(
        None,
        "A checkpoint, model directory or SavedModel whose variables a new training starts "
        "from. Their shapes must fit. If words of a vocabulary or classes have moved, their "
        "rows move with them. This flag has no effect if --model_dir already has a checkpoint.",
        changes="training",
        named=True,
    )
    warm_start_mode: WarmStartMode = setting(
        "weights_and_stats",
        "What a warm start takes. weights: trainable variables and embedding tables. "
        "weights_and_stats: also other variables of layers, such as moving means. "
        "all_but_step: also the slots of optimizers. all: also the global step. The slots of "
        "FTRL come with the weights.",
        changes="training",
    )
    warm_start_vars: str = setting(
        ".*",
        "A regular expression: a warm start takes the variables whose full name matches. The "
        "slots of optimizers follow their variables.",
        changes="training",
    )
    warm_start_rename: tuple[str, ...] = setting(
        (),
        "Variables that have another name in the source, as old=new: old is a regular "
        "expression for a full name in the source, and new is the name in the model, such as "
        "dnn/(.*)=tower/\\1.",
        changes="training",
    )


def problems(warm_start: WarmStart, run: Run) -> list[str]:
    """Paths that TensorFlow would not find, and expressions that cannot be read."""
    lines = []
    paths = {"model_dir": run.model_dir, "warm_start_from": warm_start.warm_start_from}
    for field, path in paths.items():
        if path is not None and set(path) & set(_WILDCARDS):
            lines.append(
                f"--{field}: expected a path without {' '.join(_WILDCARDS)}, got {path!r}. "
                "TensorFlow reads the path of a checkpoint as a pattern, and does not find it. "
                "Rename the folder."
            )
    problem = pattern_problem(warm_start.warm_start_vars)
    if problem is not None:
        lines.append(f"--warm_start_vars: {problem}")
    for rename in warm_start.warm_start_rename:
        old, _, new = rename.rpartition("=")
        if not old or not new:
            lines.append(f"--warm_start_rename: expected old=new, got {rename!r}.")
            continue
        problem = pattern_problem(old)
        if problem is not None:
            lines.append(f"--warm_start_rename: {problem}")
    return lines
