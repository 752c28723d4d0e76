"""`--mode=retrain`: one cycle, from the choice of its periods to the report.

    window         chooses the last complete periods, and reads their files (`window`, `facts`)
    vocabularies   writes the spec of the cycle, with words from the new data (`vocabularies`)
    checks         compares spec and data, drift, label rates (`data_checks`)
    train          trains an ordinary experiment from the live model (`training_stage`)
    gate           scores candidate and live model on the same rows (`gate_stage`, `gate`)
    promote        copies the model into the serving directory (`promotion`)
    clean          removes old cycles and versions (`retention`)

A stage that has finished is not run again. If a cycle dies, the next start continues at the stage
in which it died, as long as window, spec, code and flags are the same. If they are not, the start
abandons that cycle and begins a new one. A cycle that was judged or went live before it died
(`cycle_versions`) is never abandoned: the next start finishes it first, from its stored outputs.
The served model changes only in the rename in `promotion`, and a cycle does that at most once.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

from estimator_kit import exit_codes
from estimator_kit.config.areas.retraining import stage_limits
from estimator_kit.config.areas.watching import Watching
from estimator_kit.config.modes import InFolder, OnPeriods, Retrain
from estimator_kit.errors import ConfigError, Locked, NothingToDo, Refused, Stopped, TimedOut
from estimator_kit.observing import prometheus
from estimator_kit.result import RunResult
from estimator_kit.retraining import (
    canaries,
    cycle_files,
    cycle_report,
    cycle_versions,
    lineage,
    notices,
    shadow_requests,
    stages,
)
from estimator_kit.retraining.cycle_files import CycleFolder, Done, Outcome, StageFile
from estimator_kit.retraining.cycle_report import Report
from estimator_kit.retraining.cycle_versions import Promoted
from estimator_kit.retraining.data_checks import Checked
from estimator_kit.retraining.facts import Facts
from estimator_kit.retraining.gate_stage import Judged
from estimator_kit.retraining.retention import Cleaned
from estimator_kit.retraining.stage_limits import Limits, stoppable
from estimator_kit.retraining.training_stage import Trained
from estimator_kit.retraining.vocabularies import Vocabularies
from estimator_kit.retraining.window import (
    CycleWindow,
    Window,
    choose,
    compared,
    complete_periods,
)
from feature_specs.embeddings import pretrained_files
from feature_specs.files import file_systems, owners
from feature_specs.meaning import CYCLE
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from input_pipelines.reading.periods import UTC, Periods
from input_pipelines.synthetic import impression_log

_log = logging.getLogger("estimator_kit")


def run(command: Retrain, *, clock: Callable[[], float] = time.time) -> tuple[RunResult, str]:
    """Runs one cycle, or the rest of a cycle that died. Returns its result and its report.

    Args:
      command: what is retrained.
      clock: returns seconds since 1970, for dates. Durations are measured with monotonic time.

    Raises:
      NothingToDo: the last cycle had the same window, spec, code and flags. Nothing was changed.
      Refused: the candidate did not pass the gate. The live model stays.
      Locked: another process works in the model directory.
      TimedOut: a stage took longer than its limit.
      Stopped: the process received SIGTERM.
      DataError: the data are too few or damaged, or a check has stopped the cycle.
    """
    if command.watching.prometheus_file is not None:
        prometheus.check(command.watching.prometheus_file)
    spec = parser.load(command.run.spec)
    shadow_requests.check(spec, command.monitoring)
    with (
        owners.held(command.run.model_dir, clock=clock) as lock,
        stoppable() as limits,
    ):
        return _Command(command, spec, lock, limits, clock).run()


def look(command: Retrain, *, clock: Callable[[], float] = time.time) -> Any:
    """What changes when a cycle could choose another window: which periods are complete."""
    retraining = command.retraining
    as_of = retraining.as_of or _now(retraining.periods, clock())
    return complete_periods(command.data, retraining, as_of=as_of)


class _Command:
    """One start of the command, which holds the lock of the model directory."""

    def __init__(
        self,
        command: Retrain,
        spec: FeatureSpec,
        lock: owners.Lock,
        limits: Limits,
        clock: Callable[[], float],
    ):
        self._command = command
        self._spec = spec
        self._lock = lock
        self._limits = limits
        self._seconds = stage_limits(command.retraining)
        self._clock = clock
        self._facts = Facts(os.path.join(command.run.model_dir, "facts"), spec)

    def run(self) -> tuple[RunResult, str]:
        spec = self._spec
        if self._command.data.generate_default_data is not None:
            try:
                impression_log.generate(self._command.data.generate_default_data)
            except ValueError as error:
                raise ConfigError(f"--generate_default_data: {error}") from error
        cycles = cycle_files.cycles(self._command.run.model_dir)
        last = _last(cycles)
        begun, cpu = time.monotonic(), _cpu_seconds()
        with _reported(
            self._command.run, self._command.watching, self._command.retraining, None
        ):  # The cycle has no folder yet for a report.
            window = self._choose_window(last)
        pretrained = file_systems.stamps(pretrained_files.files_of(spec))
        identity = lineage.identity(
            self._command.settings, spec.fingerprint(CYCLE.aspects), window.content, pretrained
        )
        died = _died_when_judged(self._command.run, self._command.retraining, cycles, identity)
        if died is not None:
            self._finish(died, last)
            last = died
            window = compared(window, stages.window_of(last))
        limits_now = lineage.verdict_digest(self._command.settings, spec)
        folder = _folder(
            self._command.run, self._command.retraining, cycles, last, identity, limits_now
        )
        if folder is last:  # It is judged again.
            last = _last(cycles)
            window = compared(window, stages.window_of(last))
        if folder.load(CycleWindow) is None:
            cycle_window = CycleWindow(
                **dict(window),
                digest=window.content,
                identity=identity,
                limits=limits_now,
                made_with=lineage.made_with(self._command.settings),
                seconds=time.monotonic() - begun,
                cpu_seconds=round(_cpu_seconds() - cpu, 3),
            )
            folder.save(cycle_window)
        with _reported(self._command.run, self._command.watching, self._command.retraining, folder):
            return self._run_stages(folder, window, last)

    def _choose_window(self, last: Optional[CycleFolder]) -> Window:
        retraining = self._command.retraining
        with self._limits.stage("window", self._seconds.get("window")):
            return choose(
                self._command.data,
                self._command.reading,
                retraining,
                self._spec,
                self._facts,
                as_of=retraining.as_of or _now(retraining.periods, self._clock()),
                before=stages.window_of(last),
            )

    def _finish(self, folder: CycleFolder, last: Optional[CycleFolder]) -> None:
        """Finishes a cycle that was judged or went live, from its stored outputs."""
        _log.warning("cycle %s died after its gate, so it is finished first", folder.name)
        with (
            contextlib.suppress(Refused),
            _reported(self._command.run, self._command.watching, self._command.retraining, folder),
        ):
            self._run_stages(folder, folder.output(CycleWindow), last)

    def _run_stages(
        self, folder: CycleFolder, window: Window, last: Optional[CycleFolder]
    ) -> tuple[RunResult, str]:
        """Runs the stages that have not finished, and reports the cycle."""
        serving = stages.serving_of(self._command.run, self._command.retraining, self._lock)
        cycle = stages.Cycle(self._command, self._spec, folder, window, serving, self._facts, last)
        if folder.load(Promoted) is None:
            serving.check_writable()  # Not hours later, after the training.
        stages.look_again_at_live(cycle)
        for form, function in _stage_functions():
            if folder.load(form) is not None:
                continue
            name = form.NAME.removesuffix(".json")
            self._lock.check()
            _log.info("cycle %s: %s", folder.name, name)
            begun, cpu = time.monotonic(), _cpu_seconds()
            with self._limits.stage(name, self._seconds.get(name)):
                output = function(cycle)
            took = {"seconds": time.monotonic() - begun, "cpu_seconds": _cpu_seconds() - cpu}
            took = {key: round(value, 3) for key, value in took.items()}
            folder.save(output.model_copy(update=took))
        lineage.write(folder, owner=self._lock.owner)
        canaries.record(serving, self._command.run.model_dir)
        promoted = folder.output(Promoted)
        outcome: Outcome = "promoted" if promoted.version is not None else "refused"
        live = serving.live
        ended = Report.of(folder, outcome, live.number if live is not None else None)
        cycle_report.write(folder, ended)
        folder.save(Done(outcome=outcome, ended=self._clock()))
        try:
            _tell(self._command.run, self._command.watching, self._command.retraining, ended)
        except Exception as error:  # The cycle has ended all the same. The text may have a secret.
            _log.warning("cycle %s could not be reported: %s", folder.name, type(error).__name__)
        text = cycle_report.markdown(ended)
        if outcome == "refused":
            raise Refused(text.removeprefix("# "))
        trained, path = folder.output(Trained), promoted.path or ""
        result = RunResult(
            mode="retrain",
            global_step=trained.global_step,
            metrics=trained.metrics or {},
            exports={"final": path} if os.path.isdir(path) else {},  # It may have been removed.
            rows_trained=trained.rows_trained or 0,
            rows_evaluated=folder.output(Judged).rows,
        )
        return result, text


def _stage_functions() -> Sequence[tuple[type[StageFile], Callable[[stages.Cycle], StageFile]]]:
    """The file of each stage, and the function that makes it."""
    return (
        (Vocabularies, stages.grow_vocabularies),
        (Checked, stages.check),
        (Trained, stages.train),
        (Judged, stages.judge),
        (Promoted, stages.promote),
        (Cleaned, stages.clean),
    )


@contextlib.contextmanager
def _reported(
    run: InFolder, watching: Watching, retraining: OnPeriods, folder: Optional[CycleFolder]
) -> Iterator[None]:
    """Reports a cycle that fails in the block, unless it has ended, was refused or must wait."""
    try:
        yield
    except (Refused, Locked):
        raise
    except BaseException as error:
        if folder is None or folder.outcome is None:
            outcome = "stopped" if isinstance(error, (Stopped, TimedOut)) else "failed"
            _tell_of_failure(run, watching, retraining, folder, outcome, _words(error))
        raise


def _now(periods: Periods, seconds: float) -> str:
    """The period of now. A day is a day of the machine if the periods have no zone."""
    if periods.are_utc_days:
        return datetime.date.fromtimestamp(seconds).isoformat()
    return periods.containing(datetime.datetime.fromtimestamp(seconds, UTC)).name


def _words(error: BaseException) -> str:
    """The error for a report. A user can act on the errors of the kit, so they need no type."""
    is_bug = exit_codes.exit_code(error) == exit_codes.BUG
    return f"{type(error).__name__}: {error}" if is_bug or not str(error) else str(error)


def _last(cycles: list[CycleFolder]) -> Optional[CycleFolder]:
    """The last cycle that ran to its end."""
    through = [cycle for cycle in cycles if cycle.outcome in cycle_files.THROUGH]
    return through[-1] if through else None


def _died_when_judged(
    run: InFolder, retraining: OnPeriods, cycles: list[CycleFolder], identity: str
) -> Optional[CycleFolder]:
    """A cycle that died after it was judged or went live, and has another identity, or None."""
    for cycle in reversed(cycles):
        if cycle.outcome is not None:
            break
        window = stages.window_of(cycle)
        if window is None or window.identity == identity:
            continue
        if _is_judged(run, retraining, cycle):
            return cycle
    return None


def _is_judged(run: InFolder, retraining: OnPeriods, cycle: CycleFolder) -> bool:
    """Whether a cycle was judged or went live, so that its verdict stays."""
    if cycle.load(Promoted) is not None:
        return True
    return cycle_versions.find(cycle, stages.serving_of(run, retraining)) is not None


def _folder(
    run: InFolder,
    retraining: OnPeriods,
    cycles: list[CycleFolder],
    last: Optional[CycleFolder],
    identity: str,
    limits: str,
) -> CycleFolder:
    """The folder of the cycle to run: one that died, was refused by other limits, or a new one."""
    for cycle in reversed(cycles):
        if cycle.outcome is not None:
            break
        window = stages.window_of(cycle)
        if window is not None and window.identity == identity:
            _log.info("cycle %s goes on where it stopped", cycle.name)
            if not _is_judged(run, retraining, cycle):
                _forget_verdicts(cycle, window, limits)
            return cycle
        if window is not None:
            _log.warning(
                "cycle %s is abandoned, because window, spec, code or flags changed", cycle.name
            )
            cycle.save(Done(outcome="abandoned"))
    if last is not None and not retraining.force:
        before = stages.window_of(last)
        if before is not None and before.identity == identity:
            if last.outcome == "refused" and _forget_verdicts(last, before, limits):
                return last
            again = "" if retraining.watch else " Use --force to run another cycle."
            by_gate = " by the gate" if last.outcome == "refused" else ""
            raise NothingToDo(
                f"cycle {last.name} with the same periods, spec, code and flags was "
                f"{last.outcome}{by_gate}.{again}"
            )
    return cycle_files.new(run.model_dir)


def _forget_verdicts(cycle: CycleFolder, window: CycleWindow, limits: str) -> bool:
    """Makes a cycle check and judge again, without a training, if it did so under other limits.

    Returns whether it will. A model that retention has removed cannot be judged.
    """
    trained = cycle.load(Trained)
    has_export = trained is None or os.path.isdir(trained.export_path or "")
    if window.limits in (None, limits) or not has_export:
        return False
    _log.warning("cycle %s is checked and judged again, because limits changed", cycle.name)
    for form in (Done, Cleaned, Promoted, Judged, Checked):
        cycle.forget(form)
    cycle.save(window.model_copy(update={"limits": limits}))
    return True


def _cpu_seconds() -> float:
    """The CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _tell(run: InFolder, watching: Watching, retraining: OnPeriods, ended: Report) -> None:
    if watching.prometheus_file is not None:
        ends = [cycle.load(Done) for cycle in cycle_files.cycles(run.model_dir)]
        last = max((done.ended for done in ends if done and done.ended is not None), default=None)
        text = notices.prometheus_text(ended, model_dir=run.model_dir, last_success=last)
        prometheus.write(watching.prometheus_file, text)
    if retraining.webhook_url_file is not None:
        notices.call_webhook(retraining.webhook_url_file, ended)


def _tell_of_failure(
    run: InFolder,
    watching: Watching,
    retraining: OnPeriods,
    folder: Optional[CycleFolder],
    outcome: str,
    problem: str,
) -> None:
    """Reports a cycle that failed. An error here must not hide the error of the cycle."""
    try:
        live = stages.serving_of(run, retraining).live
        number = live.number if live is not None else None
        failed = Report.of(folder or cycle_files.new(run.model_dir), outcome, number, problem)
        if folder is not None:
            cycle_report.write(folder, failed)
        _tell(run, watching, retraining, failed)
    except Exception as error:
        _log.warning("could not write the report of a cycle that %s: %s", outcome, error)
