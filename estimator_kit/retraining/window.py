"""Chooses the periods that a cycle trains on and scores: the last complete ones on disk.

    window = choose(data, reading, retraining, spec, facts, as_of="2026-01-07", before=None)

A period, by default a day, is complete if its folder, such as `dt=2026-01-07`, has a file
`_SUCCESS` (`input_pipelines.reading.periods` has other folders). The newest periods are for
evaluation, and those before them for training. So the two never overlap, and a model is scored on
periods after its training. A period is skipped, with a reason, if its folder does not exist, if it
is not complete, or if it differs from its manifest. The same holds if all its files are damaged (if
--corrupt_data_policy leaves out such files), and for label rates that the spec excludes. This
module writes nothing.
"""

from __future__ import annotations

import bisect
import contextlib
import datetime
import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Optional

from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.reading import Reading
from estimator_kit.config.modes import OnPeriods
from estimator_kit.retraining import facts as data_facts
from estimator_kit.retraining.cycle_files import StageFile
from estimator_kit.retraining.facts import Facts, FileFacts, label_rate_problem
from feature_specs.durations import duration
from feature_specs.errors import counted
from feature_specs.files import copies, documents, file_systems
from feature_specs.spec import FeatureSpec
from feature_specs.statistics import population
from input_pipelines.errors import DataError
from input_pipelines.reading import files
from input_pipelines.reading.periods import DAY, Period, Periods

_log = logging.getLogger("estimator_kit")


class PeriodData(documents.Part):
    """A period of the window.

    Attributes:
      name: for example 2026-01-07, or 2026-01-07T13-30.
      digest: a hash of the names and the contents of its files.
      rows: the number of records that count.
      files: the facts of each file.
      dropped: the number of other records, which the spec's filter drops.
      start, end: None for a day in UTC; see `span`.
    """

    name: str
    digest: str
    rows: int
    files: tuple[FileFacts, ...]
    dropped: int = 0
    start: Optional[datetime.datetime] = None
    end: Optional[datetime.datetime] = None

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]

    @property
    def span(self) -> Period:
        if self.start is None or self.end is None:
            return Periods().named(self.name)
        return Period(self.name, self.start, self.end)


class Window(documents.Part):
    """The periods that a cycle reads.

    Attributes:
      as_of: the newest period that could be in it.
      train, evaluate: the periods, from first to last.
      left_out: the reasons by period, or by the path of a damaged file of a period that is read.
      late: periods of this window that were not complete at the cycle before.
      rewritten: periods that have changed since the cycle before.
    """

    as_of: str
    train: tuple[PeriodData, ...]
    evaluate: tuple[PeriodData, ...]
    left_out: dict[str, str]
    late: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()

    @property
    def content(self) -> str:
        """A hash of the periods for training and for evaluation, with their contents."""
        parts = [
            [(each.name, each.digest) for each in part] for part in (self.train, self.evaluate)
        ]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    @property
    def train_files(self) -> list[FileFacts]:
        return [file for period in self.train for file in period.files]

    @property
    def eval_files(self) -> list[FileFacts]:
        return [file for period in self.evaluate for file in period.files]


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
    retraining: OnPeriods,
    spec: FeatureSpec,
    facts: Facts,
    *,
    as_of: str,
    before: Optional[Window] = None,
) -> Window:
    """Chooses the window of a cycle.

    Args:
      data, reading: have the patterns, and what happens to damaged files.
      retraining: has the numbers of periods.
      spec: has the label rates.
      facts: the facts of files.
      as_of: the newest period that may be in it; see `Periods.newest`.
      before: the window of the cycle before, to find late and rewritten periods.

    Raises:
      DataError: the window has too few periods or rows. Or a file is damaged, with
        --corrupt_data_policy=fail.
    """
    periods = retraining.periods
    newest = periods.newest(as_of)
    existing, wrong = _existing(data.train_files, periods)
    for problem in wrong:
        _log.warning("--train_files: %s, so its folder is ignored", problem)
    in_time = _in_time(existing, retraining, newest)
    for_evaluation = retraining.eval_count
    wanted = retraining.train_count + for_evaluation
    left_out: dict[str, str] = {}
    chosen: list[PeriodData] = []
    _read_together(data, periods, facts, in_time[:wanted])
    for period in in_time:
        if len(chosen) == wanted:
            break
        patterns = (len(chosen) < for_evaluation and data.judging_files) or data.train_files
        found = _period_data(patterns, reading, periods, spec, facts, period, left_out)
        if found is not None:
            chosen.append(found)
    evaluate = tuple(reversed(chosen[:for_evaluation]))
    train = tuple(reversed(chosen[for_evaluation:]))
    left_out.update(_gaps(chosen, in_time, existing, periods))
    left_out = {name: left_out[name] for name in sorted(left_out)}
    window = Window(as_of=newest.name, train=train, evaluate=evaluate, left_out=left_out)
    _check_size(retraining, window)
    return compared(window, before)


