"""Which SavedModels are written and kept, and how they are checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, NamedTuple, Optional

from estimator_kit.config.settings.base import PositiveInt, Settings, setting


class ExporterKind(NamedTuple):
    """An exporter of `estimator_kit.exporters.kinds`.

    Attributes:
      code: its module in `estimator_kit.exporters` and its class.
      when: when it exports, for --help.
      by_metric: whether it compares --best_metric.
      needs: the setting without which it cannot work, and what that is.
      served: its rank for `export_path`, the export to serve; None for exports of other uses.
    """

    code: str
    when: str
    by_metric: bool = False
    needs: Optional[tuple[str, str]] = None
    served: Optional[int] = None


EXPORTERS = {
    "latest": ExporterKind("kinds:Latest", "after every evaluation", served=3),
    "best": ExporterKind(
        "best:Best", "when --best_metric improves, over all starts", by_metric=True, served=2
    ),
    "best_k": ExporterKind(
        "best:BestK", "when --best_metric is among the --best_k best values", by_metric=True
    ),
    "step": ExporterKind(
        "kinds:Step",
        "every --export_every_steps",
        needs=("export_every_steps", "the number of steps between its exports"),
    ),
    "final": ExporterKind("kinds:Final", "at the end", served=1),
}


def compare_best_metric(exporters: Iterable[str]) -> bool:
    """Whether one of some exporters compares --best_metric."""
    return any(EXPORTERS[name].by_metric for name in exporters if name in EXPORTERS)


class ExportSettings(Settings):
    """Which SavedModels are written and kept, and how they are checked."""

    heading: ClassVar[str] = "Exports"

    exporters: tuple[str, ...] = setting(
        ("best", "final"),
        f"Which SavedModels the training writes, of {', '.join(EXPORTERS)}. "
        + "".join(f"{name}: {kind.when}. " for name, kind in EXPORTERS.items())
        + "The kit checks each export with rows of --eval_files before the export gets its name.",
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
    export_check_rows: PositiveInt = setting(
        100,
        "How many of the first rows of --eval_files the kit checks each export with, before the "
        "export gets its name. The kit adds rows with missing, unknown and extreme values of each "
        "feature, from the first 100,000 rows.",
        changes="limits",
    )
    default_signature: str = setting(
        "predict_examples",
        "The signature that becomes serving_default in an export: predict_examples (all "
        "objectives, from serialized records), predict_raw (all objectives, from one tensor "
        "for each feature), or predict/<objective>, classify/<objective> or "
        "regress/<objective>, depending on the head.",
        changes="outputs",
    )
