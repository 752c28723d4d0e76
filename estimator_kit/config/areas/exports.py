"""Which SavedModels are written and kept, and how they are checked and measured.

Imports no TensorFlow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar, Literal, NamedTuple, Optional

from estimator_kit.config.areas.base import PositiveInt, Settings, setting
from estimator_kit.config.areas.program import Program
from feature_specs.errors import did_you_mean, nearest
from feature_specs.heads import METRICS, kind_of


class ExporterKind(NamedTuple):
    """An exporter of `estimator_kit.exporters.kinds`.

    Attributes:
      code: its module in `estimator_kit.exporters` and its class.
      when: when it exports, for --help.
      by_metric: whether it compares --best_metric.
      served: its rank for `export_path`, the export to serve; None for exports of other uses.
      number: a regular expression for what follows its name in --exporters; only some have one.
      example: how --exporters names it, for an error.
    """

    code: str
    when: str
    by_metric: bool = False
    served: Optional[int] = None
    number: str = ""
    example: str = ""


# The models of `scoring.references.models`.
REFERENCE_MODELS = ("constant", "linear", "boosted_trees")

EXPORTERS = {
    "latest": ExporterKind("kinds:Latest", "latest: after every evaluation", served=3),
    "best": ExporterKind(
        "best:Best",
        "best: when --best_metric improves, over all starts",
        by_metric=True,
        served=2,
    ),
    "best_k": ExporterKind(
        "best:BestK",
        "best_k:3 keeps the exports with the 3 best values; if two are equally good, the older one "
        "is better",
        by_metric=True,
        number="(:[1-9][0-9]{0,17})?",
        example="best_k or best_k:3",
    ),
    "step": ExporterKind(
        "kinds:Step",
        "step:1000: the first evaluated checkpoint at or after each multiple of 1000 steps",
        number=":[1-9][0-9]{0,17}",
        example="step:1000",
    ),
    "final": ExporterKind("kinds:Final", "final: at the end", served=1),
}


def compare_best_metric(exporters: Iterable[str]) -> bool:
    """Whether one of some exporters, without their numbers, compares --best_metric."""
    return any(EXPORTERS[name].by_metric for name in exporters if name in EXPORTERS)


Direction = Literal["min", "max"]


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
    kind = kind_of(watched.partition("/")[0])
    return kind.better if kind is not None and kind.better != "one" else None


def direction_problem(flag: str, watched: str) -> list[str]:
    """The problem of a metric whose direction nobody says."""
    if better(watched) is not None:
        return []
    hint = nearest(watched.partition("/")[0], METRICS) or "."
    return [
        f"--{flag}: the kit does not know whether a better {watched} is lower or higher{hint} "
        f"For your own metric, write min:{watched} or max:{watched}."
    ]


class Exports(Settings):
    """Which SavedModels are written and kept, and how they are checked and measured."""

    heading: ClassVar[str] = "Exports"

    exporters: tuple[str, ...] = setting(
        ("best", "final"),
        f"Which SavedModels the training writes, of {', '.join(EXPORTERS)}. "
        + "".join(f"{kind.when}. " for kind in EXPORTERS.values())
        + "The kit checks each export with rows of --eval_files before the export gets its name.",
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

    reference_models: tuple[str, ...] = setting(
        (),
        f"Reference models to compare the export with, of {', '.join(REFERENCE_MODELS)}. At the "
        "end of the training, they learn from up to 200,000 of the same rows, and result.json and "
        "the report say which is better on --eval_files (its set test, if it has one), with an "
        "interval. linear and "
        "boosted_trees need the extra 'reference'; without it, a line says how to install it, and "
        "the training succeeds all the same. If you add the flag to a training that has finished, "
        "the same command only compares. Needs an exporter.",
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
    lines = []
    names = exports.exporter_names
    for i, (name, entry) in enumerate(zip(names, exports.exporters)):
        if name in names[:i]:
            lines.append(f"--exporters: {name!r} is listed twice. Remove one of them.")
        elif name not in EXPORTERS:
            lines.append(f"--exporters: unknown exporter {name!r}{did_you_mean(name, EXPORTERS)}")
        elif not re.fullmatch(name + EXPORTERS[name].number, entry):
            expected = EXPORTERS[name].example or name
            lines.append(f"--exporters: expected {expected}, got {entry!r}.")
    for i, name in enumerate(exports.reference_models):
        if name in exports.reference_models[:i]:
            lines.append(f"--reference_models: {name!r} is listed twice. Remove one of them.")
        elif name not in REFERENCE_MODELS:
            lines.append(
                f"--reference_models: unknown reference model {name!r}"
                f"{did_you_mean(name, REFERENCE_MODELS)}"
            )
    if program.mode == "train_and_evaluate" and not exports.exporters:
        for name in ("slices", "importance", "reference_models"):
            if getattr(exports, name):
                lines.append(f"--{name} asks an export. Add final to --exporters.")
    return lines
