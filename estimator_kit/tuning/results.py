"""What a search leaves: `search.json`, `best.flags`, and the score of the best trial on test files.

    model_dir/search.json     every trial, the best one, and its score on --test_files
    model_dir/best.flags      a flagfile that trains the best trial again, in model_dir/best
    model_dir/test.flags      a flagfile that scores the best trial on --test_files again

The test files are read once, after the last trial. Nothing is chosen by their score.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Optional

from pydantic import Field, JsonValue

from estimator_kit.config.flags import resolved_flags
from estimator_kit.config.modes import Searching, Tune
from estimator_kit.exit_codes import Signalled
from estimator_kit.result import EvaluationResult, evaluation_path
from estimator_kit.tuning.search import stopped
from estimator_kit.tuning.space import evaluation_config, name_of, trial_config, trial_dir
from estimator_kit.tuning.study import SearchStudy, Trial
from estimator_kit.tuning.trial_process import ProgramRun
from feature_specs.files import documents
from input_pipelines.errors import DataError

_log = logging.getLogger("estimator_kit")

RESULTS, BEST, TEST = "search.json", "best.flags", "test.flags"

# The name of the evaluation on --test_files; its metrics are in evaluation-test.json of the trial.
_EVAL_NAME = "test"

_INTERVAL = 0.2


class Score(documents.Part):
    """The score of a trial on the test files."""

    trial: str
    files: list[str]
    value: Optional[float]
    metrics: dict[str, Optional[float]] = Field({})


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
    trials: list[_Entry] = Field([])


def read(model_dir: str) -> Results:
    """The content of `search.json`, if it exists. Raises ConfigError if the file is damaged."""
    return Results.load(os.path.join(model_dir, RESULTS)) or Results()


def write(model_dir: str, study: SearchStudy, test: Optional[Score], *, is_done: bool) -> Results:
    """Writes `search.json`, and returns its content."""
    best = study.best()
    results = Results(
        metric=study.search.metric,
        direction=study.search.direction or "min",
        status="done" if is_done else "running",
        best=_Entry.of(model_dir, best) if best is not None else None,
        test=test,
        trials=[_Entry.of(model_dir, trial) for trial in study.trials()],
    )
    results.save(os.path.join(model_dir, RESULTS))
    return results


def write_best(command: Tune, best: Trial) -> str:
    """Writes the flagfile of the best trial, and returns its path."""
    folder = os.path.join(command.run.model_dir, "best")
    path = os.path.join(command.run.model_dir, BEST)
    head = f"# The flags of trial {name_of(best.number)}, which train it again in {folder}.\n"
    documents.write_text(path, head + resolved_flags(trial_config(command, best.values, folder)))
    return path


def score(command: Tune, best: Trial, files: Sequence[str], metric: str, ended: Signalled) -> Score:
    """Scores the last checkpoint of the best trial on the test files, in a separate process.

    Raises:
      DataError: the evaluation failed.
      Stopped, KeyboardInterrupt: a signal came.
    """
    folder = trial_dir(command.run.model_dir, best.number)
    of_trial = trial_config(command, best.values, folder)
    evaluation = evaluation_config(of_trial, command.tuning.test_files, _EVAL_NAME)
    flags, log = (os.path.join(command.run.model_dir, name) for name in (TEST, "test.log"))
    _log.info("scoring trial %s on %d test files", name_of(best.number), len(files))
    run = ProgramRun(evaluation, flags, log)
    try:
        while (code := run.status()) is None:
            if ended.wait(_INTERVAL):
                raise stopped(ended)
    finally:
        run.kill()
    if code:
        raise DataError(
            f"trial {name_of(best.number)} could not be scored on --test_files: "
            f"{run.reason(code)} The log is {log}."
        )
    scored = EvaluationResult.load(evaluation_path(folder, _EVAL_NAME))
    metrics = dict(scored.metrics) if scored is not None else {}
    return Score(
        trial=name_of(best.number),
        files=list(command.tuning.test_files),
        value=metrics.get(metric),
        metrics=metrics,
    )


def shown(value: Optional[float]) -> str:
    """A metric in text. The rows of the test files may leave it undefined."""
    return "undefined" if value is None else f"{value:.5f}"


def is_scored(test: Optional[Score], best: Trial, tuning: Searching) -> bool:
    """Whether `search.json` has the score of this trial on these files."""
    wanted = (name_of(best.number), list(tuning.test_files))
    return test is not None and (test.trial, test.files) == wanted
