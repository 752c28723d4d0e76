"""`--mode=tune`: searches the settings with the best metric, in many trainings.

The implementation is in `estimator_kit.tuning`; its docstring lists the modules.
"""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable
from typing import Optional

from estimator_kit.commands.validate import checked_files
from estimator_kit.config.modes import InFolder, Searching, Tune
from estimator_kit.errors import NothingToDo
from estimator_kit.exit_codes import Signalled, until_signalled
from estimator_kit.observing.page import page as report_page
from estimator_kit.observing.tensorboard import ending
from estimator_kit.result import RunResult, read_result
from estimator_kit.training import preparation
from estimator_kit.tuning import checks, page, results, search_file
from estimator_kit.tuning.definition import definition, optuna
from estimator_kit.tuning.search import SearchLoop
from estimator_kit.tuning.space import name_of, trial_config, trial_dir
from estimator_kit.tuning.study import Claim, SearchStudy, Trial
from estimator_kit.tuning.trial_process import TrialRun
from feature_specs.parser import parser
from input_pipelines.errors import DataError

_log = logging.getLogger("estimator_kit")


def run(command: Tune, tell: Callable[[str], None]) -> RunResult:
    """Runs the trials of a search, or goes on with it, and writes its results.

    Raises:
      SpecError, ConfigError: the search cannot begin. Nothing was written, except default data.
      MissingPackageError: the extra `tune` is not installed.
      NothingToDo: all trials have ended, and the results are written.
      DataError: no trial has finished, or the test files could not be scored.
      Stopped: SIGTERM came; the same command goes on.
    """
    optuna()
    search = search_file.load(command.tuning.search)
    spec = parser.load(command.run.spec)
    preparation.check_surroundings(command)
    configs = checks.check_names(command, search, spec)
    preparation.generate_data(command.data, None)
    # The default data exist now, so their files can be checked.
    written = configs[0][1].model_copy(update={"generate_default_data": None})
    for line in checked_files(written):
        _log.info("%s", line.strip())
    test_files = checks.check_test_files(command.data, command.tuning)
    checks.check_models(configs, search, spec)
    checks.check_folder(command.run.model_dir)
    models = [checked.model for _, checked in configs]
    study = SearchStudy(
        command.run.model_dir,
        search,
        definition(command, spec, models),
    )
    _check_left(command.run, command.tuning, study)
    page.write_board(os.path.join(command.run.model_dir, "trials"), search, spec)
    with study.locked():
        test = results.read(command.run.model_dir).test
        results.write(command.run.model_dir, study, test, is_done=False)
    with until_signalled() as ended:
        loop = SearchLoop(
            study,
            lambda claim: _start(command, claim, search.metric),
            processes=command.program.processes or 1,
            ended=ended,
            every_secs=command.program.log_every_secs,
        )
        loop.run()
        with study.locked():
            return _finish(command, study, test_files, ended, tell)


def _start(command: Tune, claim: Claim, metric: str) -> TrialRun:
    folder = trial_dir(command.run.model_dir, claim.number)
    # A page for each of many trials would take 5 MB; --mode=report draws it from the same files.
    trial = trial_config(command, claim.values, folder).model_copy(update={"report": "off"})
    return TrialRun.started(trial, metric)


def _check_left(run: InFolder, tuning: Searching, study: SearchStudy) -> None:
    """Raises NothingToDo if an earlier start has finished the search and its results."""
    best, written = study.best(), results.read(run.model_dir)
    ended = study.is_full() and not study.running()
    results_written = written.status == "done" and len(written.trials) == len(study.trials())
    scored = best is not None and (
        not tuning.test_files or results.is_scored(written.test, best, tuning)
    )
    if ended and results_written and scored:
        raise NothingToDo(
            f"{run.model_dir}: the search has ended with {len(study.trials())} trials. Raise "
            f"`trials` or `seconds` in {tuning.search} to go on, or choose another --model_dir."
        )


def _finish(
    command: Tune,
    study: SearchStudy,
    test_files: list[str],
    ended: Signalled,
    tell: Callable[[str], None],
) -> RunResult:
    """Writes the results, unless another process has scored the best trial already."""
    search, trials, best = study.search, study.trials(), study.best()
    test, flags = results.read(command.run.model_dir).test, ""
    if best is not None:
        path = results.write_best(command, best)
        with open(path, encoding="utf-8") as file:
            flags = file.read()
        if not test_files:
            test = None
        elif not results.is_scored(test, best, command.tuning):
            test = results.score(command, best, test_files, search.metric, ended)
    drawn = ""
    if command.watching.report == "on":
        drawn = report_page.attempt(lambda: page.write(command.run.model_dir, study, test, flags))
    results.write(command.run.model_dir, study, test, is_done=not study.running())
    if best is None:
        raise DataError(_nothing_succeeded(command.run, trials))
    tell(_summary(command.run, study, best, test, drawn))
    result = read_result(trial_dir(command.run.model_dir, best.number)) or RunResult(
        mode=command.program.mode
    )
    return RunResult(
        mode=command.program.mode,
        global_step=result.global_step,
        metrics=result.metrics,
        exports=result.exports,
    )


def _nothing_succeeded(run: InFolder, trials: list[Trial]) -> str:
    failed = [trial for trial in trials if trial.state == "failed"]
    text = f"{run.model_dir}: no trial of {len(trials)} has finished."
    if failed:
        last = failed[-1]
        text += f" Trial {name_of(last.number)} failed: {last.reason}"
    return text


def _summary(
    run: InFolder, study: SearchStudy, best: Trial, test: Optional[results.Score], drawn: str
) -> str:
    search, trials = study.search, study.trials()
    states = {state: sum(t.state == state for t in trials) for state in ("pruned", "failed")}
    ends = "".join(f", {count} {state}" for state, count in states.items() if count)
    values = ", ".join(f"{name}={page.text_of(value)}" for name, value in best.values.items())
    lines = [
        f"finished: {len(trials)} trials{ends}",
        f"best: trial {name_of(best.number)}, {search.metric} {best.value:.5f} ({values})",
    ]
    if test is not None:
        lines.append(f"on --test_files: {search.metric} {results.shown(test.value)}")
    flags = shlex.quote(os.path.join(run.model_dir, results.BEST))
    lines += [f"best flags: {flags}", *([drawn.replace("report: ", "page: ", 1)] if drawn else [])]
    lines.append(ending.command(os.path.join(run.model_dir, "trials")))
    return "\n".join(lines)
