"""What a search leaves: `search.json`, and the best settings, trained and exported.

    model_dir/search.json     every trial, the best one, and the score of `best` on --test_files
    model_dir/best.flags      a flagfile that trains the best settings again
    model_dir/best/           their training, with the export to serve

Without test files (`final_test`), `best` is the training of the best trial again, with an export of
its best evaluation. With them, `best` trains on the rows of training and evaluation together, up to
the step of the best evaluation of that trial. The test files score it once, and choose nothing.
"""

from __future__ import annotations

import logging
import os
import shutil
from typing import Any, Optional

from pydantic import Field, JsonValue

from estimator_kit import exit_codes
from estimator_kit.config.experiment_config import ModelDirConfig
from estimator_kit.config.flags import resolved_flags
from estimator_kit.config.modes import Tune
from estimator_kit.exit_codes import Signalled
from estimator_kit.observing.histories import EvaluationHistory
from estimator_kit.result import RunResult, read_result
from estimator_kit.tuning import final_test
from estimator_kit.tuning.fork_server import ForkServer
from estimator_kit.tuning.search import stopped
from estimator_kit.tuning.search_file import Search
from estimator_kit.tuning.space import name_of, trial_config, trial_dir
from estimator_kit.tuning.study import SearchStudy, Trial
from estimator_kit.tuning.trial_process import ProgramRun
from feature_specs.files import documents, urls
from input_pipelines.errors import DataError

_log = logging.getLogger("estimator_kit")

RESULTS, BEST = "search.json", "best.flags"

_INTERVAL = 0.2


class Score(documents.Part):
    """The score of `best` on the test files, with the settings of a trial.

    `given` is the score of the settings that --search=auto began with, trained on --train_files.
    """

    trial: str
    files: list[str]
    value: Optional[float]
    metrics: dict[str, Optional[float]] = Field({})
    given: Optional[float] = None


class _Entry(documents.Part):
    trial: str
    state: str
    value: Optional[float]
    parameters: dict[str, JsonValue]
    seconds: float
    reason: Optional[str]
    model_dir: str

    @classmethod
    def of(cls, model_dir: str, trial: Trial) -> _Entry:
        return cls(
            trial=name_of(trial.number),
            state=trial.state,
            value=trial.value,
            parameters=trial.values,
            seconds=round(trial.seconds, 1),
            reason=trial.reason or None,
            model_dir=trial_dir(model_dir, trial.number),
        )


class Results(documents.Document):
    """`search.json`."""

    metric: str = ""
    direction: str = "min"
    status: str = "running"
    best: Optional[_Entry] = None
    test: Optional[Score] = None
    export: Optional[str] = None
    reason: Optional[str] = None
    trials: list[_Entry] = Field([])


def read(model_dir: str) -> Results:
    """The content of `search.json`, if it exists. Raises ConfigError if the file is damaged."""
    return Results.load(os.path.join(model_dir, RESULTS)) or Results()


def write(
    model_dir: str, study: SearchStudy, test: Optional[Score], export: Optional[str], *,
    is_done: bool,
) -> Results:  # fmt: skip
    """Writes `search.json`, and returns its content.

    Args:
      model_dir: the folder of the search.
      study: its trials.
      test: the score of `best` on the test files.
      export: the export to serve.
      is_done: whether no trial is left.
    """
    best = study.best()
    results = Results(
        metric=study.search.metric,
        direction=study.search.direction or "min",
        status="done" if is_done else "running",
        best=_Entry.of(model_dir, best) if best is not None else None,
        test=test,
        export=export,
        reason=study.end_reason(),
        trials=[_Entry.of(model_dir, trial) for trial in study.trials()],
    )
    results.save(os.path.join(model_dir, RESULTS))
    return results


