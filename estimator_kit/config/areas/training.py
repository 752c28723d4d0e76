"""What a training starts from, how long it takes, what it saves, and how it computes.

Imports no TensorFlow.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Optional

from pydantic import Field

from estimator_kit.config.areas.base import (
    Count,
    InStore,
    PositiveInt,
    Settings,
    pattern_problem,
    setting,
)
from estimator_kit.config.areas.exports import (
    Direction,
    Exports,
    better,
    compare_best_metric,
    direction_problem,
)
from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.run import Run

# The most epochs of a training whose length nobody gave. Few trainings come near it: early
# stopping ends most of them after 5 to 20 epochs (benchmarks/first_models.md).
MOST_EPOCHS = 100

# The fewest and the most steps between two evaluations that early stopping compares. In fewer steps
# a metric changes at random, and evaluations take longer than training.
LEAST_STEPS, MOST_STEPS = 50, 10_000


class Training(Settings):
    """How long a training takes, what it saves, and how it computes."""

    heading: ClassVar[str] = "Training"

    max_steps: Optional[PositiveInt] = setting(
        None,
        "Training ends at this global step, counted over all starts.",
        changes="training",
    )
    epochs: Optional[PositiveInt] = setting(
        None,
        "Training ends when every row was read this many times, counted over all starts. If "
        "you also give --max_steps, training ends at whichever comes first. If "
        "--mode=train_and_evaluate has neither, it trains until --early_stopping_metric (by "
        f"default --best_metric) stops improving, for at most {MOST_EPOCHS} epochs.",
        changes="training",
    )
    batch_size: PositiveInt = setting(
        512,
        "Rows in each training step.",
        changes="training",
    )
    shuffle: bool = setting(
        True,
        "Shuffle the training rows.",
        changes="rows",
    )
    keep_negatives: Optional[str] = setting(
        None,
        "Train on this share of the rows whose label is 0, such as 0.1. If several objectives "
        "are binary, name one: click=0.1. Each epoch keeps other rows, and the same rows if "
        "you train again. A kept row weighs 1 / share in the losses of all objectives, so "
        "predictions stay calibrated. Evaluation reads all rows.",
        changes="rows",
    )
    save_checkpoints_steps: Optional[PositiveInt] = setting(
        None,
        "Steps between two checkpoints.",
        changes="training",
    )
    save_checkpoints_secs: Optional[PositiveInt] = setting(
        None,
        "Seconds between two checkpoints; 600 if neither this flag nor "
        "--save_checkpoints_steps is given. With --early_stopping_metric the default is an epoch, "
        f"but at least {LEAST_STEPS} and at most {MOST_STEPS:,} steps.",
        changes="training",
    )
    keep_checkpoint_max: PositiveInt = setting(
        5,
        "How many of the latest checkpoints to keep.",
        changes="nothing",
    )
    eval_throttle_secs: Count = setting(
        0,
        "The fewest seconds between two evaluations; 0 evaluates every checkpoint.",
        changes="training",
    )
    early_stopping_metric: Optional[str] = setting(
        None,
        "Stop when this metric has not improved in --early_stopping_patience evaluations. "
        "Metrics are named <metric>/<objective>, such as auc/click. For your own metric, say "
        "whether a better value is lower or higher: min:name or max:name.",
        changes="training",
    )
    early_stopping_patience: PositiveInt = setting(
        3,
        "How many evaluations without improvement stop the training.",
        changes="training",
    )
    early_stopping_min_delta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = setting(
        0.0,
        "The least change of --early_stopping_metric that is an improvement, such as 0.0005. With "
        "0, any better value is one. The exporter best does not use it.",
        changes="training",
    )
    mixed_precision: Optional[Literal["bfloat16", "float16"]] = setting(
        None,
        "Training multiplies the matrices of dense layers in this type. Variables, tables, losses "
        "and metrics stay float32, and evaluation, prediction and exports compute in float32. It "
        "pays on a GPU, or on a CPU with AMX.",
        changes="training",
    )
    xla: Literal["on", "off"] = setting(
        "off",
        "on: training compiles the dense part of the model with XLA. Lookups in tables stay "
        "outside. Evaluation, prediction and exports are not compiled.",
        changes="nothing",
    )

    @property
    def early_stopping_direction(self) -> Optional[Direction]:
        """Whether a better `early_stopping_metric` is lower or higher."""
        return better(self.early_stopping_metric) if self.early_stopping_metric else None


def has_length(training: Training) -> bool:
    """Whether the settings say when training ends, at the latest."""
    return training.max_steps is not None or training.epochs is not None


def until_it_stalls(training: Training, exports: Exports) -> dict[str, Any]:
    """The settings of a training without a length: it ends when evaluations stop improving."""
    if has_length(training):
        return {}
    metric = training.early_stopping_metric or exports.best_metric
    return {"epochs": MOST_EPOCHS, "early_stopping_metric": metric}


def only_stalling_ends(training: Training) -> bool:
    """Whether a training has the length of `until_it_stalls`, which --epochs=100 also gives."""
    return training.epochs == MOST_EPOCHS and training.max_steps is None


def steps_between_evaluations(training: Training, steps_an_epoch: int) -> Optional[int]:
    """The default of --save_checkpoints_steps with early stopping; None if the clock decides."""
    by_user = training.save_checkpoints_steps or training.save_checkpoints_secs
    if by_user is not None or training.early_stopping_metric is None:
        return None
    return min(max(steps_an_epoch, LEAST_STEPS), MOST_STEPS)


def problems(training: Training, program: Program, exports: Exports) -> list[str]:
    """What does not go together in the length and the checkpoints of a training."""
    lines = []
    if training.save_checkpoints_steps is not None and training.save_checkpoints_secs is not None:
        lines.append(
            "--save_checkpoints_steps and --save_checkpoints_secs do not go together. Give one of "
            "them."
        )
    by_clock = program.deterministic and training.save_checkpoints_secs is not None
    if by_clock and training.early_stopping_metric is not None:
        lines.append(
            "--deterministic with --early_stopping_metric does not go with "
            "--save_checkpoints_secs. Checkpoints that are saved by the clock would stop each "
            "training at another step. Use --save_checkpoints_steps."
        )
    return lines + _direction_problems(training, exports)


def _direction_problems(training: Training, exports: Exports) -> list[str]:
    """Metrics of which nobody says whether a better value is lower or higher."""
    lines = []
    if training.early_stopping_metric is not None:
        lines += direction_problem("early_stopping_metric", training.early_stopping_metric)
    if compare_best_metric(exports.exporter_names):
        lines += direction_problem("best_metric", exports.best_metric)
    return lines


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
        in_store=InStore.READ,
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


def warm_start_problems(warm_start: WarmStart, run: Run) -> list[str]:
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
