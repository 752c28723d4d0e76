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
from estimator_kit.config.modes import InFolder, Tune
from estimator_kit.errors import NothingToDo
from estimator_kit.exit_codes import Signalled, until_signalled
from estimator_kit.observing import standing
from estimator_kit.observing.page import page as report_page
from estimator_kit.observing.tensorboard import ending
from estimator_kit.result import RunResult
from estimator_kit.training import preparation
from estimator_kit.tuning import (
    auto,
    checks,
    final_test,
    page,
    results,
    search_file,
    trial_process,
)
from estimator_kit.tuning.definition import definition, optuna
from estimator_kit.tuning.fork_server import ForkServer
from estimator_kit.tuning.search import SearchLoop, duration
from estimator_kit.tuning.search_file import Search
from estimator_kit.tuning.space import name_of, trial_config, trial_dir
from estimator_kit.tuning.study import Claim, SearchStudy, Trial
from feature_specs.files import urls
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
    with trial_process.forks() as server:
        return _run(command, server, tell)


def _run(command: Tune, server: Optional[ForkServer], tell: Callable[[str], None]) -> RunResult:
    spec = parser.load(command.run.spec)
    search = auto.search_of(command, spec) or search_file.load(command.tuning.search)
    preparation.check_surroundings(command)
    configs = checks.check_names(command, search, spec)
    preparation.generate_data(command.data, None)
    # The default data exist now, so their files can be checked.
    written = configs[0][1].model_copy(update={"generate_default_data": None})
    for line in checked_files(written):
        _log.info("%s", line.strip())
    checks.check_test_files(command)
    checks.check_models(configs, search, spec, all_models=search.budget is None)
    checks.check_folder(command.run.model_dir)
    models = [checked.model for _, checked in configs]
    study = SearchStudy(
        command.run.model_dir,
        search,
        definition(command, spec, models),
    )
    _check_left(command, study)
    page.write_board(os.path.join(command.run.model_dir, "trials"), search, spec)
    with study.locked():
        before = results.read(command.run.model_dir)
        results.write(command.run.model_dir, study, before.test, before.export, is_done=False)
    processes = command.program.processes or auto.processes_of(search)
    _log.info("%s", _plan(search, processes))
    with until_signalled() as ended:
        loop = SearchLoop(
            study,
            lambda claim: _start(command, claim, search, server),
            processes=processes,
            ended=ended,
            every_secs=command.program.log_every_secs,
            time_left=None if search.budget is None else search.budget - study.spent() / processes,
        )
        loop.run()
        with study.locked():
            return _finish(command, study, ended, server, tell)


def _plan(search: Search, processes: int) -> str:
    """What the search does, and when it ends."""
    ends = []
    if search.budget is not None:
        ends.append(f"{duration(search.budget)} are over")
    if search.trials is not None:
        ends.append(f"{search.trials} trials are made")
    if search.seconds is not None:
        ends.append(f"the trials have taken {duration(search.seconds)} together")
    if search.patience is not None:
        ends.append(f"{search.patience} trials in a row bring no improvement")
    at_once = f", {processes} trials at a time" if processes > 1 else ""
    return f"searching for the best {search.metric}{at_once}, until {' or '.join(ends)}"


def _start(
    command: Tune, claim: Claim, search: Search, server: Optional[ForkServer]
) -> trial_process.TrialRun:
    folder = trial_dir(command.run.model_dir, claim.number)
    trial = trial_config(command, search, claim.values, folder)
    if claim.number == 0 and search.budget is not None:  # `auto` begins with the given settings.
        trial = final_test.with_test(command, trial)
    return trial_process.TrialRun.started(trial, search, server)


def _check_left(command: Tune, study: SearchStudy) -> None:
    """Raises NothingToDo if an earlier start has finished the search and its results."""
    run, tuning = command.run, command.tuning
    best, written = study.best(), results.read(run.model_dir)
    ended = study.is_full() and not study.running()
    results_written = written.status == "done" and len(written.trials) == len(study.trials())
    files = written.test.files if written.test is not None else []
    if (
        ended
        and results_written
        and best is not None
        and files == urls.given(final_test.patterns(command))
    ):
        more = "Raise `trials`, `seconds` or `patience` in"
        raise NothingToDo(
            f"{run.model_dir}: the search has ended with {len(study.trials())} trials: "
            f"{study.end_reason()}. {'Give it more time' if study.search.budget else more} "
            f"{'with --search=auto:20m' if study.search.budget else tuning.search} to go on, or "
            "choose another --model_dir."
        )


def _finish(
    command: Tune, study: SearchStudy, ended: Signalled, server: Optional[ForkServer],
    tell: Callable[[str], None],
) -> RunResult:  # fmt: skip
    """Trains the best settings, and writes the results, unless another process has done it."""
    search, trials, best = study.search, study.trials(), study.best()
    model_dir = command.run.model_dir
    result, test, flags = RunResult(mode=command.program.mode), None, ""
    if best is not None:
        result = results.train_best(command, search, best, ended, server)
        test = results.score_of(command, search, best, result)
        with open(os.path.join(model_dir, results.BEST), encoding="utf-8") as file:
            flags = file.read()
    drawn = ""
    if command.watching.report == "on":
        drawn = report_page.attempt(lambda: page.write(model_dir, study, test, flags))
    is_done = not study.running()
    results.write(model_dir, study, test, result.export_path, is_done=is_done)
    if best is None:
        raise DataError(_nothing_succeeded(command.run, trials))
    tell(_summary(command, study, best, test, result, drawn))
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
    command: Tune, study: SearchStudy, best: Trial, test: Optional[results.Score],
    result: RunResult, drawn: str,
) -> str:  # fmt: skip
    run, export = command.run, result.export_path
    search, trials = study.search, study.trials()
    states = {state: sum(t.state == state for t in trials) for state in ("pruned", "failed")}
    ends = "".join(f", {count} {state}" for state, count in states.items() if count)
    values = ", ".join(f"{name}={page.text_of(value)}" for name, value in best.values.items())
    lines = [
        f"finished: {len(trials)} trials{ends}: {study.end_reason() or 'others go on'}",
        f"best: trial {name_of(best.number)}, {search.metric} {best.value:.5f} ({values})",
    ]
    if test is not None:
        text = "trained on the files of training and evaluation, its"
        name = final_test.name(command)
        line = f"{text} {search.metric} on {name} is {results.shown(test.value)}"
        if test.given is not None:
            line += f"; the given settings, trained without them, have {test.given:.5f}"
        lines.append(line)
    lines += standing.lines(result, searched=True)
    if export is not None:
        lines.append(f"export to serve: {shlex.quote(export)}")
    flags = shlex.quote(os.path.join(run.model_dir, results.BEST))
    lines += [f"best flags: {flags}", *([drawn.replace("report: ", "page: ", 1)] if drawn else [])]
    lines.append(ending.command(os.path.join(run.model_dir, "trials")))
    return "\n".join(lines)
