"""The charts of the report page: Plotly figures of existing numbers.

A function that returns a figure returns None where a run did not write what it shows. Plotly draws
in the browser, so a figure holds aggregates alone. The extra `report` brings Plotly.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import plotly.graph_objects as go
import plotly.io

from estimator_kit.observing import curves
from estimator_kit.observing.measured_export import ObjectiveSlices, Worth
from estimator_kit.observing.page import findings, texts
from estimator_kit.observing.page.numbers import Numbers

COLORS = ("#2563eb", "#db2777", "#059669", "#d97706", "#7c3aed", "#0891b2", "#65a30d", "#dc2626")
_GRAY = "#9ca3af"
_HEIGHT = 340
_MOST_BARS = 20


def figure(title: str, x: str, y: str, *, height: int = _HEIGHT, **layout: Any) -> go.Figure:
    """An empty figure in the style of the page.

    `html` adds Plotly's template. A figure that has it copies and checks it at every change, which
    takes more time than everything else on a page.
    """
    # In the constructor, because each `update_layout` takes as long as ten of these figures.
    fig = go.Figure(
        layout={
            "template": "none",
            "title": {"text": title, "x": 0, "font": {"size": 15}},
            "height": height,
            "margin": {"l": 64, "r": 16, "t": 44, "b": 48},
            "colorway": COLORS,
            "legend": {"orientation": "h", "y": -0.22},
            "xaxis": {"title": {"text": x}},
            "yaxis": {"title": {"text": y}},
            "font": {"family": "system-ui, sans-serif", "size": 13},
        }
    )
    if layout:
        fig.update_layout(**layout)
    return fig


def html(fig: go.Figure) -> str:
    """A figure for a page that has Plotly's JavaScript."""
    document = texts.shown(fig.to_plotly_json())
    document["layout"] = {**_with_room(document), "template": _template()}
    config = {"displayModeBar": False, "responsive": True}
    text: str = plotly.io.to_html(
        document, full_html=False, include_plotlyjs=False, config=config, validate=False
    )
    return text


def _with_room(document: Mapping[str, Any]) -> dict[str, Any]:
    """The layout. An axis whose numbers are all equal begins at 0.

    Plotly would draw 0.001 in the middle of -0.999 and 1.001, where it looks like 0.
    """
    layout = dict(document["layout"])
    for axis in ("x", "y"):
        values = {
            value
            for trace in document["data"]
            if trace.get(f"{axis}axis") in (None, axis)
            for value in _numbers(trace.get(axis))
        }
        if len(values) == 1 and values != {0.0}:
            layout[f"{axis}axis"] = {**layout.get(f"{axis}axis", {}), "rangemode": "tozero"}
    return layout


def _numbers(values: Any) -> list[float]:
    """The finite numbers of one axis of a trace."""
    listed = values if isinstance(values, (list, tuple, np.ndarray)) else ()
    numbers = [float(v) for v in listed if isinstance(v, (int, float, np.number))]
    return [number for number in numbers if math.isfinite(number)]


@functools.cache
def _template() -> dict[str, Any]:
    template: dict[str, Any] = plotly.io.templates["plotly_white"].to_plotly_json()
    return template


def line(fig: go.Figure, x: Any, y: Any, name: str, **style: Any) -> None:
    """Adds a line through points, which are lists or arrays."""
    fig.add_trace(go.Scatter(x=list(x), y=list(y), name=name, mode="lines", **style))


# --- Learning curves -----------------------------------------------------------------------------


def learning_curve(
    numbers: Numbers, metric: str, direction: Optional[str] = None
) -> Optional[go.Figure]:
    """A metric by step, with its best evaluation marked; `direction` is `max` or `min`."""
    series = numbers.series(metric)
    if not series:
        return None
    fig = figure(metric, "step", metric)
    steps, values = zip(*series)
    fig.add_trace(go.Scatter(x=steps, y=values, mode="lines+markers", name="evaluation"))
    for name in numbers.eval_sets:
        points = numbers.series(metric, name)
        if points:
            x, y = zip(*points)
            fig.add_trace(go.Scatter(x=x, y=y, mode="lines+markers", name=name, line={"width": 1}))
    best = findings.best(numbers, metric, direction) if direction else None
    if best is not None:
        fig.add_trace(
            go.Scatter(
                x=[best[0]], y=[best[1]], mode="markers", name=f"best, step {best[0]:,}",
                marker={"size": 14, "symbol": "star", "color": COLORS[3]},
            )
        )  # fmt: skip
    return fig


