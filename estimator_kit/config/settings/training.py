"""How long a training takes, what it starts from, and what it saves."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Optional

from pydantic import Field

from estimator_kit.config.settings.base import LARGEST, PositiveInt, Settings, setting

WarmStartMode = Literal["weights", "weights_and_stats", "all_but_step", "all"]


class TrainingSettings(Settings):
    """How long a training takes, what it starts from, and what it saves."""

    heading: ClassVar[str] = "Training"

    max_steps: Optional[PositiveInt] = setting(
        None,
        "Training ends at this global step, counted over all starts.",
        changes="training",
    )
    epochs: Optional[PositiveInt] = setting(
        None,
        "Training ends when every row was read this many times, counted over all starts. If "
        "you also give --max_steps, training ends at whichever comes first.",
        changes="training",
    )
    seed: Annotated[int, Field(ge=-LARGEST - 1, le=LARGEST)] = setting(
        1,
        "Decides the order of rows and the initial values of variables.",
        changes="records rows training",
    )
    deterministic: bool = setting(
        False,
        "Two trainings with the same start give the same checkpoint, bit for bit, on the same "
        "machine, TensorFlow and number of threads. TensorFlow then adds in a fixed order, "
        "which is slower, and fails at an op that has no fixed order. Without this flag, the "
        "rows are the same and sums differ in their last bits.",
        changes="nothing",
    )
    save_checkpoints_steps: Optional[PositiveInt] = setting(
        None,
        "Steps between two checkpoints.",
        changes="training",
    )
    save_checkpoints_secs: Optional[PositiveInt] = setting(
        None,
        "Seconds between two checkpoints; 600 if neither this flag nor "
        "--save_checkpoints_steps is given.",
        changes="training",
    )
    keep_checkpoint_max: PositiveInt = setting(
        5,
        "How many of the latest checkpoints to keep.",
        changes="nothing",
    )
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
    summary_steps: PositiveInt = setting(
        100,
        "Steps between two summaries of the training for TensorBoard.",
        changes="nothing",
    )
    histograms: bool = setting(
        False,
        "Write the distribution of the values of each trainable variable for TensorBoard at each "
        "summary. Reads whole tables.",
        changes="nothing",
    )
