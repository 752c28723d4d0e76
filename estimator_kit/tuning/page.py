"""`search.html`: the trials of a search as tables and Optuna's own figures, in one file.

The extra `report` draws the page, and Optuna makes the figures. It opens without a network.

Each trial writes its own parameters and metrics for TensorBoard's page HParams, as every training
does. TensorBoard takes the columns from the first run that names columns. `write_board` makes such
a run in the folder of all trials, so that every searched parameter has a column, also a flag that
has its default in some trials.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.observing.outcome import number
from estimator_kit.observing.page import charts, page
from estimator_kit.observing.page.sections import Section, with_charts
from estimator_kit.observing.tensorboard import plugin_data, summaries
from estimator_kit.tuning.definition import optuna
from estimator_kit.tuning.results import Score
from estimator_kit.tuning.search_file import Search
from estimator_kit.tuning.space import FLAGS, corners, name_of
from estimator_kit.tuning.study import SearchStudy, Trial
from feature_specs.spec import FeatureSpec

FILE = "search.html"

# What Optuna's figures of parameters need.
_FEWEST = 2


def write(model_dir: str, study: SearchStudy, test: Optional[Score], flags: str) -> str:
    """Writes the page, and returns its path.

    Args:
      model_dir: the folder of the search.
      study: its trials.
      test: the score on test files, or None.
      flags: the content of `best.flags`, or "".

    Raises:
      ConfigError: the extra `report` is not installed.
    """
    path = os.path.join(model_dir, FILE)
    trials, best = study.trials(), study.best()
    counts = [f"{sum(t.state == state for t in trials)} {state}" for state in _states(trials)]
    sections = [_outcome(study, best, test), *_figures(study), _table(study, trials)]
    if flags:
        sections.append(Section("Flags of the best trial", pre=flags))
    title = os.path.basename(os.path.abspath(model_dir))
    headline = f"search for {study.search.metric}: {len(trials)} trials, {', '.join(counts)}"
    page.write_sections(path, title, headline, [each for each in sections if each is not None])
    return path


def _states(trials: Sequence[Trial]) -> list[str]:
    return sorted({trial.state for trial in trials})


def _outcome(study: SearchStudy, best: Optional[Trial], test: Optional[Score]) -> Section:
    if best is None:
        return Section("Outcome", "No trial has finished, so the search has no result.")
    metric = study.search.metric
    rows = [
        [f"{metric} on the evaluation files", number(best.value)],
        *([[f"{metric} on the test files", number(test.value)]] if test else []),
        *(
            [[f"{metric} of the given settings on the test files", number(test.given)]]
            if test and test.given is not None
            else []
        ),
        *([name, text_of(value)] for name, value in best.values.items()),
    ]
    return Section(
        "Outcome",
        f"Trial {name_of(best.number)} is the best, by its best evaluation. The evaluation files "
        "chose it, so its value on them is optimistic. The test files, if there are any, were read "
        f"once at the end. The search has ended: {study.end_reason() or 'it has not'}.",
        table=(["", ""], rows),
    )


def _table(study: SearchStudy, trials: Sequence[Trial]) -> Section:
    names = list(study.search.parameters)
    rows = [
        [
            name_of(trial.number),
            trial.state,
            number(trial.value),
            f"{max(trial.evaluations, default=0):,}",
            f"{trial.seconds:,.0f}",
            *(text_of(trial.values[name]) if name in trial.values else "" for name in names),
            trial.reason,
        ]
        for trial in trials
    ]
    header = ["trial", "state", study.search.metric, "rows", "seconds", *names, "reason"]
    intro = "The best evaluation of each trial, and the rows before its last one."
    return Section("Trials", intro, table=(header, rows))


def text_of(value: Any) -> str:
    """A value for a reader: `0.32255`, `adagrad`, `[64, 32]`."""
    if isinstance(value, float):
        return f"{value:.5g}"
    return value if isinstance(value, str) else json.dumps(value)


def _figures(study: SearchStudy) -> list[Optional[Section]]:
    """Optuna's figures. The figures for parameters need two trials with different results."""
    done = [trial for trial in study.trials() if trial.state == "done"]
    if all(trial.value is None for trial in study.trials()):
        return []
    draw, metric = optuna().visualization, study.search.metric
    options: dict[str, Any] = {"target_name": metric}
    figures = []
    if any(trial.evaluations for trial in study.trials()):
        figures.append(_by_rows(_drawn(draw.plot_intermediate_values, study, {}), metric))
    sections = [
        with_charts(
            "History",
            "The metric of each trial, and the best one so far by the rows that it had trained on. "
            "A pruned trial ends early.",
            [_history(study), *figures],
        )
    ]
    if len(done) < _FEWEST or len({trial.value for trial in done}) < _FEWEST:
        return sections
    evaluator = optuna().importance.PedAnovaImportanceEvaluator()
    sections += [
        with_charts(
            "Importance",
            "How much the best trials depend on each parameter (PED-ANOVA). With few trials, this "
            "is a guess. Parameters that only some trials have are left out.",
            [_drawn(draw.plot_param_importances, study, {**options, "evaluator": evaluator})],
        ),
        with_charts(
            "Slices",
            "The best metric of each trial by each parameter, also of pruned and failed trials "
            "that had an evaluation.",
            [slice_of(study, name) for name in study.search.parameters],
        ),
        _wide(
            "Parallel coordinates",
            "Finished trials only.",
            _drawn(draw.plot_parallel_coordinate, study, options),
        ),
    ]
    return sections


