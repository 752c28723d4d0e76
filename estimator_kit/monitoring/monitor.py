"""One start of `--mode=monitor`: which periods are measured again, and what is written.

    outcome = monitor.run(command, now=time.time())

It reads the log files that are new or changed, and the logs of periods whose labels are not
complete. Each period has its own file (`results`), written when it is measured, so a start that was
killed loses only time. A period is not measured again if all its labels had their time and its log
files are as they were. If it were, its numbers would be the same: files are read in the order of
their names, and draws have a seed. A period whose log files were deleted stays as it is.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from estimator_kit.config.areas.monitoring import seconds_of_time
from estimator_kit.config.modes import Monitor
from estimator_kit.errors import Locked
from estimator_kit.monitoring import comparison, conditions, results, rollback
from estimator_kit.monitoring.baselines import Baselines
from estimator_kit.monitoring.late_labels import LateLabels
from estimator_kit.monitoring.measured_rows import MeasuredRows
from estimator_kit.monitoring.results import Inputs, LogFile, Logs, MonitorReport, PeriodResult
from estimator_kit.retraining import canaries, cycle_versions
from estimator_kit.retraining.promotion import Serving, Version
from estimator_kit.retraining.stages import serving_of
from estimator_kit.scoring.request_logs import RequestLogs, SeveralModels, log_files
from feature_specs.files import file_systems, locks
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.reading import files
from input_pipelines.reading.periods import UTC

_log = logging.getLogger("estimator_kit")

# The periods that the report has, the newest ones. All others keep their files.
_MOST_PERIODS = 1000


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a start ended.

    Attributes:
      report: what `monitor.json` has.
      measured: the names of the periods that were measured in this start.
      rolled_back: the new version after a rollback in this start.
      why_not: why a version that should be rolled back was not; "" if none should.
    """

    report: MonitorReport
    measured: tuple[str, ...]
    rolled_back: Optional[Version] = None
    why_not: str = ""


def run(command: Monitor, *, now: float) -> Outcome:
    """Measures, judges, and rolls back if `--rollback` asks for it. Writes `monitor.json`.

    Args:
      command: the command.
      now: the time, in seconds since 1970, if `--monitor_until` has none.

    Raises:
      ConfigError, SpecError: a setting, the spec or a file of the kit cannot be used.
      DataError: no log file exists, or labels cannot be read.
      Locked: another start works in the folder, or another model went live.
    """
    spec = parser.load(command.run.spec or "")
    folder = results.folder_of(command.run.model_dir)
    os.makedirs(folder, exist_ok=True)
    with _locked(folder):
        return _Start(command, spec, folder, now).run()


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    try:
        with locks.held(os.path.join(folder, ".lock")):
            yield
    except locks.Taken as error:
        raise Locked(f"another start of --mode=monitor works in {folder}. Try again.") from error


def _seconds(moment: datetime.datetime) -> int:
    """The seconds since 1970."""
    return int(moment.timestamp())


_Key = tuple[int, Optional[int]]  # The start of a period, and a version.


