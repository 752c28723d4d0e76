"""The days of a cycle, the folder that is served, what is kept, and notices.

Imports no TensorFlow.
"""

from __future__ import annotations

import datetime
import re
from typing import ClassVar, Optional

from estimator_kit.config.areas.base import InStore, PositiveInt, Settings, setting
from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.program import RETRAINING_MODES, Program
from estimator_kit.config.areas.run import Run
from feature_specs.errors import did_you_mean
from feature_specs.files import stores
from input_pipelines.reading import files

# The stages of a cycle, in their order.
STAGES = ("window", "vocabularies", "checks", "train", "gate", "promote", "clean")


class Retraining(Settings):
    """The days of a cycle, the folder that is served, what is kept, and notices."""

    heading: ClassVar[str] = "Scheduled retraining"

    as_of: Optional[str] = setting(
        None,
        "The newest day that a cycle may use, such as 2026-01-31; by default today.",
        changes="rows scores",
        named=True,
    )
    window_days: Optional[PositiveInt] = setting(
        None,
        "Train on this many complete days (with _SUCCESS in dt=YYYY-MM-DD): the last ones up "
        "to --as_of, before the days for evaluation. They replace dt=* in --train_files.",
        changes="rows",
        named=True,
    )
    eval_window_days: PositiveInt = setting(
        1,
        "How many of the newest complete days are for evaluation, from --eval_files if given, "
        "else from --train_files.",
        changes="rows scores",
        named=True,
    )
    window_min_days: PositiveInt = setting(
        1,
        "The cycle stops if it has fewer days to train on than this.",
        changes="limits",
    )
    window_min_rows: PositiveInt = setting(
        1,
        "The cycle stops if it has fewer records to train on than this.",
        changes="limits",
    )
    window_max_age_days: Optional[PositiveInt] = setting(
        None,
        "Use no day that is more than this many days before --as_of.",
        changes="rows",
        named=True,
    )
    serving_dir: Optional[str] = setting(
        None,
        "The folder that TensorFlow Serving watches. The highest version in it is the live model. "
        "The default is the folder of the last promotion, and at first model_dir/serving.",
        changes="",
        named=True,
        in_store=InStore.FOLDER,
    )
    force: bool = setting(
        False,
        "Run a cycle even if the window, the spec, the code and the flags are the same as in "
        "the last one.",
        changes="nothing",
    )
    keep_cycles: PositiveInt = setting(
        7,
        "Keep the checkpoints, exports and vocabularies of this many of the newest cycles. "
        "What belongs to the live model, to its parent, and to pinned cycles (with a file PINNED "
        "in their folder) always stays. Reports and lineage are never removed.",
        changes="nothing",
    )
    keep_versions: PositiveInt = setting(
        3,
        "Keep this many of the newest versions in --serving_dir, at least 2. Pinned versions stay "
        "too, and versions that another model directory or program made, or that keep.json in this "
        "folder names.",
        changes="nothing",
    )
    stage_limits: tuple[str, ...] = setting(
        (),
        "Seconds that a stage may take, such as train=7200,gate=600. The stages are "
        f"{', '.join(STAGES)}. A stage that takes longer saves what it has and exits with status "
        "75; the same command continues.",
        changes="nothing",
    )
    webhook_url_file: Optional[str] = setting(
        None,
        "A file whose first line is an http(s) address. Each cycle sends its report there as "
        "JSON, by POST. The address is in a file because it is a secret.",
        changes="nothing",
    )
    to: Optional[PositiveInt] = setting(
        None,
        "The version in --serving_dir to make live again, as a new version.",
        changes="nothing",
    )
    cycle: Optional[str] = setting(
        None,
        "Train this cycle again with its own flags, such as 0007, and show what differs. Nothing "
        "goes live.",
        changes="nothing",
    )


def problems(retraining: Retraining, program: Program, run: Run, data: Data) -> list[str]:
    """What does not go together in retraining."""
    if program.mode not in RETRAINING_MODES:
        return []
    lines = []
    for field, path in {"model_dir": run.model_dir, "serving_dir": retraining.serving_dir}.items():
        if path is not None and "://" in path and not stores.is_url(path):
            lines.append(
                f"--{field}: expected a local or mounted folder, got {path!r}. Retraining needs "
                "locks and atomic renames, which other file systems do not have."
            )
    if program.mode != "retrain" or retraining.cycle is not None:
        return lines
    if retraining.window_days is not None and retraining.window_min_days > retraining.window_days:
        lines.append(
            f"--window_min_days: expected at most --window_days={retraining.window_days}, got "
            f"{retraining.window_min_days}."
        )
    if retraining.as_of is not None:
        try:
            datetime.date.fromisoformat(retraining.as_of)
        except ValueError:
            lines.append(f"--as_of: expected a day such as 2026-01-31, got {retraining.as_of!r}.")
    for field in ("train_files", "eval_files"):
        for pattern in data.plain(field):
            try:
                files.of_days(pattern, ("2026-01-01",))
            except ValueError as error:
                lines.append(f"--{field}, with --mode=retrain: {error}")
    if retraining.keep_versions < 2:
        lines.append(
            "--keep_versions: expected at least 2, because a server may still be loading the "
            "version before the newest, got 1."
        )
    return lines + _limit_problems(retraining)


def stage_limits(retraining: Retraining) -> dict[str, float]:
    """The seconds that each stage may take."""
    pairs = (entry.partition("=") for entry in retraining.stage_limits)
    return {name: float(seconds) for name, _, seconds in pairs}


def _limit_problems(retraining: Retraining) -> list[str]:
    lines = []
    for entry in retraining.stage_limits:
        name = entry.partition("=")[0]
        if not re.fullmatch(r"\w+=(\d+(\.\d+)?)", entry):
            lines.append(
                f"--stage_limits: expected stage=seconds, such as train=7200, got {entry!r}."
            )
        elif name not in STAGES:
            lines.append(f"--stage_limits: unknown stage {name!r}{did_you_mean(name, STAGES)}")
        elif not float(entry.partition("=")[2]):
            lines.append(
                f"--stage_limits: expected more than 0 seconds, got {entry!r}. Leave the stage out "
                "if it has no limit."
            )
    return lines