# How the charts mark trials, by their state.
_MARKS: Mapping[str, Mapping[str, Any]] = {
    "done": {"size": 8},
    "pruned": {"size": 8, "symbol": "x-thin-open"},
    "failed": {"size": 8, "symbol": "triangle-down-open"},
}


def _history(study: SearchStudy) -> Any:
    """The best value of each trial by its number. Optuna's own figure has finished trials only.

    A failed trial without an evaluation is at the bottom, or at the top if a low value is better.
    """
    trials = study.trials()
    values = [trial.value for trial in trials if trial.value is not None]
    worst = min(values) if study.search.maximizes else max(values)
    fig = charts.figure("history", "trial", study.search.metric)
    for state, mark in _MARKS.items():
        shown = [trial for trial in trials if trial.state == state]
        if shown:
            fig.add_scatter(
                x=[trial.number for trial in shown],
                y=[worst if trial.value is None else trial.value for trial in shown],
                text=[f"trial {name_of(t.number)}, {state} {t.reason}".strip() for t in shown],
                mode="markers", name=state, marker=dict(mark),
            )  # fmt: skip
    best = [(t.number, t.value) for t in trials if t.state == "done" and t.value is not None]
    if best:
        numbers, of_trials = zip(*best)
        so_far = [study.search.best_of(of_trials[: i + 1]) for i in range(len(of_trials))]
        fig.add_scatter(
            x=list(numbers), y=so_far, mode="lines", name="best so far", line={"shape": "hv"}
        )
    return fig


def slice_of(study: SearchStudy, name: str) -> Any:
    """The metric of all trials by one parameter, or None. Optuna's own figure has no pruned trials,
    and puts all parameters side by side, so that it is wider than a page."""
    parameter = study.search.parameters[name]
    fig = charts.figure(name, name, study.search.metric)
    for state, style in _MARKS.items():
        points = [
            (trial.values[name], trial.value, f"trial {name_of(trial.number)}")
            for trial in study.trials()
            if trial.state == state and name in trial.values and trial.value is not None
        ]
        if points:
            values, metrics, texts = zip(*points)
            shown = values if parameter.choice is None else [text_of(value) for value in values]
            fig.add_scatter(
                x=list(shown), y=list(metrics), text=list(texts), mode="markers", name=state,
                marker=dict(style),
            )  # fmt: skip
    if parameter.log:
        fig.update_xaxes(type="log")
    if parameter.choice is not None:
        fig.update_xaxes(type="category")
    return fig if fig.data else None


def _wide(title: str, intro: str, figure: Any) -> Optional[Section]:
    section = with_charts(title, intro, [figure])
    return section._replace(wide=True) if section is not None else None


def _by_rows(figure: Any, metric: str) -> Any:
    figure.update_layout(xaxis_title="rows trained", yaxis_title=metric)
    return figure


def _drawn(draw: Callable[..., Any], study: SearchStudy, options: Mapping[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Some evaluators of Optuna are experimental.
        figure = draw(study.optuna_study, **options)
    figure.update_layout(title=None, template="plotly_white", margin={"t": 24})
    return figure


def write_board(trials_dir: str, search: Search, spec: FeatureSpec) -> None:
    """Writes the columns, unless an earlier start has written them.

    Args:
      trials_dir: the folder of all trials.
      search: its parameters become columns.
      spec: its main metrics become columns, after the metric of the search.
    """
    if tf.io.gfile.glob(os.path.join(trials_dir, "events*")):
        return
    metrics = list(dict.fromkeys([search.metric, *summaries.main_metrics(spec), "loss"]))
    values = [summaries.hparams("experiment", plugin_data.experiment(columns(search), metrics))]
    summaries.write_file(trials_dir, values, 0, first=True)


def columns(search: Search) -> dict[str, object]:
    """The searched parameters by their name on the page, with an example of their values."""
    examples: dict[str, object] = {}
    for name, values in corners(search):
        place = name if name in FLAGS else f"model_params/{name}"
        examples[place] = plugin_data.plain(values[name])
    return examples
