"""The charts of each head on the report page, of curves written by hand."""

from __future__ import annotations

import json

import pytest

import feature_specs
from estimator_kit.observing.curves import Curves
from estimator_kit.observing.measured_export import ObjectiveSlices, Overall, Slice, Worth
from estimator_kit.observing.outcome import number
from estimator_kit.observing.page import charts, sections
from estimator_kit.observing.page.numbers import Numbers
from estimator_kit.result import RunResult

pytest.importorskip("plotly")

NOTHING = {
    "weight": [], "prediction": [], "label": [], "residual": [], "root_mean_squared_error": [],
}  # fmt: skip
DECILES = {
    "weight": [2.0, 2.0], "prediction": [0.5, 3.0], "label": [1.0, 2.5], "residual": [0.5, -0.5],
    "root_mean_squared_error": [0.75, 1.5],
}  # fmt: skip


def of(kind, **values):
    """A curve of a file."""
    document = {"global_step": 7, "objectives": {"y": {"kind": kind, **values}}}
    return Curves.of_text(json.dumps(document), "7.json").objectives["y"]


def drawn(monkeypatch, label, objective, curve):
    """(title, traces as (name, x, y)) of each figure of the objective's section."""
    # A feature that nothing uses is an error.
    more = {
        name: {"dtype": dtype}
        for name, dtype in (("city", "string"), ("gone", "int64"))
        if name in objective.values()
    }
    document = {
        "features": {"x": {"dtype": "float32"}, **more},
        "columns": {"x": {"numeric": "x"}},
        "groups": {"deep": ["x"]},
        "labels": {"y": label},
        "objectives": {"y": objective},
    }
    monkeypatch.setattr(charts, "html", lambda figure: figure)
    numbers = Numbers(
        model_dir="runs/a", result=RunResult(mode="train"), spec=feature_specs.parse(document),
        versions={}, flags=[], evaluations=[], curves={7: {"y": curve}}, training=[], slices=None,
        importance=None, flops=None, tables=[],
    )  # fmt: skip
    found = [part for part in sections.sections(numbers) if part.title == "Objective y"]
    assert all(part.intro.endswith(", evaluation at step 7.") for part in found)
    return [
        (figure.layout.title.text, [
            (trace.name, list(trace.x), list(trace.y)) for trace in figure.data
        ])
        for part in found for figure in part.charts
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "mode"),
    [([0.001, 0.001, 0.001], "tozero"), ([0.001], "tozero"), ([-2.0], "tozero"), ([0.0], None),
     ([0.001, 0.002], None), ([None, float("nan"), 0.5], "tozero"), (["a"], None)],
)  # fmt: skip
def test_equal_numbers_are_not_drawn_around_0(values, mode):
    """Plotly would put 0.001 between -0.999 and 1.001."""
    figure = charts.figure("Learning rate", "step", "learning rate")
    charts.line(figure, range(len(values)), values, "rate")
    charts.line(figure, [1, 2], [5, 6], "of another axis", yaxis="y2")
    layout = charts._with_room(figure.to_plotly_json())
    assert layout["yaxis"].get("rangemode") == mode
    assert layout["yaxis"]["title"]["text"] == "learning rate"


FLOAT, CLASS = {"dtype": "float32"}, {"dtype": "int64"}
CASES = {
    "by_prediction": (
        FLOAT, {"head": "regression"}, {"deciles": DECILES},
        [
            ("Predictions and labels by decile",
             [("model", [0.5, 3.0], [1.0, 2.5]), ("perfect", [0.5, 3.0], [0.5, 3.0])]),
            ("Residuals by decile of the prediction",
             [("mean residual", ["1", "2"], [0.5, -0.5]),
              ("root mean squared error", ["1", "2"], [0.75, 1.5])]),
        ],
    ),
    # Of the second most frequent label, 1 of 2 rows is found, and 1 of its 4 predictions is right.
    "by_class": (
        {"dtype": "string", "vocabulary": ["a", "b", "c"], "shape": "variable"},
        {"head": "multi_label", "num_classes": 3},
        {"labels": [2.0, 5.0, 0.0], "predictions": [4.0, 5.0, 0.0], "hits": [1.0, 4.0, 0.0]},
        [("Classes (3 most frequent)",
          [("recall", ["b", "a", "c"], [0.8, 0.5, 0.0]),
           ("precision", ["b", "a", "c"], [0.8, 0.25, 0.0])])],
    ),
    "coverage": (
        FLOAT, {"head": "quantile", "quantiles": [0.1, 0.9]},
        {"weight": 4.0, "covered": [0.25, 0.75]},
        [("Coverage of quantiles",
          [("model", [0.1, 0.9], [0.25, 0.75]), ("perfect", [0, 1], [0, 1])])],
    ),
    "similarity": (
        {"dtype": "float32", "shape": [2]}, {"head": "cosine", "dimension": 2},
        {"weight": [1.0, *[0.0] * 38, 3.0]},
        [("Similarity of prediction and label",
          [("rows", pytest.approx([(i + 0.5) / 20 - 1 for i in range(40)]),
            [1.0, *[0.0] * 38, 3.0])])],
    ),
    "survival": (
        FLOAT, {"head": "survival", "event": "gone", "boundaries": [1, 2]},
        {"watched": [4.0, 2.0], "observed": [0.75, 0.375], "predicted": [0.5, 0.25]},
        [("Survival",
          [("observed (Kaplan-Meier)", [0, 1, 2], [1, 0.75, 0.375]),
           ("predicted", [0, 1, 2], [1, 0.5, 0.25])])],
    ),
    "list_length": (
        FLOAT, {"head": "ranking", "group_by": "city"},
        {"rows": [2, 4], "weight": [1.0, 1.0], "loss": [1.5, 0.5]},
        [("Loss by length of list", [("loss", ["2", "4"], [1.5, 0.5])])],
    ),
}  # fmt: skip


