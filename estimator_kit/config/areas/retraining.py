"""The periods of a cycle, the folder that is served, what is kept, and notices.

Imports no TensorFlow.
"""

from __future__ import annotations

import re
from typing import ClassVar, Literal, Optional

from estimator_kit.config.areas.base import InStore, PositiveInt, Settings, setting
from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.program import RETRAINING_MODES, Program
from estimator_kit.config.areas.run import Run
from feature_specs.durations import duration
from feature_specs.errors import did_you_mean
from feature_specs.files import stores
from input_pipelines.reading.periods import Periods

# The stages of a cycle, in their order.
STAGES = ("window", "vocabularies", "checks", "train", "gate", "promote", "clean")

_ROWS = re.compile(r"([1-9]\d*)rows")


class Retraining(Settings):
    """The periods of a cycle, the folder that is served, what is kept, and notices."""

    heading: ClassVar[str] = "Scheduled retraining"

    period: str = setting(
        "1d",
        "The length of a period, and its time zone (UTC by default). In retrain, each has a folder "
        "of records: 1d in dt=*, 1h in dt=*/hour=*, minutes in ts=* (ts=2026-01-05T13-30), or "
        "5m,Europe/Berlin in data/%Y/%m/%d/%H%M. monitor measures the requests of each together.",
        changes="rows scores",
        named=True,
    )
    as_of: Optional[str] = setting(
        None,
        "The newest period that a cycle may use: a day such as 2026-01-31, or for shorter periods "
        "also 2026-01-31T13 or 2026-01-31T13-30. The default is now, for days today.",
        changes="rows scores",
        named=True,
    )
    window: Optional[str] = setting(
        None,
        "Train on this many complete periods (with _SUCCESS in their folder), such as 7d, 12h or "
        "30m: the last ones up to --as_of, before those for evaluation. They replace the stars of "
        "their folder in --train_files.",
        changes="rows",
        named=True,
    )
    eval_window: Optional[str] = setting(
        None,
        "How many of the newest complete periods are for evaluation, such as 1h, from --eval_files "
        "if given, else from --train_files. The default is one period.",
        changes="rows scores",
        named=True,
    )
    window_min: tuple[str, ...] = setting(
        (),
        "The cycle stops if it has less to train on than this: periods, records, or both, as in "
        "3d,10000rows.",
        changes="limits",
    )
    window_max_age: Optional[str] = setting(
        None,
        "Use no period that begins more than this before the newest one of --as_of, such as 14d.",
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
    promote_as: Optional[Literal["canary"]] = setting(
        None,
        "canary: a candidate that passes the gate does not go live. It becomes the newest version "
        "in the folder of --serving_dir with .canary at its end, and replaces the canary there. "
        "promote makes it live. The first model goes live at once.",
        changes="nothing",
    )
    watch: bool = setting(
        False,
        "Stay, and run a cycle as soon as a new period is complete, instead of a clock that starts "
        "the command. A cycle that is refused or fails does not end the program; SIGTERM does.",
        changes="nothing",
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
        "The version in --serving_dir to make live again, or the canary to make live, as a new "
        "version.",
        changes="nothing",
    )
    cycle: Optional[str] = setting(
        None,
        "Train this cycle again with its own flags, such as 0007, and show what differs. Nothing "
        "goes live.",
        changes="nothing",
    )

    @property
    def periods(self) -> Periods:
        return Periods.of(self.period)

    @property
    def train_count(self) -> int:
        """The number of periods to train on."""
        assert self.window is not None
        return self.periods.count(duration(self.window))

    @property
    def eval_count(self) -> int:
        """The number of periods for evaluation."""
        return self.periods.count(duration(self.eval_window)) if self.eval_window else 1

    @property
    def least(self) -> tuple[int, int]:
        """The least periods to train on, and the least records in them."""
        periods, records = 1, 1
        for entry in self.window_min:
            match = _ROWS.fullmatch(entry)
            if match is not None:
                records = int(match[1])
            else:
                periods = self.periods.count(duration(entry))
        return periods, records


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
    if program.mode == "promote" or retraining.promote_as is not None:
        lines += [
            f"--{field}={path}: canaries need a local or mounted folder. Name one, or remove "
            "--promote_as."
            for field, path in (
                ("model_dir", run.model_dir),
                ("serving_dir", retraining.serving_dir),
            )
            if path is not None and stores.is_url(path)
        ]
    if program.mode not in ("retrain", "monitor"):
        return lines
    try:
        _ = retraining.periods
    except ValueError as error:
        end = "" if str(error).endswith(("?", ".")) else "."
        return [*lines, f"--period: {error}{end}"]
    if program.mode == "monitor":
        return lines
    if retraining.watch:
        lines += [
            f"--watch and --{name} do not go together. {why}"
            for name, why in {
                "cycle": "An earlier cycle is trained again once. Remove --watch.",
                "as_of": "With a fixed end, no new period ever comes. Remove --as_of.",
                "force": "It would repeat the last cycle. Remove --force.",
            }.items()
            if getattr(retraining, name)
        ]
    if retraining.cycle is not None:
        return lines
    lines += _period_problems(retraining, data)
    if retraining.keep_versions < 2:
        lines.append(
            "--keep_versions: expected at least 2, because a server may still be loading the "
            "version before the newest, got 1."
        )
    return lines + _limit_problems(retraining)


def _period_problems(retraining: Retraining, data: Data) -> list[str]:
    periods = retraining.periods
    lines = []
    values = [*retraining.window_min, retraining.eval_window, retraining.window]
    names = [*(["window_min"] * len(retraining.window_min)), "eval_window", "window"]
    for name, value in zip(names, values):
        try:
            if value is not None and not (name == "window_min" and _ROWS.fullmatch(value)):
                periods.count(duration(value))
        except ValueError as error:
            also = ", or records such as 1000rows" if name == "window_min" else ""
            lines.append(f"--{name}: {error}{also}.")
    if retraining.window_max_age is not None:
        try:
            duration(retraining.window_max_age)
        except ValueError as error:
            lines.append(f"--window_max_age: {error}.")
    by_rows = [_ROWS.fullmatch(entry) is not None for entry in retraining.window_min]
    if len(by_rows) > len({*by_rows}):
        lines.append(
            "--window_min: expected at most one number of periods and one of rows, got "
            f"{','.join(retraining.window_min)}."
        )
    if not lines and retraining.window is not None and retraining.least[0] > retraining.train_count:
        lines.append(
            f"--window_min: expected at most --window={retraining.window}, got "
            f"{','.join(retraining.window_min)}."
        )
    if retraining.as_of is not None:
        try:
            periods.newest(retraining.as_of)
        except ValueError as error:
            lines.append(f"--as_of: {error}.")
    for field in ("train_files", "eval_files"):
        for pattern in data.plain(field):
            try:
                periods.parts(pattern)
            except ValueError as error:
                lines.append(f"--{field}, with --mode=retrain: {error}")
    return lines


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