class _Start:
    def __init__(self, command: Monitor, spec: FeatureSpec, folder: str, now: float):
        settings = command.monitoring
        self._command, self._spec, self._folder = command, spec, folder
        until = settings.monitor_until
        self._now = seconds_of_time(until) if until is not None else int(now)
        self._periods = command.retraining.periods
        name = command.retraining.period.replace(",", "-").replace("/", "-")
        self._results = os.path.join(folder, "periods", name)
        self._serving: Serving = serving_of(command.run, command.retraining)
        self._baselines = Baselines(spec, command.run.model_dir, self._serving)
        self._labels = LateLabels(spec) if spec.monitoring.key is not None else None
        self._reader = RequestLogs(
            self._baselines.spec_of,
            model=settings.request_model,
            time_feature=settings.request_time,
            version_at=self._baselines.at,
        )
        self._rows: dict[_Key, MeasuredRows] = {}
        self._logs: dict[str, LogFile] = {}
        self._kept = self._load_kept()

    def run(self) -> Outcome:
        paths = log_files(self._command.monitoring.request_logs)
        stamps = {path: file_systems.stamp(path) for path in paths}
        stale = self._read_logs(paths, stamps)
        measured = self._measure(stale)
        self._save_logs()
        rollback.record(self._serving, self._command.run.model_dir)
        canaries.record(self._serving, self._command.run.model_dir)
        outcome = self._judge(tuple(measured))
        outcome.report.save(os.path.join(self._command.run.model_dir, results.REPORT))
        return outcome

    # --- Which periods are measured again ---

    def _load_kept(self) -> dict[int, PeriodResult]:
        names = os.listdir(self._results) if os.path.isdir(self._results) else []
        loaded = (
            PeriodResult.load(os.path.join(self._results, name))
            for name in sorted(names)
            if name.endswith(".json")
        )
        return {period.start: period for period in loaded if period is not None}

    @property
    def _read_with(self) -> dict[str, Optional[str]]:
        settings = self._command.monitoring
        return {
            "period": self._command.retraining.period,
            "request_model": settings.request_model,
            "request_time": settings.request_time,
        }

    @property
    def _settings(self) -> dict[str, Optional[str]]:
        """What a period depends on in addition to its log files, its labels and its versions."""
        section = self._spec.monitoring
        kept = section.model_dump(mode="json", exclude={"conditions"})
        sliced = [
            [c.metric, c.slice, c.min_rows] for c in section.conditions if c.slice is not None
        ]
        return {
            **self._read_with,
            "label_files": ",".join(self._command.monitoring.label_files),
            "monitoring": json.dumps(kept, sort_keys=True),
            "slices": json.dumps(sliced),
            "spec": self._spec.fingerprint(),
        }

    def _is_stale(self, start: int, stamps: Mapping[str, list[int]]) -> bool:
        """Whether a period is measured again, as far as is known before new logs are read."""
        kept = self._kept.get(start)
        if kept is None:
            return True
        gone = [path for path in kept.inputs.files if path not in stamps]
        if gone:
            if not kept.final:
                _log.warning(
                    "%s of the period %s no longer exists, so the period stays as it is",
                    gone[0],
                    kept.name,
                )
            return False
        own = {path: stamps[path] for path in kept.inputs.files}
        is_same = own == kept.inputs.files and self._settings == kept.inputs.settings
        return not (is_same and kept.final and self._same_versions(kept))

    def _same_versions(self, kept: PeriodResult) -> bool:
        numbers = {str(version.version): version.version for version in kept.versions}
        now = {name: self._baselines.identity(number) for name, number in numbers.items()}
        return now == kept.inputs.versions

    # --- Reading ---

    def _read_logs(self, paths: Sequence[str], stamps: Mapping[str, list[int]]) -> set[int]:
        """Reads what is new and what stale periods need; returns the periods to measure."""
        known = Logs.load(os.path.join(self._folder, "logs.json"))
        if known is not None and known.read_with == self._read_with:
            self._logs = {
                path: known.files[path]
                for path in paths
                if path in known.files and known.files[path].stamp == stamps[path]
            }
        self._reader.models.update(*(log.models for log in self._logs.values()))
        of_known = {start for log in self._logs.values() for start in log.periods}
        stale = {start for start in of_known | {*self._kept} if self._is_stale(start, stamps)}
        # Rows of a file that is not read again, in a period that a new file has as well.
        late: set[int] = set()
        for path in paths:
            log = self._logs.get(path)
            if log is None:
                found = self._read_file(path, stamps[path], None)
                late |= {*found.periods} - stale
            elif stale & {*log.periods}:
                self._read_file(path, log.stamp, stale)
        again = late & of_known
        for key in [key for key in self._rows if key[0] in again]:
            del self._rows[key]
        for path in paths if again else ():
            if again & {*self._logs[path].periods}:
                self._read_file(path, self._logs[path].stamp, again)
        frozen = {start for start in late if self._is_frozen(start, stamps)}
        wanted = (stale | late) - frozen
        self._forget(wanted - {key[0] for key in self._rows})
        return wanted

    def _forget(self, starts: set[int]) -> None:
        """Removes periods whose log files were written again, without any row of them."""
        for start in sorted(starts & {*self._kept}):
            kept = self._kept[start]
            logs = [self._logs[path] for path in kept.inputs.files if path in self._logs]
            if len(logs) == len(kept.inputs.files) and all(log.problem is None for log in logs):
                _log.warning("the period %s no longer has a row in its log files", kept.name)
                os.remove(os.path.join(self._results, f"{kept.name}.json"))
                del self._kept[start]

    def _is_frozen(self, start: int, stamps: Mapping[str, list[int]]) -> bool:
        """Whether log files of a kept period were deleted, so that it cannot be measured again."""
        kept = self._kept.get(start)
        if kept is None or all(path in stamps for path in kept.inputs.files):
            return False
        _log.warning(
            "the period %s has a new log file, but others were deleted, so it stays as it is",
            kept.name,
        )
        return True

    def _read_file(self, path: str, stamp: list[int], wanted: Optional[set[int]]) -> LogFile:
        """Reads the rows of a file in the wanted periods; of all periods with None.

        A file that cannot be read is left out as a whole.
        """
        self._reader.not_read.clear()
        try:
            blocks = list(self._reader.blocks(path))
        except SeveralModels:
            raise
        except DataError as error:
            _log.warning("a log file is left out: %s", error)
            self._logs[path] = LogFile(stamp=stamp, problem=str(error))
            return self._logs[path]
        seen: set[int] = set()
        for block in blocks:
            for period, at in self._periods.of_times(block.times).items():
                start = _seconds(period.start)
                seen.add(start)
                if wanted is not None and start not in wanted:
                    continue
                part = block if len(at) == len(block.times) else block.take(at)
                key = (start, block.version)
                if key not in self._rows:
                    carried = self._labels.carried if self._labels is not None else ()
                    baseline = self._baselines.of(block.version)
                    self._rows[key] = MeasuredRows(self._spec, baseline, carried)
                self._rows[key].add(part)
        not_read = dict(sorted(self._reader.not_read.items()))
        self._logs[path] = LogFile(
            stamp=stamp,
            periods=sorted(seen),
            models=sorted(self._reader.models),
            not_read=not_read,
        )
        return self._logs[path]

    # --- Measuring ---

    def _measure(self, stale: set[int]) -> list[str]:
        """Measures periods, and writes a file for each one. Returns their names."""
        keys = [key for key in self._rows if key[0] in stale]
        if self._labels is not None and keys:
            wanted = {value for key in keys for value in self._rows[key].keys}
            self._labels.read(self._label_files(), wanted - {None})
        of_period: dict[int, dict[str, list[int]]] = {}
        for path, log in self._logs.items():
            for start in log.periods:
                of_period.setdefault(start, {})[path] = log.stamp
        names = []
        for start in sorted({key[0] for key in keys}):
            versions = sorted(
                (key[1] for key in keys if key[0] == start),
                key=lambda number: -1 if number is None else number,
            )
            measured = [
                self._rows.pop((start, number)).result(self._labels, now=self._now)
                for number in versions
            ]
            period = self._periods.containing(datetime.datetime.fromtimestamp(start, tz=UTC))
            end = _seconds(period.end)
            result = PeriodResult(
                name=period.name,
                start=start,
                seconds=end - start,
                over=end <= self._now,
                final=end + self._spec.monitoring.delay <= self._now,
                inputs=Inputs(
                    files=of_period[start],
                    settings=self._settings,
                    versions={str(v): self._baselines.identity(v) for v in versions},
                ),
                versions=measured,
            )
            self._kept[start] = result
            result.save(os.path.join(self._results, f"{result.name}.json"))
            names.append(result.name)
        return names

    def _silent(self) -> list[str]:
        """The newest periods that are over and have no log, the oldest first.

        The log of the last one may still be on its way, so it is not among them.
        """
        if not self._kept:
            return []
        last = self._kept[max(self._kept)]
        end, names = last.start + last.seconds, list[str]()
        most = max((c.periods for c in self._spec.monitoring.conditions), default=0)
        period = self._periods.containing(datetime.datetime.fromtimestamp(self._now, tz=UTC))
        while _seconds(period.start) > end and len(names) <= most:
            before = period.start - datetime.timedelta(seconds=1)
            period = self._periods.containing(before)
            names.append(period.name)
        return names[:0:-1]

    def _label_files(self) -> list[str]:
        patterns = self._command.monitoring.label_files
        found = [pattern for pattern in patterns if files.glob(pattern)]
        for pattern in patterns:
            if pattern not in found:
                _log.warning("no file matches %r of --label_files yet", pattern)
        return files.expand(found, flag="--label_files") if found else []

    def _save_logs(self) -> None:
        logs = Logs(read_with=self._read_with, files=self._logs)
        logs.save(os.path.join(self._folder, "logs.json"))

    # --- Judging ---

    def _judge(self, measured: tuple[str, ...]) -> Outcome:
        live = self._serving.live
        number = live.number if live is not None else None
        periods = [self._kept[start] for start in sorted(self._kept)]
        findings = conditions.judge(
            self._spec.monitoring,
            periods,
            live=number,
            at_gate=self._baselines.metrics_of(number),
            silent=self._silent(),
        )
        broken = [f for f in findings if f.broken]
        for finding in broken:
            _log.warning("%s", finding.sentence)
        reasons = [f.sentence for f in broken if f.then == "roll_back"]
        made: Optional[Version] = None
        why_not = ""
        if reasons and number is not None:
            goal = rollback.target(self._serving)
            if goal.version is None:
                why_not = goal.why_not
            elif not self._command.monitoring.rollback:
                why_not = f"--rollback would make version {goal.version.number} live again"
            else:
                made = rollback.roll_back(
                    self._serving, goal.version, bad=number, reason="; ".join(reasons)
                )
                rollback.record(self._serving, self._command.run.model_dir)
        not_read: collections.Counter[str] = collections.Counter()
        for log in self._logs.values():
            not_read.update(log.not_read)
        now_live = self._serving.live
        canary = cycle_versions.waiting_canary(self._serving)
        waits = canary.number if canary is not None else None
        rejected = cycle_versions.rolled_back(self._serving)
        report = MonitorReport(
            until=self._now,
            period=self._command.retraining.period,
            live=now_live.number if now_live is not None else None,
            periods=periods[-_MOST_PERIODS:],
            findings=findings,
            not_read=dict(sorted(not_read.items())),
            left_out={p: log.problem for p, log in self._logs.items() if log.problem is not None},
            roll_back=bool(reasons),
            rolled_back={str(bad): by.number for bad, by in sorted(rejected.items())},
            canary=waits,
            compared=comparison.compare(periods[-_MOST_PERIODS:], live=number, canary=waits),
        )
        return Outcome(report, measured, made, why_not)
