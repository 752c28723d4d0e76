"""How much of this machine a run uses."""

from __future__ import annotations

from typing import ClassVar

from estimator_kit.config.settings.base import Settings, Threads, setting


class MachineSettings(Settings):
    """How much of this machine a run uses."""

    heading: ClassVar[str] = "Threads and memory"

    intra_op_threads: Threads = setting(
        0,
        "Threads inside one op; 0 lets TensorFlow choose.",
        changes="nothing",
    )
    inter_op_threads: Threads = setting(
        0,
        "Ops that run at the same time; 0 lets TensorFlow choose.",
        changes="nothing",
    )
    memory_growth: bool = setting(
        True,
        "Take GPU memory when it is needed, and not all of it at the start.",
        changes="nothing",
    )
