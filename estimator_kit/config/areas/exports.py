"""Which SavedModels are written and kept, and how they are checked and measured.

Imports no TensorFlow.
"""

from __future__ import annotations

import re
from typing import ClassVar, Literal, Optional

from estimator_kit.config.areas.base import PositiveInt, Settings, setting
from estimator_kit.config.areas.program import Program
from feature_specs.errors import did_you_mean

# The forms of exporters that have a number, as regular expressions.
_FORMS = {"best_k": r"best_k(:[1-9][0-9]{0,17})?", "step": r"step:[1-9][0-9]{0,17}"}

EXPORTERS = ("latest", "best", "best_k", "step", "final")


class Exports(Settings):
    """Which SavedModels are written and kept, and how they are checked and measured."""

    heading: ClassVar[str] = "Exports"

    exporters: tuple[str, ...] = setting(
        ("best", "final"),
        f"Which SavedModels the training writes, of {', '.join(EXPORTERS)}. latest: after every "
        "evaluation. best: when --best_metric improves, over all starts. best_k:3 keeps the "
        "exports with the 3 best values; if two are equally good, the older one is better. "
        "step:1000: the first evaluated checkpoint at or after each multiple of 1000 steps. final: "
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

    @property
    def exporter_names(self) -> tuple[str, ...]:
        """The exporters without their numbers."""
        return tuple(entry.partition(":")[0] for entry in self.exporters)

    @property
    def best_k(self) -> int:
        """How many SavedModels the exporter best_k keeps."""
        return self._number_of("best_k") or 3

    @property
    def export_every_steps(self) -> Optional[int]:
        """The steps between two exports of the exporter step."""
        return self._number_of("step")

    def _number_of(self, exporter: str) -> Optional[int]:
        for entry in self.exporters:
            name, _, number = entry.partition(":")
            if name == exporter and number:
                return int(number)
        return None


def problems(exports: Exports, program: Program) -> list[str]:
    """Exporters that do not exist, are listed twice, or lack a setting."""
    found = []
    names = exports.exporter_names
    for i, (name, entry) in enumerate(zip(names, exports.exporters)):
        if name in names[:i]:
            found.append(f"--exporters: {name!r} is listed twice. Remove one of them.")
        elif name not in EXPORTERS:
            found.append(f"--exporters: unknown exporter {name!r}{did_you_mean(name, EXPORTERS)}")
        elif not re.fullmatch(_FORMS.get(name, name), entry):
            example = {"best_k": "best_k or best_k:3", "step": "step:1000"}.get(name, name)
            found.append(f"--exporters: expected {example}, got {entry!r}.")
    if program.mode == "train_and_evaluate" and not exports.exporters:
        for name in ("slices", "importance"):
            if getattr(exports, name):
                found.append(f"--{name} asks an export. Add final to --exporters.")
    return found
