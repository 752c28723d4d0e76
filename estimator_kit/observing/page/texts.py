"""Texts in figures: shows every text of data as it is written, and in a limited width.

Plotly reads tags, such as `<a href>`, and entities in each text that it draws: ticks, legends,
titles and hover texts. Most of them are names and values of data. `shown` escapes them all, and
shortens those that would leave the card of their figure. The pointer shows the whole text. It
changes no number.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

# The most characters of a tick of each axis, of a name in a legend, and of a title.
_MOST = {"x": 24, "y": 36}
_MOST_OF_NAME, _MOST_OF_TITLE = 36, 70

# The characters of a line of a hover text, and the most of the whole text.
_LINE, _MOST_OF_HOVER = 60, 600

# Optuna's hover texts have line breaks, and its templates have a tag for what they leave out.
_TAGS = {
    "text": re.compile(r"&lt;(br ?/?)&gt;"),
    "hovertemplate": re.compile(r"&lt;(br ?/?|/?extra)&gt;"),
}


class _Markup(str):
    """A text with line breaks of this module, in which all else is escaped."""


def shown(document: Mapping[str, Any]) -> dict[str, Any]:
    """A figure as `to_plotly_json` returns it, with texts that Plotly shows as they are.

    Args:
      document: `data` and `layout` of the figure. It stays unchanged.
    """
    layout = {**document["layout"]}
    traces = [_named(trace) for trace in document["data"]]
    _shorten_ticks(traces, layout)
    title = layout.get("title")
    if isinstance(title, Mapping) and isinstance(title.get("text"), str):
        layout["title"] = {**title, "text": shortened(title["text"], _MOST_OF_TITLE)}
    return {**document, "data": escaped(traces), "layout": escaped(layout)}


def escaped(value: Any, key: str = "") -> Any:
    """A value in which Plotly finds no markup, except the line breaks of hover texts."""
    if isinstance(value, _Markup):
        return value
    if isinstance(value, str):
        text = html.escape(value, quote=False)
        return _TAGS[key].sub(r"<\1>", text) if key in _TAGS else text
    if isinstance(value, Mapping):
        return {name: escaped(part, name) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [escaped(part, key) for part in value]
    if getattr(value, "dtype", None) is not None and value.dtype.kind in "OUS":
        return escaped(value.tolist(), key)
    return value


def shortened(text: str, most: int) -> str:
    """A text of at most `most` characters, without its middle if it is longer."""
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return f"{text[: most - 1 - end]}…{text[-end:]}"


def wrapped(text: str) -> str:
    """A text for the pointer, with line breaks."""
    lines = textwrap.wrap(shortened(text, _MOST_OF_HOVER), _LINE)
    return _Markup("<br>".join(html.escape(line, quote=False) for line in lines))


def _named(trace: Mapping[str, Any]) -> dict[str, Any]:
    """A trace whose name fits into a legend."""
    name = trace.get("name")
    if not isinstance(name, str) or len(name) <= _MOST_OF_NAME:
        return {**trace}
    return {"hovertext": wrapped(name), **trace, "name": shortened(name, _MOST_OF_NAME)}


def _shorten_ticks(traces: list[dict[str, Any]], layout: dict[str, Any]) -> None:
    """Gives the axes with long names short ticks, and their traces the whole names to hover."""
    for letter, most in _MOST.items():
        by_axis: dict[str, list[dict[str, Any]]] = {}
        for trace in traces:
            by_axis.setdefault(trace.get(f"{letter}axis", letter), []).append(trace)
        for axis, drawn in by_axis.items():
            names = list(dict.fromkeys(name for trace in drawn for name in _names(trace, letter)))
            if all(len(name) <= most for name in names):
                continue
            key = f"{letter}axis{axis[1:]}"
            layout[key] = {
                **layout.get(key, {}),
                "type": "category",
                "tickmode": "array",
                "tickvals": names,
                "ticktext": [shortened(name, most) for name in names],
            }
            for trace in drawn:
                _tell_whole(trace, letter)


def _tell_whole(trace: dict[str, Any], letter: str) -> None:
    names = _names(trace, letter)
    if trace.get("type") == "heatmap":
        x, y = _names(trace, "x"), _names(trace, "y")
        trace["hovertext"] = [[wrapped(f"{b}, {a}") for a in x] for b in y]
    elif names:
        trace["hovertext"] = [wrapped(name) for name in names]


def _names(trace: Mapping[str, Any], letter: str) -> list[str]:
    """The names on an axis, or nothing if the axis has numbers."""
    values = trace.get(letter)
    if not isinstance(values, Iterable) or isinstance(values, (str, Mapping)):
        return []
    listed = list(values)
    return listed if all(isinstance(value, str) for value in listed) else []