def best_config(command: Tune, search: Search, best: Trial, folder: str) -> ModelDirConfig:
    """The config that trains the settings of the best trial, and exports the model to serve.

    Args:
      command, search: the search.
      best: its best trial.
      folder: the model directory of the training.
    """
    trial, settings = trial_config(command, search, best.values, folder), command.settings
    own = [each for each in settings.exporters if each not in ("best", "final", "latest")]
    changes: dict[str, Any] = {
        "report": settings.report,
        "exporters": ("best", *own) if settings.exporters else (),
        "eval_files": settings.eval_files,
        "reference_models": settings.reference_models if settings.exporters else (),
    }
    test = final_test.patterns(command)
    if test:
        step = best_step(trial_dir(command.run.model_dir, best.number), search)
        changes.update(
            eval_files=(*test, *final_test.other_sets(command)), eval_days=None,
            max_steps=step, epochs=None, early_stopping_metric=None,
            save_checkpoints_steps=step, save_checkpoints_secs=None,
            exporters=("final", *own) if settings.exporters else (),
        )  # fmt: skip
        if not command.data.train_mix:
            data = command.data
            files = (*data.patterns_of("train"), *data.patterns_of("eval"))
            changes.update(train_files=files, train_days=None)
    return ModelDirConfig(**{**trial.model_dump(), **changes})


def best_step(folder: str, search: Search) -> int:
    """The global step of the best evaluation of a trial, the first one of equal ones."""
    values = {
        entry.global_step: value
        for entry in EvaluationHistory(folder).read()
        if (value := entry.metrics.get(search.metric)) is not None
    }
    best = search.best_of(values.values())
    return next(step for step, value in values.items() if value == best)


def train_best(
    command: Tune,
    search: Search,
    best: Trial,
    ended: Signalled,
    server: Optional[ForkServer] = None,
) -> RunResult:
    """Trains the best settings in `best`, in a separate process, and goes on after a kill.

    `ProgramRun` gets `server`.

    Raises:
      DataError: the training failed.
      Stopped, KeyboardInterrupt: a signal came.
    """
    folder = os.path.join(command.run.model_dir, "best")
    flags, log = (os.path.join(command.run.model_dir, name) for name in (BEST, "best.log"))
    config = best_config(command, search, best, folder)
    head = f"# The settings of trial {name_of(best.number)}. These flags train them in {folder}.\n"
    text = head + resolved_flags(config)
    if os.path.exists(folder) and _content(flags) != text:
        shutil.rmtree(folder)  # It is of another trial, which was the best one before.
    documents.write_text(flags, text)
    _log.info("%s", _what(command, config, best))
    run = ProgramRun(None, flags, log, server)
    try:
        while (code := run.status()) is None:
            if ended.wait(_INTERVAL):
                run.stop()
                raise stopped(ended)
    finally:
        run.kill()
    if code not in (exit_codes.DONE, exit_codes.NOTHING_TO_DO):
        raise DataError(
            f"the training of the best trial, {name_of(best.number)}, failed: {run.reason(code)} "
            f"The log is {log}."
        )
    return read_result(folder) or RunResult(mode="")


def _content(path: str) -> str:
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def _what(command: Tune, config: ModelDirConfig, best: Trial) -> str:
    name = f"training the settings of trial {name_of(best.number)} in {config.model_dir}"
    time = f"The trial took {best.seconds:,.0f} seconds"
    if not final_test.patterns(command):
        return f"{name}, to export its best evaluation. {time}"
    rows = "the files of training" if command.data.train_mix else "training and evaluation files"
    return (
        f"{name}, on {rows} to step {config.max_steps}, then scoring it on "
        f"{final_test.name(command)}. {time}, with its evaluations"
    )


def score_of(command: Tune, search: Search, best: Trial, result: RunResult) -> Optional[Score]:
    """The score of `best` on the test files, from its result; None without such files."""
    files = final_test.patterns(command)
    if not files:
        return None
    return Score(
        trial=name_of(best.number),
        files=urls.given(files),
        value=result.metrics.get(search.metric),
        metrics=dict(result.metrics),
        given=final_test.of_first(command, search),
    )


def shown(value: Optional[float]) -> str:
    """A metric in text. The rows of the test files may leave it undefined."""
    return "undefined" if value is None else f"{value:.5f}"