def losses(numbers: Numbers) -> Optional[go.Figure]:
    """The loss of training batches and of evaluations by step."""
    fig = figure("Loss", "step", "loss")
    points = [(e.step, e.loss) for e in numbers.training if e.loss is not None]
    if points:
        steps, values = zip(*points)
        fig.add_trace(
            go.Scatter(x=steps, y=values, mode="lines+markers", name="training, one batch",
                       line={"color": _GRAY, "width": 1}, marker={"size": 3})
        )  # fmt: skip
    series = numbers.series("loss")
    if series:
        steps, values = zip(*series)
        fig.add_trace(go.Scatter(x=steps, y=values, mode="lines+markers", name="evaluation"))
    return fig if points or series else None


def training_series(
    steps: Sequence[int], values: Sequence[Optional[float]], title: str
) -> Optional[go.Figure]:
    """One number of `training.jsonl` by step."""
    points = [pair for pair in zip(steps, values) if pair[1] is not None]
    if not points:
        return None
    fig = figure(title, "step", title.lower())
    x, y = zip(*points)
    fig.add_trace(go.Scatter(x=x, y=y, mode="lines+markers", name=title))
    return fig


# --- Two classes ---------------------------------------------------------------------------------


class _Rates(NamedTuple):
    """Recall, false positive rate, precision and share of rows above each threshold."""

    recall: np.ndarray
    false_positive_rate: np.ndarray
    precision: np.ndarray
    share: np.ndarray


def _rates(curve: curves.Histogram) -> Optional[_Rates]:
    positives, negatives = curve.weight.positives, curve.weight.negatives
    if not positives or not negatives:
        return None
    true = np.array([0.0, *curve.points.positives])
    false = np.array([0.0, *curve.points.negatives])
    above = true + false
    precision = np.divide(true, above, out=np.ones_like(true), where=above > 0)
    return _Rates(true / positives, false / negatives, precision, above / (positives + negatives))


def roc(curve: curves.Histogram) -> Optional[go.Figure]:
    rates = _rates(curve)
    if rates is None:
        return None
    fig = figure("ROC", "false positive rate", "recall")
    line(fig, rates.false_positive_rate, rates.recall, "model", fill="tozeroy")
    line(fig, [0, 1], [0, 1], "random", line={"dash": "dot", "color": _GRAY})
    return fig


def precision_recall(curve: curves.Histogram) -> Optional[go.Figure]:
    rates = _rates(curve)
    if rates is None:
        return None
    share = curve.weight.positives / (curve.weight.positives + curve.weight.negatives)
    fig = figure("Precision and recall", "recall", "precision")
    line(fig, rates.recall[1:], rates.precision[1:], "model")
    line(fig, [0, 1], [share, share], "random", line={"dash": "dot", "color": _GRAY})
    return fig


def reliability(curve: curves.Histogram) -> Optional[go.Figure]:
    bins = curve.reliability
    if not bins.weight:
        return None
    weight, label = np.array(bins.weight), np.array(bins.label)
    # Two standard errors: about 95% of the values.
    error = 2 * np.sqrt(np.maximum(label * (1 - label), 1e-12) / weight)
    fig = figure("Reliability: 20 parts of equal weight", "mean prediction", "share of positives")
    fig.add_trace(
        go.Scatter(
            x=bins.prediction, y=bins.label, mode="markers+lines", name="model",
            error_y={"type": "data", "array": error.tolist(), "color": _GRAY},
        )
    )  # fmt: skip
    top = max(*bins.prediction, *bins.label)
    line(fig, [0, top], [0, top], "perfect", line={"dash": "dot", "color": _GRAY})
    return fig


def gain(curve: curves.Histogram) -> Optional[go.Figure]:
    rates = _rates(curve)
    if rates is None:
        return None
    fig = figure("Gain and lift", "share of rows, highest score first", "share of positives found")
    line(fig, rates.share, rates.recall, "positives found")
    line(fig, [0, 1], [0, 1], "random", line={"dash": "dot", "color": _GRAY})
    lift = np.divide(rates.recall, rates.share, where=rates.share > 0,
                     out=np.full_like(rates.share, np.nan))  # fmt: skip
    line(fig, rates.share[1:], lift[1:], "lift (right axis)", yaxis="y2",
         line={"dash": "dash"})  # fmt: skip
    fig.update_layout(yaxis2={"overlaying": "y", "side": "right", "title": "lift"})
    return fig


