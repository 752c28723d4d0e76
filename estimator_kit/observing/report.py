"""The text that a run prints at its end: a table of metrics, and the paths of its results."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Optional

from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.exports import metric_of
from estimator_kit.config.areas.run import Run
from estimator_kit.config.areas.training import Training
from estimator_kit.observing import standing
from estimator_kit.observing.outcome import first_lines, number
from estimator_kit.result import (
    ALREADY_DONE,
    EARLY_STOPPED,
    INPUT_EXHAUSTED,
    MAX_STEPS,
    EvalSet,
    RunResult,
)
from feature_specs.files import urls
from feature_specs.spec import FeatureSpec

_FIRST = ("auc", "bayes_auc", "accuracy", "loss", "bayes_loss")

# The metrics of the kit that belong to no objective, and are not in the table.
_OF_THE_RUN = ("loss", "global_step", "rows")


def metrics_table(
    metrics: Mapping[str, Optional[float]],
    objectives: Sequence[str],
    eval_sets: Mapping[str, EvalSet] = MappingProxyType({}),
) -> str:
    """A row for each metric and a column for each objective, from `<metric>/<objective>` names.

    Each other evaluation set adds a column, such as `click (test)`. Other metrics, such as the
    metrics of `ModelFn.metrics`, follow, one on each line.
    """
    own = own_metrics(metrics, objectives)
    of_kit = metrics.keys() - {*own, *_OF_THE_RUN}
    names = sorted({key.rpartition("/")[0] for key in of_kit}, key=_order)
    columns = {
        f"{objective} ({name})" if name else objective: (objective, of_set)
        for objective in objectives
        for name, of_set in {"": metrics, **{n: e.metrics for n, e in eval_sets.items()}}.items()
    }
    header = ["metric", *columns]
    body = [
        [name, *(number(of_set.get(f"{name}/{o}")) for o, of_set in columns.values())]
        for name in names
    ]
    widths = [max(len(row[i]) for row in [header, *body]) for i in range(len(header))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))])
        for row in [header, ["-" * width for width in widths], *body]
    ]
    if own:
        width = max(map(len, own))
        lines += ["", *(f"{key.ljust(width)}  {number(metrics[key])}" for key in own)]
    return "\n".join(lines)


def own_metrics(metrics: Mapping[str, Optional[float]], objectives: Collection[str]) -> list[str]:
    """The names of metrics that belong to no objective, such as `added_loss/decay`, sorted."""
    return sorted(
        key
        for key in metrics
        if key not in _OF_THE_RUN and ("/" not in key or key.rpartition("/")[2] not in objectives)
    )


def _order(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


def summary(
    run: Run,
    data: Data,
    spec: FeatureSpec,
    result: RunResult,
    training: Optional[Training] = None,
) -> str:
    """The closing lines of a run; a training gives its settings."""
    lines = []
    if result.task is not None:
        lines.append(f"{result.task} ends")
    first = first_lines(result)
    if first:
        lines += ["", *first]
    lines += standing.lines(result)
    if result.metrics:
        table = metrics_table(result.metrics, list(spec.objectives), result.eval_sets)
        lines += ["", table, ""]
        if any(key.startswith("bayes_") for key in result.metrics):
            lines += [
                "bayes_auc and bayes_loss come from the true probabilities of the generated rows:",
                "no model can do better on these rows.",
                "",
            ]
    if result.stop_reason is not None and training is not None:
        lines.append(f"{_end(training, result.stop_reason)} (step {result.global_step})")
        if result.stop_reason == EARLY_STOPPED:
            lines[-1] += "; the metrics are of the best one"
    if result.rows_trained and result.examples_per_second:
        rate = f"{result.examples_per_second:,.0f} examples a second"
        lines.append(f"trained on {result.rows_trained:,} rows at {rate}")
    if result.rows_evaluated:
        done = "predicted" if result.mode == "predict" else "evaluated on"
        others = "".join(f", {name} {each.rows:,}" for name, each in result.eval_sets.items())
        lines.append(f"{done} {result.rows_evaluated:,} rows{others}")
    for exporter, path in result.exports.items():
        lines.append(f"SavedModel ({exporter}): {path}")
    if result.export_path is not None:
        lines += ["", *_query(run, data, result.export_path)]
    return "\n".join(lines)


def _end(training: Training, reason: str) -> str:
    if reason == INPUT_EXHAUSTED:
        every = f"all {training.epochs} epochs are" if training.epochs != 1 else "the epoch is"
        return f"finished: {every} done"
    if reason == MAX_STEPS:
        return f"finished: --max_steps={training.max_steps} is reached"
    if reason == EARLY_STOPPED:
        return (
            f"stopped early: {metric_of(training.early_stopping_metric or '')} did not improve in "
            f"{training.early_stopping_patience} evaluations"
        )
    if reason == ALREADY_DONE:
        return "finished already: nothing was left to train"
    return f"stopped: {reason}"


def _query(run: Run, data: Data, export: str) -> list[str]:
    """The command that predicts some records, or a table if the run has read tables."""
    files = data.predict_files or data.patterns_of("eval") or data.patterns_of("train")[:1]
    tables = urls.given(files)
    is_table = tables != list(files)  # Their records may be removed.
    what = "Predict the table" if is_table else "Query it with three records"
    arguments = [
        *_program(),
        "--mode=predict",
        f"--spec={run.spec}",
        f"--export_dir={export}",
        f"--predict_files={','.join(tables) or 'YOUR_RECORDS'}",
        "--predict_dir=predictions" if is_table else "--predict_limit=3",
    ]
    return [f"{what}:", f"  {' '.join(shlex.quote(argument) for argument in arguments)}"]


def _program() -> list[str]:
    """How this program was started, to type it again in the same folder."""
    script = sys.argv[0]
    if not script.endswith(".py"):
        return [script]
    interpreter = os.path.relpath(sys.executable)
    return [sys.executable if interpreter.startswith("..") else interpreter, script]
