"""Names and values of data in figures: no text is markup, and no text widens the page."""

from __future__ import annotations

import dataclasses
import html
import json
import re

import pytest

import feature_specs
from estimator_kit.observing.curves import Confusion
from estimator_kit.observing.measured_export import ObjectiveSlices, Overall, Slice, Slices
from estimator_kit.observing.page import charts, compare, page, sections, texts
from estimator_kit.observing.page.numbers import Numbers
from estimator_kit.result import RunResult
from estimator_kit.retraining import cycle_page
from estimator_kit.retraining.data_checks import Measure
from input_pipelines.prepare.analyze.distances import Part
from tests.conftest import DOCUMENT

pytest.importorskip("plotly")

HOSTILE = [
    '<a href="https://evil.example">x</a>', "&lt;i&gt;", "<b>bold</b>", "a<br>b",
    "<script>1</script>", "&#60;i&#62;", "</extra>", "%{x}", "x" * 300, "<i>" * 100, "A & B",
    "ä" * 300,
]  # fmt: skip

# What Plotly reads in every text that it draws: tags, and entities.
TAG = re.compile(r"</?[a-zA-Z][^<>]*>")


def figures(text):
    """The figures of a page or of a section, as Plotly gets them: their data and their layout."""
    found = []
    for match in re.finditer(r"Plotly\.newPlot\(\s*\"[^\"]+\",\s*", text):
        decoder = json.JSONDecoder()
        data, end = decoder.raw_decode(text, match.end())
        layout, _ = decoder.raw_decode(text, text.index("{", end))
        layout.pop("template")
        found.append((data, layout))
    return found


def strings(value, key=""):
    """(key, text) of every text in a figure."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from strings(part, name)
    elif isinstance(value, list):
        for part in value:
            yield from strings(part, key)


def as_drawn(text):
    """What a reader sees of a text without tags: Plotly reads its entities."""
    return html.unescape(text)


def hostile_numbers():
    parts = [
        Slice(feature="city", value=value, rows=10, metric=0.5, low=0.4, high=0.6)
        for value in HOSTILE
    ]
    overall = Overall(value=0.5, rows=40)
    click = ObjectiveSlices(metric="auc", slices=parts, overall=overall, left_out={})
    return Numbers(
        model_dir="runs/" + "long/" * 60, result=RunResult(mode="train"),
        spec=feature_specs.parse(DOCUMENT), versions={}, flags=[],
        evaluations=[(1, {"loss": 1.0})], curves={}, training=[],
        slices=Slices(objectives={"click": click}), importance=None, flops=None, tables=[],
    )  # fmt: skip


def test_values_of_slices_are_no_markup():
    (section,) = [s for s in sections.sections(hostile_numbers()) if s.title == "Slices"]
    ((data, layout),) = figures(section.charts[0])
    named = [f"city={value} (10)" for value in HOSTILE][::-1]
    # The ticks are the values, shortened; the pointer shows them in lines.
    assert [as_drawn(text) for text in layout["yaxis"]["tickvals"]] == named
    assert [as_drawn(text) for text in data[0]["y"]] == named
    assert [as_drawn(text) for text in layout["yaxis"]["ticktext"]] == [
        texts.shortened(name, 36) for name in named
    ]
    hover = dict(zip(named, data[0].pop("hovertext")))
    assert not [pair for pair in strings([data, layout]) if TAG.search(pair[1])]
    assert not [text for text in hover.values() if TAG.search(text.replace("<br>", ""))]
    assert as_drawn(hover["city=a<br>b (10)"]) == "city=a<br>b (10)"
    assert as_drawn(hover["city=<b>bold</b> (10)"]) == "city=<b>bold</b> (10)"
    long = hover[f"city={'x' * 300} (10)"]
    assert long.replace("<br>", "") == f"city={'x' * 300} (10)"
    assert max(map(len, long.split("<br>"))) <= 60


def test_no_text_of_a_figure_is_wider_than_its_place():
    (section,) = [s for s in sections.sections(hostile_numbers()) if s.title == "Slices"]
    ((_, layout),) = figures(section.charts[0])
    assert max(len(as_drawn(text)) for text in layout["yaxis"]["ticktext"]) == 36


def test_classes_of_a_confusion_are_told_apart():
    """Two names that look the same when they are shortened stay two names."""
    names = [f"{'x' * 100}{end}{'y' * 100}" for end in "ab"]
    figure = charts.confusion(Confusion(kind="confusion", matrix=[[1, 0], [0, 1]]), names)
    ((data, layout),) = figures(charts.html(figure))
    assert data[0]["x"] == data[0]["y"] == names
    assert layout["xaxis"]["tickvals"] == layout["yaxis"]["tickvals"] == names
    assert [len(text) for text in layout["xaxis"]["ticktext"]] == [24, 24]
    assert [len(row) for row in data[0]["hovertext"]] == [2, 2]
    assert data[0]["hovertext"][1][0].replace("<br>", "") == f"{names[1]}, {names[0]}"


def test_short_names_are_unchanged():
    figure = charts.confusion(Confusion(kind="confusion", matrix=[[1, 0], [0, 1]]), ["no", "yes"])
    ((data, layout),) = figures(charts.html(figure))
    assert data[0]["x"] == ["no", "yes"]
    assert "ticktext" not in layout["xaxis"] and "hovertext" not in data[0]


def test_drift_of_a_feature_with_hostile_values():
    entry = Measure(
        kind="feature", name="<b>" + "f" * 300, measure="l_infinity", distance=0.1, warn=None,
        stop=None, verdict="-", parts=[Part(value, 0.1, 0.2) for value in HOSTILE],
    )  # fmt: skip
    ((data, layout),) = figures(charts.html(cycle_page._distributions(entry)))
    assert not [text for key, text in strings(layout) if TAG.search(text)]
    assert len(as_drawn(layout["title"]["text"])) == 70
    assert [as_drawn(text) for text in data[1]["x"]] == HOSTILE


def test_long_paths_in_a_comparison(tmp_path):
    runs = [
        dataclasses.replace(hostile_numbers(), model_dir=f"{'long/' * 60}{end}", evaluations=steps)
        for end, steps in (("a", [(1, {"loss": 1.0})]), ("b", [(2, {"loss": 2.0})]))
    ]
    text = page._render("title", "comparison", compare.sections(runs))
    (data, _), *_ = figures(text)
    assert [len(trace["name"]) for trace in data] == [36, 36]
    assert [trace["hovertext"].replace("<br>", "") for trace in data] == [r.model_dir for r in runs]
    # The list at the top and the headings break anywhere; tables and commands scroll.
    style = text[: text.index("</style>")]
    assert re.search(r"body \{[^}]*overflow-wrap: anywhere", style)
    assert "nowrap" not in re.search(r"nav a \{[^}]*\}", style)[0]
    assert text.count("<table") == text.count('<div class="scroll"><table')


def test_hover_texts_of_optuna_keep_their_lines():
    document = {"data": [{"text": ["a<br>b <i>"], "hovertemplate": "%{y}<extra>T</extra>"}],
                "layout": {}}  # fmt: skip
    (trace,) = texts.shown(document)["data"]
    assert trace == {"text": ["a<br>b &lt;i&gt;"], "hovertemplate": "%{y}<extra>T</extra>"}