def scores(curve: curves.Histogram) -> Optional[go.Figure]:
    """The distribution of the logits of positives and negatives. Each distribution sums to 1."""
    points, weight = curve.points, curve.weight
    if len(points.logit) < 4 or _rates(curve) is None:
        return None
    edges = np.array(points.logit)
    low, high = edges[-2], edges[1]  # Without the few rows that are far from all others.
    bins = np.linspace(low, high, 41)
    fig = figure("Scores by label", "logit", "share of the label")
    for name, heights, total, color in (
        ("positives", points.positives, weight.positives, COLORS[1]),
        ("negatives", points.negatives, weight.negatives, COLORS[0]),
    ):
        above = np.interp(bins, edges[::-1], np.array(heights)[::-1])
        share = -np.diff(above) / total
        line(fig, (bins[:-1] + bins[1:]) / 2, share, name, line={"color": color}, fill="tozeroy")
    return fig


def thresholds(curve: curves.Histogram) -> list[dict[str, float]]:
    """The rows of a table with the effects of several probabilities as thresholds."""
    rates = _rates(curve)
    if rates is None:
        return []
    logits = np.array([np.inf, *curve.points.logit])
    rows = []
    for share in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5):
        i = int(np.searchsorted(rates.share, share).clip(1, len(logits) - 1))
        precision, recall = rates.precision[i], rates.recall[i]
        total = precision + recall
        rows.append(
            {
                "share of rows above": rates.share[i],
                "threshold (probability)": math.exp(-np.logaddexp(0, -logits[i])),
                "precision": precision,
                "recall": recall,
                "F1": 2 * precision * recall / total if total else 0.0,
            }
        )
    return rows


# --- Other heads ---------------------------------------------------------------------------------


def deciles(curve: curves.ByPrediction) -> Optional[go.Figure]:
    parts = curve.deciles
    if not parts.weight:
        return None
    fig = figure("Predictions and labels by decile", "mean prediction", "mean label")
    fig.add_trace(go.Scatter(x=parts.prediction, y=parts.label, mode="markers+lines", name="model"))
    finite = [value for value in parts.prediction if value is not None]
    ends = [min(finite), max(finite)] if finite else []
    line(fig, ends, ends, "perfect", line={"dash": "dot", "color": _GRAY})
    return fig


def residuals(curve: curves.ByPrediction) -> Optional[go.Figure]:
    parts = curve.deciles
    if not parts.weight:
        return None
    fig = figure("Residuals by decile of the prediction", "decile", "label - prediction")
    names = [str(i + 1) for i in range(len(parts.weight))]
    fig.add_trace(go.Bar(x=names, y=parts.residual, name="mean residual"))
    line(fig, names, parts.root_mean_squared_error, "root mean squared error")
    return fig


def confusion(curve: curves.Confusion, names: Sequence[str]) -> Optional[go.Figure]:
    matrix = np.array(curve.matrix, float)
    rows = matrix.sum(axis=1, keepdims=True)
    shares = np.divide(matrix, rows, out=np.zeros_like(matrix), where=rows > 0)
    fig = figure("Confusion: share of each label", "predicted", "label", height=420)
    fig.add_trace(
        go.Heatmap(z=shares.tolist(), x=list(names), y=list(names), colorscale="Blues",
                   zmin=0, zmax=1)
    )  # fmt: skip
    fig.update_yaxes(autorange="reversed")
    return fig


def classes(curve: curves.ByClass, names: Sequence[str]) -> Optional[go.Figure]:
    order = np.argsort(curve.labels)[::-1][:_MOST_BARS]
    labels, predictions, hits = (
        np.array(weights)[order] for weights in (curve.labels, curve.predictions, curve.hits)
    )
    fig = figure(f"Classes ({len(order)} most frequent)", "class", "share")
    shown = [names[i] for i in order]
    for name, rows in (("recall", labels), ("precision", predictions)):
        share = np.divide(hits, rows, out=np.zeros_like(hits, dtype=float), where=rows > 0)
        fig.add_trace(go.Bar(x=shown, y=share.tolist(), name=name))
    return fig