def complete_periods(
    data: Data, retraining: OnPeriods, *, as_of: str
) -> tuple[tuple[str, tuple[Optional[tuple[int, int]], ...]], ...]:
    """The newest periods, twice as many as a window has, and the stamps of their `_SUCCESS` files.

    Behind them are the folders that `choose` warns of, without stamps. It lists folders and reads
    nothing, so a file that changes later under the same `_SUCCESS` is not noticed.
    """
    periods = retraining.periods
    existing, wrong = _existing(data.train_files, periods)
    in_time = _in_time(existing, retraining, periods.newest(as_of))
    patterns = dict.fromkeys([*data.train_files, *data.judging_files])
    complete = tuple(
        (period.name, tuple(_success(periods.folder(p, period.name)) for p in patterns))
        for period in in_time[: 2 * (retraining.train_count + retraining.eval_count)]
    )
    return (*complete, *((problem, ()) for problem in wrong))


def _success(folder: str) -> Optional[tuple[int, int]]:
    """The stamp of the `_SUCCESS` file of a folder; None without one."""
    path = os.path.join(folder, "_SUCCESS")
    if not copies.exists(path):
        return None
    size, changed = file_systems.stamp(path) if os.path.exists(path) else (0, 0)
    return size, changed


def _in_time(existing: Mapping[str, Period], retraining: OnPeriods, newest: Period) -> list[Period]:
    """The periods that may be in a window, the newest ones first."""
    periods = retraining.periods
    in_time = [period for period in existing.values() if period.start <= newest.start]
    if retraining.window_max_age is not None:
        oldest = periods.before(newest, duration(retraining.window_max_age))
        in_time = [period for period in in_time if period.start >= oldest]
    return sorted(in_time, key=lambda period: period.start, reverse=True)


def compared(window: Window, before: Optional[Window]) -> Window:
    """The window with its late and rewritten periods, compared with the window before."""
    late, rewritten = _changes(window, before)
    return window.model_copy(update={"late": late, "rewritten": rewritten})


def _read_together(data: Data, periods: Periods, facts: Facts, likely: Sequence[Period]) -> None:
    """Scans the files of the likely periods at once, which is faster than one by one."""
    paths: set[str] = set()
    for period in likely:
        for pattern in data.train_files:
            if not copies.exists(os.path.join(periods.folder(pattern, period.name), "_SUCCESS")):
                continue
            with contextlib.suppress(DataError):
                paths.update(files.expand([periods.fill(pattern, period.name)]))
    facts.of_files(sorted(paths))


def _existing(
    patterns: Sequence[str], periods: Periods
) -> tuple[dict[str, Period], tuple[str, ...]]:
    """The periods for which every pattern has a folder, by name, and what is wrong with others."""
    common: Optional[dict[str, Period]] = None
    wrong: dict[str, None] = {}
    for pattern in patterns:
        found = {}
        for path in files.glob(periods.folders(pattern), with_folders=True):
            try:
                period = periods.of_folder(pattern, path)
            except ValueError as error:
                wrong[str(error)] = None
                continue
            if period is not None:
                found[period.name] = period
            else:
                form = periods.parts(pattern)[1]
                wrong[f"{path}: expected a folder with a name such as {form}"] = None
        common = {
            name: found[name] for name in (found if common is None else common.keys() & found)
        }
    return common or {}, tuple(wrong)


