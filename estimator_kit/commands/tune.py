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
from estimator_kit.config.mode_configs import TuneConfig
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


def run(config: TuneConfig, tell: Callable[[str], None]) -> RunResult:
    """Runs the trials of a search, or goes on with it, and writes its results.

    Raises:
      SpecError, ConfigError: the search cannot begin. Nothing was written, except default data.
      MissingPackageError: the extra `tune` is not installed.
      NothingToDo: all trials have ended, and the results are written.
      DataError: no trial has finished, or the test files could not be scored.
      Stopped: SIGTERM came; the same command goes on.
    """
    optuna()
    search = search_file.load(config.search)
    spec = parser.load(config.spec)
    preparation.check_surroundings(config)
    configs = checks.check_names(config, search, spec)
    preparation.generate_data(config, None)
    # The default data exist now, so their files can be checked.
    written = configs[0][1].model_copy(update={"generate_default_data": None})
    for line in checked_files(written):
        _log.info("%s", line.strip())
    test_files = checks.check_test_files(config)
    checks.check_models(configs, search, spec)
    checks.check_folder(config.model_dir)
    models = [made.model for _, made in configs]
    study = SearchStudy(
        config.model_dir,
        search,
        definition(config, spec, models),
    )
    _check_left(config, study)
    page.write_board(os.path.join(config.model_dir, "trials"), search, spec)
    with study.locked():
        test = results.read(config.model_dir).test
        results.write(config.model_dir, study, test, is_done=False)
    with until_signalled() as ended:
        loop = SearchLoop(
            study,
            lambda claim: _start(config, claim, search.metric),
            processes=config.processes or 1,
            ended=ended,
            every_secs=config.log_every_secs,
        )
        loop.run()
        with study.locked():
            return _finish(config, study, test_files, ended, tell)


def _start(config: TuneConfig, claim: Claim, metric: str) -> TrialRun:
    folder = trial_dir(config.model_dir, claim.number)
    # A page for each of many trials would take 5 MB; --mode=report draws it from the same files.
    made = trial_config(config, claim.values, folder).model_copy(update={"report": "off"})
    return TrialRun.started(made, metric)


def _check_left(config: TuneConfig, study: SearchStudy) -> None:
    """Raises NothingToDo if an earlier start has finished the search and its results."""
    best, written = study.best(), results.read(config.model_dir)
    ended = study.is_full() and not study.running()
    told = written.status == "done" and len(written.trials) == len(study.trials())
    scored = best is not None and (
        not config.test_files or results.is_scored(written.test, best, config)
    )
    if ended and told and scored:
        raise NothingToDo(
            f"{config.model_dir}: the search has ended with {len(study.trials())} trials. Raise "
            f"`trials` or `seconds` in {config.search} to go on, or choose another --model_dir."
        )


def _finish(
    config: TuneConfig,
    study: SearchStudy,
    test_files: list[str],
    ended: Signalled,
    tell: Callable[[str], None],
) -> RunResult:
    """Writes the results, unless another process has scored the best trial already."""
    search, trials, best = study.search, study.trials(), study.best()
    test, flags = results.read(config.model_dir).test, ""
    if best is not None:
        path = results.write_best(config, best)
        with open(path, encoding="utf-8") as file:
            flags = file.read()
        if not test_files:
            test = None
        elif not results.is_scored(test, best, config):
            test = results.score(config, best, test_files, search.metric, ended)
    drawn = ""
    if config.report == "on":
        drawn = report_page.attempt(lambda: page.write(config.model_dir, study, test, flags))
    results.write(config.model_dir, study, test, is_done=not study.running())
    if best is None:
        raise DataError(_nothing_succeeded(config, trials))
    tell(_summary(config, study, best, test, drawn))
    result = read_result(trial_dir(config.model_dir, best.number)) or RunResult(mode=config.mode)
    return RunResult(
        mode=config.mode,
        global_step=result.global_step,
        metrics=result.metrics,
        exports=result.exports,
    )


def _nothing_succeeded(config: TuneConfig, trials: list[Trial]) -> str:
    failed = [trial for trial in trials if trial.state == "failed"]
    text = f"{config.model_dir}: no trial of {len(trials)} has finished."
    if failed:
        last = failed[-1]
        text += f" Trial {name_of(last.number)} failed: {last.reason}"
    return text


def _summary(
    config: TuneConfig, study: SearchStudy, best: Trial, test: Optional[results.Score], drawn: str
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
    flags = shlex.quote(os.path.join(config.model_dir, results.BEST))
    lines += [f"best flags: {flags}", *([drawn.replace("report: ", "page: ", 1)] if drawn else [])]
    lines.append(ending.command(os.path.join(config.model_dir, "trials")))
    return "\n".join(lines)
