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


Direction = Literal["min", "max"]

_MORE_IS_BETTER = (
    "accuracy", "auc", "auc_precision_recall", "bayes_auc", "concordance", "cosine_similarity",
    "f1", "gauc", "hit_rate", "mean_iou", "mrr", "ndcg", "precision", "precision_at_recall",
    "recall", "recall_at_precision", "top_k_accuracy",
)  # fmt: skip
_LESS_IS_BETTER = (
    "bayes_loss", "expected_calibration_error", "log_loss", "loss", "mean_absolute_error",
    "mean_relative_error", "mean_squared_error", "root_mean_squared_error",
)  # fmt: skip


def metric_of(watched: str) -> str:
    """The name of a metric as `best_metric` gives it: without `max:` or `min:`."""
    return re.sub("^(min|max):", "", watched)


def better(watched: str) -> Optional[Direction]:
    """Whether a lower or a higher value of a metric is better; None if nobody says it.

    Args:
      watched: a metric such as auc/click or ndcg_at_10/next, or max:name for one of a user.
    """
    if watched.startswith(("min:", "max:")):
        return "min" if watched.startswith("min:") else "max"
    name = re.sub(r"^top_\d+_", "top_k_", watched.partition("/")[0])
    name = re.sub(r"_at_\d+$|_\d*\.\d+$", "", name)
    if name in _MORE_IS_BETTER:
        return "max"
    return "min" if name in _LESS_IS_BETTER else None


def direction_problem(flag: str, watched: str) -> list[str]:
    """The problem of a metric whose direction nobody says."""
    if better(watched) is not None:
        return []
    return [
        f"--{flag}: the kit does not know whether a better {watched} is lower or higher. Write "
        f"min:{watched} or max:{watched}."
    ]


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
        "The metric of the exporters best and best_k, such as auc/click. For your own metric, "
        "say whether a better value is lower or higher: min:name or max:name. The run checks the "
        "name before it trains.",
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
    def best_direction(self) -> Optional[Direction]:
        """Whether a better `best_metric` is lower or higher."""
        return better(self.best_metric)

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
