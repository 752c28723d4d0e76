"""Which SavedModels are written and kept, and how they are checked and measured.

Imports no TensorFlow.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Optional

from estimator_kit.config.areas.base import PositiveInt, Settings, setting
from estimator_kit.config.areas.program import Program
from feature_specs.errors import did_you_mean

EXPORTERS = ("latest", "best", "best_k", "step", "final")


class Exports(Settings):
    """Which SavedModels are written and kept, and how they are checked and measured."""

    heading: ClassVar[str] = "Exports"

    exporters: tuple[str, ...] = setting(
        ("best", "final"),
        f"Which SavedModels the training writes, of {', '.join(EXPORTERS)}. latest: after every "
        "evaluation. best: when --best_metric improves, over all starts. best_k: when "
        "--best_metric is among the --best_k best values. step: every --export_every_steps. final: "
        "at the end. The kit checks each export with rows of --eval_files before the export gets "
        "its name.",
        changes="nothing",
    )
    best_metric: str = setting(
        "loss",
        "The metric of the exporters best and best_k, such as auc/click. The run checks the "
        "name before it trains.",
        changes="scores",
    )
    best_direction: Optional[Literal["min", "max"]] = setting(
        None,
        "Whether a better --best_metric is lower (min) or higher (max). Required for every "
        "metric except a loss.",
        changes="scores",
    )
    best_k: PositiveInt = setting(
        3,
        "How many SavedModels best_k keeps. If two are equally good, the older one is better.",
        changes="nothing",
    )
    export_every_steps: Optional[PositiveInt] = setting(
        None,
        "Steps between two exports of the exporter step. It exports the first evaluated "
        "checkpoint at or after each multiple of this number.",
        changes="nothing",
    )
    exports_to_keep: PositiveInt = setting(
        5,
        "How many of the newest SavedModels latest, best and step keep. SavedModels that "
        "keep.json in their folder marks as pinned or live stay too.",
        changes="nothing",
    )
    default_signature: str = setting(
        "predict_examples",
        "The signature that becomes serving_default in an export: predict_examples (all "
        "objectives, from serialized records), predict_raw (all objectives, from one tensor "
        "for each feature), or predict/<objective>, classify/<objective> or "
        "regress/<objective>, depending on the head.",
        changes="outputs",
    )
    slices: tuple[str, ...] = setting(
        (),
        "Features whose values divide the evaluation into slices, such as country,device. The "
        "report shows the metric of each slice with its interval. Needs an exporter.",
        changes="nothing",
    )
    importance: bool = setting(
        False,
        "Measure how much the metric of each objective loses when a feature is shuffled among the "
        "rows. Asks the export for up to 20,000 rows five times for each feature.",
        changes="nothing",
    )


def problems(exports: Exports, program: Program) -> list[str]:
    """Exporters that do not exist, are listed twice, or lack a setting."""
    found = []
    for i, name in enumerate(exports.exporters):
        if name in exports.exporters[:i]:
            found.append(f"--exporters: {name!r} is listed twice. Remove one of them.")
        elif name not in EXPORTERS:
            found.append(f"--exporters: unknown exporter {name!r}{did_you_mean(name, EXPORTERS)}")
    if "step" in exports.exporters and exports.export_every_steps is None:
        found.append(
            "--export_every_steps is missing. The exporter step needs the number of steps between "
            "its exports."
        )
    if "step" not in exports.exporters and exports.export_every_steps is not None:
        found.append("--export_every_steps is for the exporter step. Add step to --exporters.")
    if program.mode == "train_and_evaluate" and not exports.exporters:
        for name in ("slices", "importance"):
            if getattr(exports, name):
                found.append(f"--{name} asks an export. Add final to --exporters.")
    return found