def test_what_is_undefined_is_left_out():
    """JSON has null for NaN and infinity."""
    parts = {**DECILES, "prediction": [0.5, None]}
    _, perfect = charts.deciles(of("by_prediction", deciles=parts)).data
    assert perfect.x == perfect.y == (0.5, 0.5)
    features = {
        "x": {"y": Worth(mean=0.25, spread=0.5), "z": Worth(mean=None, spread=None)},
        "w": {"y": Worth(mean=0.125, spread=0.0), "z": Worth(mean=None, spread=None)},
    }
    (bars,) = charts.importance(features, "y", "auc").data
    assert (bars.x, bars.y, bars.error_x.array) == ((0.125, 0.25), ("w", "x"), (0.0, 1.0))
    assert charts.importance(features, "z", "auc") is None
    assert number(float("inf")) == "infinite" and number(None) == ""


@pytest.mark.parametrize("kind", CASES)
def test_the_charts_of_a_head(kind, monkeypatch):
    label, objective, curve, expected = CASES[kind]
    assert drawn(monkeypatch, label, objective, of(kind, **curve)) == expected


@pytest.mark.parametrize(
    ("words", "names"), [({}, ["0", "1", "2"]), ({"vocabulary": ["a", "b", "c"]}, ["a", "b", "c"])]
)
def test_the_confusion_is_a_share_of_each_label(words, names, monkeypatch):
    curve = of("confusion", matrix=[[3, 1, 0], [0, 2, 2], [0, 0, 0]])
    (heat,) = charts.confusion(curve, names).data
    assert [list(row) for row in heat.z] == [[0.75, 0.25, 0], [0, 0.5, 0.5], [0, 0, 0]]
    label = {"dtype": "string" if words else "int64", **words}
    objective = {"head": "multi_class", "num_classes": 3}
    found = drawn(monkeypatch, label, objective, curve)
    assert found == [("Confusion: share of each label", [(None, names, names)])]


@pytest.mark.parametrize(
    ("kind", "curve"),
    [
        ("by_prediction", {"deciles": NOTHING}),
        ("coverage", {"weight": 0.0, "covered": []}),
        ("survival", {"watched": [0, 0], "observed": [1, 1], "predicted": [1, 1]}),
        ("list_length", {"rows": [], "weight": [], "loss": []}),
    ],
)
def test_an_evaluation_without_rows_draws_nothing(kind, curve, monkeypatch):
    label, objective, _, _ = CASES[kind]
    assert drawn(monkeypatch, label, objective, of(kind, **curve)) == []


def test_two_classes_without_positives_draw_no_rates():
    curve = of(
        "histogram",
        weight={"positives": 0.0, "negatives": 4.0},
        points={"logit": [1.0, 0.0, -1.0], "positives": [0, 0, 0], "negatives": [1, 2, 4]},
        reliability={"weight": [], "label": [], "prediction": []},
    )
    draw = (charts.roc, charts.precision_recall, charts.reliability, charts.gain, charts.scores)
    assert [each(curve) for each in draw] == [None] * 5
    assert charts.thresholds(curve) == []


@pytest.mark.parametrize("overall", [0.4, None])
def test_slices_of_an_undefined_metric_have_no_line(overall):
    part = Slice(feature="city", value="oslo", rows=9, metric=0.3, low=0.2, high=None)
    whole = Overall(value=overall, rows=9)
    figure = charts.slices(ObjectiveSlices(metric="auc", overall=whole, slices=[part], left_out={}))
    assert [line.x0 for line in figure.layout.shapes] == [overall] * (overall is not None)
