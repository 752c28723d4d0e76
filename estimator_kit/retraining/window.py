"""Chooses the days that a cycle trains on and scores: the last complete days on disk.

    window = choose(config, spec, facts, as_of=date, before=None)

A day is complete if its folder `dt=2026-01-07` has a file `_SUCCESS`. The newest days are for
evaluation, and the days before them for training. So the two never overlap, and a model is scored
on days after its training. A day is skipped, with a reason, if its folder does not exist, if it is
not complete, or if it differs from its manifest. The same holds for damaged days (if
--corrupt_data_policy leaves out such files), and for label rates that the spec excludes. This
module writes nothing.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import logging
import os
import re
from collections.abc import Sequence
from typing import Optional

from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.reading import Reading
from estimator_kit.config.modes import OnDays
from estimator_kit.retraining import facts as data_facts
from estimator_kit.retraining.cycle_files import StageFile
from estimator_kit.retraining.facts import Facts, FileFacts, label_rate_problem
from feature_specs.errors import counted
from feature_specs.files import copies, documents
from feature_specs.spec import FeatureSpec
from feature_specs.statistics import population
from input_pipelines.errors import DataError
from input_pipelines.reading import files
from input_pipelines.reading import files as windows

_log = logging.getLogger("estimator_kit")

_FOLDER = re.compile(r"dt=(\d{4}-\d{2}-\d{2})")


class Day(documents.Part):
    """A day of the window.

    Attributes:
      name: for example 2026-01-07.
      digest: a hash of the names and the contents of its files.
      rows: the number of records that count.
      files: the facts of each file.
      dropped: the number of other records, which the spec's filter drops.
    """

    name: str
    digest: str
    rows: int
    files: tuple[FileFacts, ...]
    dropped: int = 0

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]


class Window(documents.Part):
    """The days that a cycle reads.

    Attributes:
      as_of: the day for which it was chosen.
      train, evaluate: the days, from first to last.
      left_out: the reasons by day, also for a day of which only damaged files are left out.
      late: days of this window that were not complete at the cycle before.
      rewritten: days that have changed since the cycle before.
    """

    as_of: datetime.date
    train: tuple[Day, ...]
    evaluate: tuple[Day, ...]
    left_out: dict[str, str]
    late: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()

    @property
    def content(self) -> str:
        """A hash of the days for training and for evaluation, with their contents."""
        parts = [[(day.name, day.digest) for day in days] for days in (self.train, self.evaluate)]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    @property
    def train_files(self) -> list[FileFacts]:
        return [file for day in self.train for file in day.files]

    @property
    def eval_files(self) -> list[FileFacts]:
        return [file for day in self.evaluate for file in day.files]


class MadeWith(documents.Part):
    """What a cycle was started with; see `lineage`."""

    code: str
    versions: dict[str, str]
    flags: list[str]
    seed: int


class CycleWindow(Window, StageFile):
    """The window of a cycle, with its `content` as `digest`. `lineage` makes the other fields."""

    NAME = "window.json"
    digest: str = ""
    identity: str
    limits: Optional[str] = None
    made_with: MadeWith


def choose(
    data: Data,
    reading: Reading,
    retraining: OnDays,
    spec: FeatureSpec,
    facts: Facts,
    *,
    as_of: datetime.date,
    before: Optional[Window] = None,
) -> Window:
    """Chooses the window of a cycle.

    Args:
      config: has the patterns and the numbers of days.
      spec: has the label rates.
      facts: the facts of files.
      as_of: the newest day that may be in it.
      before: the window of the cycle before, to find late and rewritten days.

    Raises:
      DataError: the window has too few days or rows. Or a file is damaged, with
        --corrupt_data_policy=fail.
    """
    oldest = datetime.date.min
    if retraining.window_max_age_days is not None:
        oldest = as_of - datetime.timedelta(days=retraining.window_max_age_days)
    existing = _folders(data.train_files)
    first, last = oldest.isoformat(), as_of.isoformat()
    in_time = [name for name in sorted(existing, reverse=True) if first <= name <= last]
    wanted = retraining.window_days + retraining.eval_window_days
    left_out: dict[str, str] = {}
    chosen: list[Day] = []
    _read_together(data, facts, in_time[:wanted])
    for name in in_time:
        if len(chosen) == wanted:
            break
        for_evaluation = len(chosen) < retraining.eval_window_days
        day = _day(data, reading, spec, facts, name, for_evaluation, left_out)
        if day is not None:
            chosen.append(day)
    evaluate = tuple(reversed(chosen[: retraining.eval_window_days]))
    train = tuple(reversed(chosen[retraining.eval_window_days :]))
    left_out.update(_gaps(chosen, existing, as_of))
    left_out = {day: left_out[day] for day in sorted(left_out)}
    window = Window(as_of=as_of, train=train, evaluate=evaluate, left_out=left_out)
    _check_size(retraining, window)
    return compared(window, before)


def compared(window: Window, before: Optional[Window]) -> Window:
    """The window with its late and rewritten days, compared with the window before."""
    late, rewritten = _changes(window, before)
    return window.model_copy(update={"late": late, "rewritten": rewritten})


def _read_together(data: Data, facts: Facts, names: Sequence[str]) -> None:
    """Scans the files of the likely days at once, which is faster than day by day."""
    paths: set[str] = set()
    for name in names:
        for pattern in data.train_files:
            if not copies.exists(os.path.join(_folder_of(pattern, name), "_SUCCESS")):
                continue
            with contextlib.suppress(DataError):
                paths.update(files.expand([pattern], days=(name,)))
    facts.of_files(sorted(paths))


def _folders(patterns: Sequence[str]) -> set[str]:
    """The days for which every pattern has a folder."""
    common: Optional[set[str]] = None
    for pattern in patterns:
        folder = _folder_of(pattern, "*")
        paths = files.glob(folder, with_folders=True)
        names = {os.path.basename(path.rstrip("/")) for path in paths}
        days = {match[1] for match in map(_FOLDER.fullmatch, names) if match and _is_day(match[1])}
        common = days if common is None else common & days
    return common or set()


def _is_day(name: str) -> bool:
    try:
        datetime.date.fromisoformat(name)
    except ValueError:
        _log.warning("--train_files: %s is not a valid date, so its folder is ignored", name)
        return False
    return True


def _folder_of(pattern: str, day: str) -> str:
    """The folder `dt=...` of a day in a pattern, without the parts after it."""
    (filled,) = windows.of_days(pattern, ("0001-01-01",))
    return filled.partition("dt=0001-01-01")[0] + f"dt={day}"


def _day(
    data: Data,
    reading: Reading,
    spec: FeatureSpec,
    facts: Facts,
    name: str,
    for_evaluation: bool,
    left_out: dict[str, str],
) -> Optional[Day]:
    """Returns a day if it can be used, or None. Adds the reason to `left_out`."""
    patterns = (for_evaluation and data.judging_files) or data.train_files
    folders = [_folder_of(pattern, name) for pattern in patterns]
    for folder in folders:
        if not copies.exists(os.path.join(folder, "_SUCCESS")):
            left_out[name] = "it is not complete: it has no _SUCCESS file"
            return None
    try:
        paths = files.expand(patterns, days=(name,))
    except DataError as error:
        of_day = [windows.of_days(pattern, (name,))[0] for pattern in patterns]
        left_out[name] = str(error) if all(map(files.glob, of_day)) else "it has no file"
        return None
    all_facts = facts.of_files(paths)
    for pattern, folder in zip(patterns, folders):
        (filled,) = windows.of_days(pattern, (name,))
        names = filled[len(folder) :].lstrip("/")
        problem = data_facts.manifest_problem(folder, all_facts, names)
        if problem is not None:
            left_out[name] = problem
            return None
    bad = [file for file in all_facts if file.bad is not None]
    if bad and reading.corrupt_data_policy == "fail":
        raise DataError(f"{bad[0].path}: {bad[0].bad}")
    good = [file for file in all_facts if file.bad is None]
    if bad:
        some = "all of its" if not good else f"{len(bad)} of its {len(all_facts)}"
        left_out[name] = f"{some} files are damaged, for example {bad[0].path}: {bad[0].bad}"
    rows, dropped = sum(file.rows for file in good), sum(file.dropped for file in good)
    if rows == dropped:
        every = f"the filter of the spec drops all its {counted(rows, 'record')}"
        left_out.setdefault(name, every if rows else "it has no record")
        return None
    for label, rate in spec.retraining.label_rate.items():
        if rate.otherwise == "leave_out_day":
            problem = label_rate_problem(label, rate, facts.statistics(good))
            if problem is not None:
                left_out[name] = problem
                return None
    content = hashlib.sha256()
    for file in good:
        content.update(f"{os.path.basename(file.path)} {file.sha256}\n".encode())
    return Day(
        name=name,
        digest=content.hexdigest(),
        rows=rows - dropped,
        files=tuple(good),
        dropped=dropped,
    )


def _gaps(chosen: Sequence[Day], existing: set[str], as_of: datetime.date) -> dict[str, str]:
    """The missing days between the first and the last day of the window, with the reason."""
    if not chosen:
        return {}
    last = max(name for name in (*existing, chosen[0].name) if name <= as_of.isoformat())
    first = datetime.date.fromisoformat(chosen[-1].name)
    count = (datetime.date.fromisoformat(last) - first).days + 1
    names = [(first + datetime.timedelta(days=i)).isoformat() for i in range(count)]
    return {name: "it does not exist" for name in names if name not in existing}


def _check_size(retraining: OnDays, window: Window) -> None:
    reasons = "".join(f"\n  {day}: {reason}" for day, reason in window.left_out.items())
    rows, dropped = sum(d.rows for d in window.train), sum(d.dropped for d in window.train)
    if (
        len(window.evaluate) < retraining.eval_window_days
        or len(window.train) < retraining.window_min_days
    ):
        raise DataError(
            f"--train_files: expected at least {retraining.eval_window_days} complete days for "
            f"evaluation (--eval_window_days) and {retraining.window_min_days} for training "
            f"(--window_min_days) up to {window.as_of}, got "
            f"{len(window.train) + len(window.evaluate)}{reasons}"
        )
    if rows < retraining.window_min_rows:
        raise DataError(
            f"--train_files: expected at least {retraining.window_min_rows:,} records "
            f"(--window_min_rows) in the {len(window.train)} days from {window.train[0].name} to "
            f"{window.train[-1].name}, got {population(rows, dropped, 'record')}{reasons}"
        )


def _changes(window: Window, before: Optional[Window]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The late days, and the rewritten days."""
    if before is None:
        return (), ()
    old = {day.name: day.digest for day in (*before.train, *before.evaluate)}
    now = {day.name: day.digest for day in (*window.train, *window.evaluate)}
    return (
        tuple(name for name in now if min(old) < name <= max(old) and name not in old),
        tuple(name for name in now if old.get(name, now[name]) != now[name]),
    )
