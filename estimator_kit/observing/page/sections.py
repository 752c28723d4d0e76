"""The sections of the report page. They show the numbers that a run has written."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

from typing_extensions import assert_never

from estimator_kit.config.areas.data import Data
from estimator_kit.observing import curves, standing
from estimator_kit.observing.outcome import number
from estimator_kit.observing.page import charts
from estimator_kit.observing.page.findings import main_metric
from estimator_kit.observing.page.numbers import Numbers
from estimator_kit.observing.report import own_metrics

_PARAMETERS_SHOWN = 20


class Section(NamedTuple):
    """A part of the page.

    Attributes:
      title: its heading, and its entry in the list at the top.
      intro: one paragraph, or "".
      charts: HTML of figures.
      table: column names and rows, or None.
      pre: text to show unchanged, such as a command, or "".
      wide: whether each figure takes the whole width.
    """

    title: str
    intro: str = ""
    charts: Sequence[str] = ()
    table: Optional[tuple[Sequence[str], Sequence[Sequence[str]]]] = None
    pre: str = ""
    wide: bool = False


def sections(numbers: Numbers) -> list[Section]:
    """All sections that have numbers, in their order on the page."""
    shown: list[Optional[Section]] = [_outcome(numbers), _references(numbers)]
    shown += [_learning(numbers), _own(numbers)]
    shown += [*_objectives(numbers), _slices(numbers), _importance(numbers), _training(numbers)]
    shown += [_model(numbers), _data(numbers), _query(numbers)]
    return [section for section in shown if section is not None]


def _outcome(numbers: Numbers) -> Section:
    objectives = list(numbers.spec.objectives)
    names = sorted({key.rpartition("/")[0] for key in numbers.metrics if "/" in key})
    of_sets = {"": numbers.metrics, **numbers.metrics_of_sets}
    columns = {
        f"{objective} ({name})" if name else objective: (objective, metrics)
        for objective in objectives
        for name, metrics in of_sets.items()
    }
    rows = [
        [name, *(number(metrics.get(f"{name}/{o}")) for o, metrics in columns.values())]
        for name in names
    ]
    result, step = numbers.result, numbers.step
    which = "last" if numbers.evaluations and step == numbers.evaluations[-1][0] else "best"
    facts = [
        f"{result.rows_trained:,} rows trained" if result.rows_trained else "",
        f"{result.rows_evaluated:,} rows evaluated" if result.rows_evaluated else "",
        *(f"export {name}: {path}" for name, path in result.exports.items()),
    ]
    return Section(
        "Outcome",
        "; ".join(fact for fact in facts if fact)
        + (f". The table is of the {which} evaluation, at step {step:,}." if step else ""),
        table=(["metric", *columns], rows) if rows else None,
    )


def _references(numbers: Numbers) -> Optional[Section]:
    compared = numbers.result.reference_models
    rows = standing.table(compared) if compared is not None else []
    if compared is None or not rows:
        return None
    return Section(
        "Reference models",
        f"Simple models of the same columns, compared on the same evaluation rows. "
        f"{standing.rows_read(compared)} The interval has the chance of the evaluation rows, not "
        "the chance of another training.",
        table=(standing.COLUMNS, rows),
    )


def _learning(numbers: Numbers) -> Optional[Section]:
    figures = [charts.losses(numbers)]
    for objective, entry in numbers.spec.objectives.items():
        figures.append(charts.learning_curve(numbers, *main_metric(numbers, objective)))
        if entry.calibrated:
            figures.append(charts.learning_curve(numbers, f"calibration/{objective}"))
    return with_charts(
        "Learning curves",
        "The star marks the best evaluation. The training loss is the loss of single batches.",
        figures,
    )


def _own(numbers: Numbers) -> Optional[Section]:
    names = own_metrics(numbers.metrics, numbers.spec.objectives)
    figures = [charts.learning_curve(numbers, name) for name in names]
    section = with_charts("Metrics of the model", "From the method `metrics`.", figures)
    rows = [[name, number(numbers.metrics[name])] for name in names]
    return section._replace(table=(["metric", "value"], rows)) if section is not None else None


def _objectives(numbers: Numbers) -> list[Section]:
    if not numbers.curves:
        return []
    step = numbers.step
    if step is None or step not in numbers.curves:
        step = max(numbers.curves)
    curves_by_objective = numbers.curves[step]
    shown = [
        _objective(numbers, objective, curves_by_objective[objective], step)
        for objective in numbers.spec.objectives
        if objective in curves_by_objective
    ]
    return [section for section in shown if section is not None]


def _objective(
    numbers: Numbers, objective: str, curve: curves.Curve, step: int
) -> Optional[Section]:
    entry: Any = numbers.spec.objectives[objective]
    title = f"Objective {objective}"
    intro = f"Head {entry.head}, evaluation at step {step:,}."
    figures: list[Any] = []
    table = None
    if isinstance(curve, curves.Histogram):
        draw = (charts.roc, charts.precision_recall, charts.reliability, charts.gain, charts.scores)
        figures = [each(curve) for each in draw]
        rows = charts.thresholds(curve)
        if rows:
            table = (list(rows[0]), [[f"{value:.4f}" for value in row.values()] for row in rows])
    elif isinstance(curve, curves.ByPrediction):
        figures = [charts.deciles(curve), charts.residuals(curve)]
    elif isinstance(curve, curves.Confusion):
        figures = [charts.confusion(curve, _classes(numbers, objective, len(curve.matrix)))]
    elif isinstance(curve, curves.ByClass):
        figures = [charts.classes(curve, _classes(numbers, objective, len(curve.labels)))]
    elif isinstance(curve, curves.Coverage):
        figures = [charts.coverage(curve, entry.quantiles)]
    elif isinstance(curve, curves.Similarity):
        figures = [charts.similarity(curve)]
    elif isinstance(curve, curves.Survival):
        figures = [charts.survival(curve, entry.boundaries)]
    elif isinstance(curve, curves.ListLength):
        figures = [charts.list_lengths(curve)]
    else:
        assert_never(curve)
    section = with_charts(title, intro, figures)
    return section._replace(table=table) if section is not None else None


def _classes(numbers: Numbers, objective: str, count: int) -> list[str]:
    words = numbers.spec.labels[numbers.spec.label_of(objective)].vocabulary
    return [str(word) for word in words] if words else [str(i) for i in range(count)]


def _slices(numbers: Numbers) -> Optional[Section]:
    if numbers.slices is None:
        return None
    figures = [charts.slices(objective) for objective in numbers.slices.objectives.values()]
    return with_charts("Slices", "The dotted line is the metric of all rows.", figures)


def _importance(numbers: Numbers) -> Optional[Section]:
    if numbers.importance is None:
        return None
    figures = [
        charts.importance(numbers.importance.features, objective, metric)
        for objective, metric in numbers.importance.metrics.items()
    ]
    return with_charts(
        "Importance",
        "How much worse the metric gets when the values of one feature are shuffled. "
        "Features with the same information share their importance, so each one may look "
        "unimportant. Bars show twice the spread of the repeats.",
        figures,
    )


def _training(numbers: Numbers) -> Optional[Section]:
    entries, steps = numbers.training, [entry.step for entry in numbers.training]
    figures = [
        charts.training_series(steps, values, title)
        for values, title in (
            ([entry.examples_per_second for entry in entries], "Examples a second"),
            ([entry.learning_rate for entry in entries], "Learning rate"),
            ([entry.gradient_norm for entry in entries], "Gradient norm"),
        )
    ]
    return with_charts("Training", "", figures)


def _model(numbers: Numbers) -> Optional[Section]:
    weights = [table for table in numbers.tables if not table.is_slot]
    slots = [table for table in numbers.tables if table.is_slot]
    sentences = [
        f"{sum(table.parameters for table in weights):,} parameters take "
        f"{_bytes(sum(table.bytes for table in weights))}. In training, the optimizer keeps "
        f"{sum(table.parameters for table in slots):,} more numbers "
        f"({_bytes(sum(table.bytes for table in slots))}).",
        _flops(numbers),
        _step_time(numbers),
    ]
    section = with_charts("Model", " ".join(filter(None, sentences)), [charts.parameters(numbers)])
    if section is None:
        return None
    total = sum(table.bytes for table in weights)
    rows = [
        [
            table.name,
            " x ".join(map(str, table.shape)) or "1",
            f"{table.parameters:,}",
            _bytes(table.bytes),
            f"{table.bytes / total:.1%}" if total else "",
        ]
        for table in weights[:_PARAMETERS_SHOWN]
    ]
    names = ["variable", "shape", "parameters", "size", "share of the size"]
    return section._replace(table=(names, rows))


def _flops(numbers: Numbers) -> str:
    """How much a prediction of one row computes, and what the number leaves out."""
    if numbers.flops is None:
        return ""
    varying = (
        " Sizes that differ between rows, such as the steps of a list, count as 1."
        if numbers.flops.varying
        else ""
    )
    return (
        f"The matrix products of a prediction take {numbers.flops.a_row:,} floating-point "
        "operations a row; a multiplication and an addition count as two. Lookups of embeddings "
        f"and activations are not counted.{varying}"
    )


def _step_time(numbers: Numbers) -> str:
    """How long a training step takes, and how much of it is waiting for input."""
    profile = numbers.result.input_profile
    share = profile.share_waiting
    waiting = (
        f"In {profile.steps:,} profiled steps, it waited for its input {share:.0%} of the time."
        if share is not None
        else "Train with --profile to measure how long it waits for its input."
    )
    rate, rows = numbers.result.examples_per_second, numbers.rows_a_step
    if not rate or rows is None:
        return waiting if share is not None else ""
    return f"A training step takes {1000 * rows / rate:,.2f} ms for {rows:,} rows. {waiting}"


def _data(numbers: Numbers) -> Section:
    versions = [[name, version] for name, version in sorted(numbers.versions.items())]
    return Section(
        "Data, spec and versions",
        f"{len(numbers.spec.features)} features, {len(numbers.spec.columns)} columns, groups "
        f"{', '.join(numbers.spec.groups)}; labels {', '.join(numbers.spec.labels)}.",
        table=(["package", "version"], versions),
        pre="\n".join(numbers.flags),
    )


def _query(numbers: Numbers) -> Optional[Section]:
    path = numbers.result.export_path
    if path is None:
        return None
    values = [flag.partition("=")[2] for flag in numbers.flags if flag.startswith("--eval_files=")]
    files = [",".join(Data(eval_files=tuple(each.split(","))).judging_files) for each in values]
    arguments = [
        "estimator-kit", "predict", f"--export_dir={path}",
        *(f"--predict_files={name}" for name in files[:1]), "--predict_limit=3",
    ]  # fmt: skip
    return Section("Query the export", pre=shlex.join(arguments))


def with_charts(title: str, intro: str, figures: Sequence[Any]) -> Optional[Section]:
    """A section with the figures that are not None, or None if it would have no figures."""
    drawn = [charts.html(figure) for figure in figures if figure is not None]
    return Section(title, intro, drawn) if drawn else None


def _bytes(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1024
    raise AssertionError