def _period_data(
    patterns: Sequence[str],
    reading: Reading,
    periods: Periods,
    spec: FeatureSpec,
    facts: Facts,
    period: Period,
    left_out: dict[str, str],
) -> Optional[PeriodData]:
    """Returns a period if it can be used, or None. Adds the reason to `left_out`."""
    name = period.name
    folders = [periods.folder(pattern, name) for pattern in patterns]
    for folder in folders:
        if not copies.exists(os.path.join(folder, "_SUCCESS")):
            left_out[name] = "it is not complete: it has no _SUCCESS file"
            return None
    filled = [periods.fill(pattern, name) for pattern in patterns]
    try:
        paths = files.expand(filled)
    except DataError as error:
        left_out[name] = str(error) if all(map(files.glob, filled)) else "it has no file"
        return None
    all_facts = facts.of_files(paths)
    for own, folder in zip(filled, folders):
        problem = data_facts.manifest_problem(folder, all_facts, own[len(folder) :].lstrip("/"))
        if problem is not None:
            left_out[name] = problem
            return None
    bad = [file for file in all_facts if file.bad is not None]
    if bad and reading.corrupt_data_policy == "fail":
        raise DataError(
            f"{bad[0].path}: {bad[0].bad}. Write the period again, or leave out damaged files with "
            "--corrupt_data_policy=quarantine"
        )
    good = [file for file in all_facts if file.bad is None]
    rows, dropped = sum(file.rows for file in good), sum(file.dropped for file in good)
    problem = None
    if not good:
        problem = f"all of its files are damaged, for example {bad[0].path}: {bad[0].bad}"
    elif rows == dropped:
        every = f"the filter of the spec drops all its {counted(rows, 'record')}"
        problem = every if rows else "it has no record"
    else:
        rates = spec.retraining.label_rate.items()
        problems = (
            label_rate_problem(label, rate, facts.statistics(good))
            for label, rate in rates
            if rate.otherwise == "leave_out"
        )
        problem = next((each for each in problems if each is not None), None)
    if problem is not None:
        left_out[name] = problem
        return None
    left_out.update({file.path: f"it is damaged: {file.bad}" for file in bad})
    content = hashlib.sha256()
    for file in good:
        content.update(f"{os.path.basename(file.path)} {file.sha256}\n".encode())
    times = {} if periods.are_utc_days else {"start": period.start, "end": period.end}
    return PeriodData(
        name=name,
        digest=content.hexdigest(),
        rows=rows - dropped,
        files=tuple(good),
        dropped=dropped,
        **times,
    )


def _gaps(
    chosen: Sequence[PeriodData],
    in_time: Sequence[Period],
    existing: Mapping[str, Period],
    periods: Periods,
) -> dict[str, str]:
    """The missing periods from the first one of the window on, with the reason."""
    if not chosen:
        return {}
    span = periods.between(chosen[-1].span, in_time[0])
    missing = [period for period in span if period.name not in existing]
    if periods.length == DAY:
        return {period.name: "it does not exist" for period in missing}
    gaps: list[list[Period]] = []  # Nights, for example.
    for period in missing:
        if gaps and gaps[-1][-1].end == period.start:
            gaps[-1].append(period)
        else:
            gaps.append([period])
    single = {gap[0].name: "it does not exist" for gap in gaps if len(gap) == 1}
    several = {
        f"{gap[0].name} to {gap[-1].name}": f"the {len(gap):,} periods do not exist"
        for gap in gaps
        if len(gap) > 1
    }
    return {**single, **several}


def _check_size(retraining: OnPeriods, window: Window) -> None:
    reasons = "".join(f"\n  {name}: {reason}" for name, reason in window.left_out.items())
    rows, dropped = sum(p.rows for p in window.train), sum(p.dropped for p in window.train)
    least, least_rows = retraining.least
    if len(window.evaluate) < retraining.eval_count or len(window.train) < least:
        raise DataError(
            f"--train_files: expected at least {retraining.eval_count} complete periods for "
            f"evaluation (--eval_window) and {least} for training (--window_min) up to "
            f"{window.as_of}, got {len(window.train) + len(window.evaluate)}{reasons}"
        )
    if rows < least_rows:
        raise DataError(
            f"--train_files: expected at least {least_rows:,} records (--window_min) in the "
            f"{len(window.train)} periods from {window.train[0].name} to {window.train[-1].name}, "
            f"got {population(rows, dropped, 'record')}{reasons}"
        )


def _changes(window: Window, before: Optional[Window]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The late periods, and the rewritten periods."""
    if before is None:
        return (), ()
    old = sorted((*before.train, *before.evaluate), key=lambda each: each.span.start)
    now = [*window.train, *window.evaluate]
    digests = {each.name: each.digest for each in old}
    starts = [each.span.start for each in old]

    def is_late(span: Period) -> bool:
        """Whether it is between old periods. After a change of --period, some overlap."""
        before_it = old[bisect.bisect_left(starts, span.end) - 1].span
        return starts[0] < span.start <= starts[-1] and before_it.end <= span.start

    return (
        tuple(p.name for p in now if is_late(p.span)),
        tuple(p.name for p in now if digests.get(p.name, p.digest) != p.digest),
    )