def coverage(curve: curves.Coverage, quantiles: Sequence[float]) -> Optional[go.Figure]:
    if not curve.covered:
        return None
    fig = figure("Coverage of quantiles", "quantile", "share of labels below the prediction")
    fig.add_trace(
        go.Scatter(x=list(quantiles), y=curve.covered, mode="markers+lines", name="model")
    )
    line(fig, [0, 1], [0, 1], "perfect", line={"dash": "dot", "color": _GRAY})
    return fig


def similarity(curve: curves.Similarity) -> Optional[go.Figure]:
    middles = (np.arange(40) + 0.5) / 20 - 1
    fig = figure("Similarity of prediction and label", "cosine", "weight")
    fig.add_trace(go.Bar(x=middles.tolist(), y=curve.weight, name="rows"))
    return fig


def survival(curve: curves.Survival, boundaries: Sequence[float]) -> Optional[go.Figure]:
    """Two lines, which are near each other if the model is calibrated."""
    if not any(curve.watched):
        return None
    fig = figure("Survival", "time", "share without the event")
    times = [0.0, *boundaries]
    line(fig, times, [1.0, *curve.observed], "observed (Kaplan-Meier)")
    line(fig, times, [1.0, *curve.predicted], "predicted")
    return fig


def list_lengths(curve: curves.ListLength) -> Optional[go.Figure]:
    if not curve.rows:
        return None
    fig = figure("Loss by length of list", "rows of the list, up to", "loss")
    fig.add_trace(go.Bar(x=[str(rows) for rows in curve.rows], y=curve.loss, name="loss"))
    return fig


# --- All objectives ------------------------------------------------------------------------------


def slices(measured: ObjectiveSlices) -> Optional[go.Figure]:
    """A forest plot: the metric of each slice with its interval, and the metric of all rows."""
    parts = measured.slices[::-1]
    if not parts:
        return None
    names = [f"{part.feature}={part.value} ({part.rows:,})" for part in parts]
    values = [part.metric for part in parts]
    fig = figure(f"{measured.metric} by slice", measured.metric, "",
                 height=120 + 26 * len(parts))  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=values, y=names, mode="markers", name="slice, 95 % interval",
            error_x={
                "type": "data", "symmetric": False, "color": _GRAY,
                "array": [_distance(p.high, p.metric) for p in parts],
                "arrayminus": [_distance(p.metric, p.low) for p in parts],
            },
        )
    )  # fmt: skip
    if measured.overall.value is not None:
        fig.add_vline(x=measured.overall.value, line_dash="dot", line_color=_GRAY)
    fig.update_layout(margin_l=220)
    return fig


def importance(
    features: Mapping[str, Mapping[str, Worth]], objective: str, metric: str
) -> Optional[go.Figure]:
    """The loss of the metric when the values of a feature are shuffled."""
    worth = ((each[objective].values, name) for name, each in features.items() if objective in each)
    bars = sorted((*values, name) for values, name in worth if values is not None)[-_MOST_BARS:]
    if not bars:
        return None
    means, spreads, names = zip(*bars)
    fig = figure(f"{objective}: loss of {metric} without a feature", f"loss of {metric}", "",
                 height=120 + 24 * len(bars))  # fmt: skip
    fig.add_trace(
        go.Bar(x=means, y=names, orientation="h", name="mean of the repeats",
               error_x={"type": "data", "array": [2 * spread for spread in spreads]})
    )  # fmt: skip
    fig.update_layout(margin_l=160)
    return fig


def parameters(numbers: Numbers) -> Optional[go.Figure]:
    """The number of parameters of the largest variables. Slots of optimizers are not included."""
    weights = [table for table in numbers.tables if not table.is_slot]
    if not weights:
        return None
    shown = weights[:_MOST_BARS][::-1]
    fig = figure("Parameters of the largest variables", "parameters", "",
                 height=120 + 24 * len(shown))  # fmt: skip
    fig.add_trace(
        go.Bar(x=[table.parameters for table in shown], y=[t.name for t in shown],
               orientation="h", name="parameters")
    )  # fmt: skip
    fig.update_layout(margin_l=260)
    return fig


def _distance(high: Optional[float], low: Optional[float]) -> float:
    return high - low if high is not None and low is not None else 0.0
