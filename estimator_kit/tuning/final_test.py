"""Which files score the result of a search, and what the first settings have on them.

    patterns(command)          --test_files, or else the set `test` of --eval_files
    with_test(command, trial)  the first trial of `auto`, which also evaluates them
    of_first(command, metric)  its metric on them, at its best evaluation

The files choose nothing. Imports no TensorFlow.
"""

from __future__ import annotations

from typing import Optional

from estimator_kit.config.areas.data import TEST
from estimator_kit.config.experiment_config import ModelDirConfig
from estimator_kit.config.modes import Tune
from estimator_kit.observing.histories import EvaluationHistory
from estimator_kit.tuning.search_file import Search
from estimator_kit.tuning.space import trial_dir


def patterns(command: Tune) -> tuple[str, ...]:
    """The files, one pattern for each day of --eval_days; none if nothing names them."""
    data = command.data
    return command.tuning.test_files or data.of_days(data.other_sets.get(TEST, ()), "eval")


def name(command: Tune) -> str:
    """What messages call the files."""
    return "--test_files" if command.tuning.test_files else f"the set {TEST} of --eval_files"


def other_sets(command: Tune) -> tuple[str, ...]:
    """The entries of --eval_files for the sets that neither judge nor test."""
    data = command.data
    return tuple(
        f"{each}={pattern}"
        for each, plain in data.other_sets.items()
        if each != TEST
        for pattern in data.of_days(plain, "eval")
    )


def with_test(command: Tune, trial: ModelDirConfig) -> ModelDirConfig:
    """The config of a trial that also evaluates the test files, as the set `test`."""
    test = [f"{TEST}={pattern}" for pattern in patterns(command)]
    judging = command.data.patterns_of("eval")
    return ModelDirConfig(
        **{**trial.model_dump(), "eval_files": (*judging, *test), "eval_days": None}
    )


def of_first(command: Tune, search: Search) -> Optional[float]:
    """The metric of the first trial on the test files, at its best evaluation; None without one."""
    values: dict[float, Optional[float]] = {}
    for entry in EvaluationHistory(trial_dir(command.run.model_dir, 0)).read():
        judged, test = entry.metrics.get(search.metric), entry.eval_sets.get(TEST)
        if judged is not None and test is not None:
            values.setdefault(judged, test.metrics.get(search.metric))
    return values[search.best_of(values)] if values else None
