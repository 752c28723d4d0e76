"""`--mode=retrain`: one cycle, from the choice of its days to the report.

    window         chooses the last complete days, and reads their files (`window`, `facts`)
    vocabularies   writes the spec of the cycle, with words from the new data (`vocabularies`)
    checks         compares spec and data, drift, label rates (`checks`)
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
from collections.abc import Callable
from typing import Optional

from estimator_kit import exit_codes
from estimator_kit.config.areas.retraining import stage_limits
from estimator_kit.config.mode_configs import RetrainConfig
from estimator_kit.errors import ConfigError, Locked, NothingToDo, Refused, Stopped, TimedOut
from estimator_kit.observing import prometheus
from estimator_kit.result import RunResult
from estimator_kit.retraining import cycle_versions, lineage, notices, report, stages, state
from estimator_kit.retraining.checks import Checked
from estimator_kit.retraining.cycle_versions import Promoted
from estimator_kit.retraining.facts import Facts
from estimator_kit.retraining.gate_stage import Judged
from estimator_kit.retraining.limits import Limits, stoppable
from estimator_kit.retraining.report import Report
from estimator_kit.retraining.retention import Cleaned
from estimator_kit.retraining.state import CycleFolder, Done, Outcome, StageFile
from estimator_kit.retraining.training_stage import Trained
from estimator_kit.retraining.vocabularies import Vocabularies
from estimator_kit.retraining.window import CycleWindow, choose, compared
from feature_specs.embeddings import pretrained_files
from feature_specs.files import file_systems, owners
from feature_specs.meaning.compared import CYCLE
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from input_pipelines.synthetic import impression_log

_log = logging.getLogger("estimator_kit")


def run(config: RetrainConfig, *, clock: Callable[[], float] = time.time) -> tuple[RunResult, str]:
    """Runs one cycle, or the rest of a cycle that died. Returns its result and its report.

    Args:
      config: what is retrained.
      clock: returns seconds since 1970, for dates. Durations are measured with monotonic time.

    Raises:
      NothingToDo: the last cycle had the same window, spec, code and flags. Nothing was changed.
      Refused: the candidate did not pass the gate. The live model stays.
      Locked: another process works in the model directory.
      TimedOut: a stage took longer than its limit.
      Stopped: the process received SIGTERM.
      DataError: the data are too few or damaged, or a check has stopped the cycle.
    """
    if config.prometheus_file is not None:
        prometheus.check(config.prometheus_file)
    spec = parser.load(config.spec)
    with (
        owners.held(config.model_dir, clock=clock) as held,
        stoppable() as limits,
    ):
        return _run(config, spec, held, limits, clock)


def _run(
    config: RetrainConfig,
    spec: FeatureSpec,
    held: owners.Lock,
    limits: Limits,
    clock: Callable[[], float],
) -> tuple[RunResult, str]:
    if config.generate_default_data is not None:
        try:
            impression_log.generate(config.generate_default_data)
        except ValueError as error:
            raise ConfigError(f"--generate_default_data: {error}") from error
    facts = Facts(os.path.join(config.model_dir, "facts"), spec)
    there = state.cycles(config.model_dir)
    last = _last(there)
    seconds = stage_limits(config)
    begun, cpu = time.monotonic(), _cpu_seconds()
    today = datetime.date.fromtimestamp(clock())
    try:
        with limits.stage("window", seconds.get("window")):
            window = choose(
                config,
                spec,
                facts,
                as_of=datetime.date.fromisoformat(config.as_of) if config.as_of else today,
                before=stages.window_of(last),
            )
    except BaseException as error:  # The cycle has no folder yet for a report.
        _tell_of_failure(config, None, _outcome(error), _words(error))
        raise
    pretrained = file_systems.stamps(pretrained_files.files_of(spec))
    identity = lineage.identity(config, spec.fingerprint(CYCLE.aspects), window.content, pretrained)
    died = _died_when_judged(config, there, identity)
    if died is not None:
        _finish(config, spec, died, facts, last, held, limits, seconds, clock)
        last = died
        window = compared(window, stages.window_of(last))
    limits_now = lineage.limits(config, spec)
    folder = _folder(config, there, last, identity, limits_now)
    if folder is last:  # It is judged again.
        last = _last(there)
        window = compared(window, stages.window_of(last))
    if folder.load(CycleWindow) is None:
        kept = CycleWindow(
            **dict(window),
            digest=window.content,
            identity=identity,
            limits=limits_now,
            made_with=lineage.made_with(config),
            seconds=time.monotonic() - begun,
            cpu_seconds=round(_cpu_seconds() - cpu, 3),
        )
        folder.save(kept)
    cycle = stages.Cycle(config, spec, folder, window, stages.serving_of(config, held), facts, last)
    try:
        return _run_stages(cycle, held, limits, seconds, clock)
    except (Refused, Locked):
        raise
    except BaseException as error:
        if folder.outcome is None:  # Otherwise the cycle has ended and was reported.
            _tell_of_failure(config, folder, _outcome(error), _words(error))
        raise


def _outcome(error: BaseException) -> str:
    """The outcome in the report of a cycle that ended with this error."""
    return "stopped" if isinstance(error, (Stopped, TimedOut)) else "failed"


def _words(error: BaseException) -> str:
    """The error for a report. A user can act on the errors of the kit, so they need no type."""
    is_bug = exit_codes.exit_code(error) == exit_codes.BUG
    return f"{type(error).__name__}: {error}" if is_bug or not str(error) else str(error)


def _last(there: list[CycleFolder]) -> Optional[CycleFolder]:
    """The last cycle that ran to its end."""
    through = [cycle for cycle in there if cycle.outcome in state.THROUGH]
    return through[-1] if through else None


def _died_when_judged(
    config: RetrainConfig, there: list[CycleFolder], identity: str
) -> Optional[CycleFolder]:
    """A cycle that died after it was judged or went live, and has another identity, or None."""
    for cycle in reversed(there):
        if cycle.outcome is not None:
            break
        window = stages.window_of(cycle)
        if window is None or window.identity == identity:
            continue
        if _is_judged(config, cycle):
            return cycle
    return None


def _is_judged(config: RetrainConfig, cycle: CycleFolder) -> bool:
    """Whether a cycle was judged or went live, so that its verdict stays."""
    if cycle.load(Promoted) is not None:
        return True
    return cycle_versions.find(cycle, stages.serving_of(config)) is not None


def _finish(
    config: RetrainConfig,
    spec: FeatureSpec,
    folder: CycleFolder,
    facts: Facts,
    last: Optional[CycleFolder],
    held: owners.Lock,
    limits: Limits,
    seconds: dict[str, float],
    clock: Callable[[], float],
) -> None:
    """Finishes a cycle that was judged or went live, from its stored outputs."""
    window = folder.output(CycleWindow)
    _log.warning("cycle %s died after its gate, so it is finished first", folder.name)
    cycle = stages.Cycle(config, spec, folder, window, stages.serving_of(config), facts, last)
    try:
        with contextlib.suppress(Refused):
            _run_stages(cycle, held, limits, seconds, clock)
    except Locked:
        raise
    except BaseException as error:
        _tell_of_failure(config, folder, _outcome(error), _words(error))
        raise


def _folder(
    config: RetrainConfig,
    there: list[CycleFolder],
    last: Optional[CycleFolder],
    identity: str,
    limits: str,
) -> CycleFolder:
    """The folder of the cycle to run: one that died, was refused by other limits, or a new one."""
    for cycle in reversed(there):
        if cycle.outcome is not None:
            break
        window = stages.window_of(cycle)
        if window is not None and window.identity == identity:
            _log.info("cycle %s goes on where it stopped", cycle.name)
            if not _is_judged(config, cycle):
                _forget_verdicts(cycle, window, limits)
            return cycle
        if window is not None:
            _log.warning(
                "cycle %s is abandoned, because window, spec, code or flags changed", cycle.name
            )
            cycle.save(Done(outcome="abandoned"))
    if last is not None and not config.force:
        before = stages.window_of(last)
        if before is not None and before.identity == identity:
            if last.outcome == "refused" and _forget_verdicts(last, before, limits):
                return last
            what = {
                "promoted": "was promoted",
                "refused": "was refused by the gate",
            }[last.outcome or ""]
            raise NothingToDo(
                f"cycle {last.name} with the same days, spec, code and flags {what}. Use --force "
                "to run another cycle."
            )
    return state.new(config.model_dir)


def _forget_verdicts(cycle: CycleFolder, window: CycleWindow, limits: str) -> bool:
    """Makes a cycle check and judge again, without a training, if it did so under other limits.

    Returns whether it will. A model that retention has removed cannot be judged.
    """
    trained = cycle.load(Trained)
    there = trained is None or os.path.isdir(trained.export_path or "")
    if window.limits in (None, limits) or not there:
        return False
    _log.warning("cycle %s is checked and judged again, because limits changed", cycle.name)
    for form in (Done, Cleaned, Promoted, Judged, Checked):
        cycle.forget(form)
    cycle.save(window.model_copy(update={"limits": limits}))
    return True


def _run_stages(
    cycle: stages.Cycle,
    held: owners.Lock,
    limits: Limits,
    seconds: dict[str, float],
    clock: Callable[[], float],
) -> tuple[RunResult, str]:
    functions: list[tuple[type[StageFile], Callable[[stages.Cycle], StageFile]]] = [
        (Vocabularies, stages.grow_vocabularies),
        (Checked, stages.check),
        (Trained, stages.train),
        (Judged, stages.judge),
        (Promoted, stages.promote),
        (Cleaned, stages.clean),
    ]
    stages.look_again_at_live(cycle)
    for form, function in functions:
        if cycle.folder.load(form) is not None:
            continue
        name = form.NAME.removesuffix(".json")
        held.check()
        _log.info("cycle %s: %s", cycle.folder.name, name)
        begun, cpu = time.monotonic(), _cpu_seconds()
        with limits.stage(name, seconds.get(name)):
            output = function(cycle)
        took = {"seconds": time.monotonic() - begun, "cpu_seconds": _cpu_seconds() - cpu}
        took = {key: round(value, 3) for key, value in took.items()}
        cycle.folder.save(output.model_copy(update=took))
    lineage.write(cycle.folder, owner=held.owner)
    promoted = cycle.folder.output(Promoted)
    outcome: Outcome = "promoted" if promoted.version is not None else "refused"
    live = cycle.serving.live
    found = Report.of(cycle.folder, outcome, live.number if live is not None else None)
    report.write(cycle.folder, found)
    cycle.folder.save(Done(outcome=outcome, ended=clock()))
    try:
        _tell(cycle.config, found)
    except Exception as error:  # The cycle has ended all the same. The text may have a secret.
        _log.warning("cycle %s could not be reported: %s", cycle.folder.name, type(error).__name__)
    text = report.markdown(found)
    if outcome == "refused":
        raise Refused(text.removeprefix("# "))
    trained, path = cycle.folder.output(Trained), promoted.path or ""
    result = RunResult(
        mode="retrain",
        global_step=trained.global_step,
        metrics=trained.metrics or {},
        exports={"final": path} if os.path.isdir(path) else {},  # It may have been removed.
        rows_trained=trained.rows_trained or 0,
        rows_evaluated=cycle.folder.output(Judged).rows,
    )
    return result, text


def _cpu_seconds() -> float:
    """The CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _tell(config: RetrainConfig, found: Report) -> None:
    if config.prometheus_file is not None:
        ends = [cycle.load(Done) for cycle in state.cycles(config.model_dir)]
        last = max((end.ended for end in ends if end and end.ended is not None), default=None)
        text = notices.prometheus_text(found, model_dir=config.model_dir, last_success=last)
        prometheus.write(config.prometheus_file, text)
    if config.webhook_url_file is not None:
        notices.call_webhook(config.webhook_url_file, found)


def _tell_of_failure(
    config: RetrainConfig, folder: Optional[CycleFolder], outcome: str, problem: str
) -> None:
    """Reports a cycle that failed. An error here must not hide the error of the cycle."""
    try:
        live = stages.serving_of(config).live
        number = live.number if live is not None else None
        found = Report.of(folder or state.new(config.model_dir), outcome, number, problem)
        if folder is not None:
            report.write(folder, found)
        _tell(config, found)
    except Exception as error:
        _log.warning("could not write the report of a cycle that %s: %s", outcome, error)
