"""Which SavedModels are written and kept, and how they are checked."""

from __future__ import annotations

from typing import ClassVar, Literal, Optional

from estimator_kit.config.settings.base import PositiveInt, Settings, setting

EXPORTERS = ("latest", "best", "best_k", "step", "final")


class ExportSettings(Settings):
    """Which SavedModels are written and kept, and how they are checked."""

    heading: ClassVar[str] = "Exports"

    exporters: tuple[str, ...] = setting(
        ("best", "final"),
        f"Which SavedModels train_and_evaluate writes, of {', '.join(EXPORTERS)}: latest after "
        "every evaluation, best when --best_metric improves (over all starts), best_k when it is "
        "among the --best_k best ones, step each --export_every_steps, final at the end. Each is "
        "asked with rows of --eval_files before it gets its name.",
    )
    best_metric: str = setting(
        "loss",
        "The metric of the exporters best and best_k, as in auc/click. Checked at the start.",
    )
    best_direction: Optional[Literal["min", "max"]] = setting(
        None,
        "Which way the best metric gets better; losses do by min, and others need it said.",
    )
    best_k: PositiveInt = setting(
        3,
        "SavedModels that best_k keeps, the best ones; of two that are equal, the older.",
    )
    export_every_steps: Optional[PositiveInt] = setting(
        None,
        "Steps between the exports of step: the first evaluated checkpoint at or after each "
        "multiple.",
    )
    exports_to_keep: PositiveInt = setting(
        5,
        "SavedModels that latest, best and step keep, the newest ones. Those that keep.json "
        "beside them names as pinned or live stay, too.",
    )
    export_check_rows: PositiveInt = setting(
        100,
        "The first rows of --eval_files that each export is asked with before it gets its name. "
        "Of the first 100,000 rows, those with missing, unknown and extreme values of each "
        "feature are added.",
    )
    default_signature: str = setting(
        "predict_examples",
        "Which signature of an export is serving_default: predict_examples (all objectives, "
        "from serialized records), predict_raw (the same, from one tensor a feature), or "
        "predict/<objective>, classify/<objective>, regress/<objective> as its head has them.",
    )
