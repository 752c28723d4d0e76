"""How training computes the dense part of a model."""

from __future__ import annotations

from typing import ClassVar, Literal, Optional

from estimator_kit.config.settings.base import Settings, setting


class ComputeSettings(Settings):
    """How training computes the dense part of a model."""

    heading: ClassVar[str] = "Speed of the dense part"

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
