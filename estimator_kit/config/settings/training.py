"""How long training takes, what it starts from, and what is saved."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Optional

from pydantic import Field

from estimator_kit.config.settings.base import LARGEST, PositiveInt, Settings, setting

WarmStartMode = Literal["weights", "weights_and_stats", "all_but_step", "all"]


class TrainingSettings(Settings):
    """How long training takes, what it starts from, and what is saved."""

    heading: ClassVar[str] = "Training"

    max_steps: Optional[PositiveInt] = setting(
        None,
        "Training ends at this global step, over all starts together.",
    )
    epochs: Optional[PositiveInt] = setting(
        None,
        "Training ends when every row was read so often, over all starts together. With "
        "--max_steps too, whichever comes first.",
    )
    seed: Annotated[int, Field(ge=-LARGEST - 1, le=LARGEST)] = setting(
        1,
        "Decides the order of rows and the initial variables.",
    )
    deterministic: bool = setting(
        False,
        "Two trainings from one start give the same checkpoint, bit for bit, on the same "
        "machine, TensorFlow and number of threads: TensorFlow then adds up in a fixed order, "
        "which costs speed, and fails at an op that has none. Without it the rows are the same, "
        "and sums differ in their last bits.",
    )
    save_checkpoints_steps: Optional[PositiveInt] = setting(
        None,
        "Steps between checkpoints.",
    )
    save_checkpoints_secs: Optional[PositiveInt] = setting(
        None,
        "Seconds between checkpoints; 600 when neither is given.",
    )
    keep_checkpoint_max: PositiveInt = setting(
        5,
        "Checkpoints that are kept, the latest ones.",
    )
    warm_start_from: Optional[str] = setting(
        None,
        "A checkpoint, a model_dir or a SavedModel whose variables a new training starts from. "
        "Their shapes must fit; rows of vocabularies and classes whose words moved are moved. "
        "Plays no part when model_dir already has a checkpoint.",
    )
    warm_start_mode: WarmStartMode = setting(
        "weights_and_stats",
        "What a warm start takes. weights: trainable variables and embedding tables. "
        "weights_and_stats: also what layers keep beside them, such as moving means. "
        "all_but_step: also the slots of optimizers. all: also the global step. FTRL's slots "
        "come with weights.",
    )
    warm_start_vars: str = setting(
        ".*",
        "Regular expression: which variables warm start takes, by full name. Slots of "
        "optimizers follow their variable.",
    )
    warm_start_rename: tuple[str, ...] = setting(
        (),
        "Variables that have another name in the source: old=new, old a regular expression for "
        "a whole name there and new the name in the model, as in dnn/(.*)=tower/\\1.",
    )
    profile_input: bool = setting(
        False,
        "Profile a hundred of the first steps, and say which share of their time they wait for "
        "input, which stage of it is busiest, and what to change.",
    )
