"""Features of dates and times are recognized, and their parts become columns."""

from __future__ import annotations

import datetime
import json

import pytest

import feature_specs
from input_pipelines.prepare.analyze import first_spec, times

START = datetime.datetime(2017, 11, 7)


def hours(count, step=1):
    return [START + datetime.timedelta(hours=i * step) for i in range(count)]


def written(tmp_path, rows):
    path = tmp_path / "a.jsonl"
    lines = [json.dumps({"y": i % 2, **row}) for i, row in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n")
    first_spec.write([str(path)], labels=["y"], directory=str(tmp_path / "first"), min_count=1)
    return feature_specs.load(tmp_path / "first" / "spec.yaml")


@pytest.mark.parametrize(
    ("form", "parts"),
    [
        ("%Y-%m-%d %H:%M", ("hour", "weekday")),
        ("%Y-%m-%dT%H:%M:%S.%f", ("hour", "weekday")),
        ("%Y%m%dT%H%M%S", ("hour", "weekday")),
        ("%Y/%m/%d", ("weekday",)),
        ("%m/%d/%y", ("weekday",)),
        ("%d.%m.%Y %H:%M:%S", ("hour", "weekday")),
        ("%Y%m%d", ("weekday",)),
    ],
)
def test_text(form, parts):
    words = {time.strftime(form): 1 for time in hours(30 * 24)}
    found = times._of_text(words)
    assert (found.format, found.parts) == (form, parts)


def test_text_that_is_not_always_a_time():
    words = {time.strftime("%Y-%m-%d"): 10 for time in hours(20, 24)}
    found = times._of_text({**words, "unknown": 10})
    assert found.why == (
        "its text is a date, %Y-%m-%d; 4.8% of the values are not, and count as missing"
    )
    assert times._of_text({**words, "unknown": 11}) is None
    assert times._of_text({"2017": 5, "12:30": 5, "a": 1}) is None


def test_text_of_which_day_and_month_may_be_swapped():
    found = times._of_text({"1/2/11": 1, "3/4/11": 1})
    assert found.format == "%m/%d/%y" and found.why.endswith("; all values also fit %d/%m/%y")
    assert times._of_text({"1/2/11": 1, "13/4/11": 1}).format == "%d/%m/%y"


@pytest.mark.parametrize(
    ("name", "values", "form"),
    [
        ("hour", range(14102100, 14102124), "%y%m%d%H"),
        ("day", [20140921, 20150101], "%Y%m%d"),
        ("x", [20140921, 20150101, 20160229, 19991231, 20000229], "%Y%m%d"),
        ("x", [20140921, 20150101, 20160230, 19991231, 20000229], None),
        ("x", [20140921, 20150101], None),
        ("timestamp", [874724710, 893286638], "seconds"),
        ("createdAt", [1510000000000, 1511000000000], "milliseconds"),
        ("price", [874724710, 893286638], None),
        ("time", [30, 45, 60], None),
        ("date", [140921, 151231], "%y%m%d"),
        ("zip", [140921, 151231], None),
    ],
)
def test_integers(name, values, form):
    found = times._of_integers(name, list(values), exact=True)
    assert (found.format if found else None) == form


def test_the_first_spec_has_columns_of_parts(tmp_path):
    rows = [
        {"seen": time.strftime("%Y-%m-%d %H:%M"), "ts": int(time.timestamp()), "x": i % 60}
        for i, time in enumerate(hours(400))
    ]
    for row in rows[:40]:
        del row["seen"], row["ts"]
    spec = written(tmp_path, rows)
    form = "%Y-%m-%d %H:%M"
    hour = {"time": "seen", "part": "hour", "format": form}
    assert spec.to_dict()["columns"]["seen_hour"] == hour
    assert spec.columns["ts_weekday"].format == "seconds"
    assert (spec.features["seen"].default, spec.features["ts"].default) == ("", -1)
    assert {"seen_hour", "seen_weekday", "ts_hour", "ts_weekday"} <= {*spec.groups["wide"]}
    assert {"seen_hour_emb", "seen_weekday_hot"} <= {*spec.groups["deep"]}
    # No vocabulary of minutes.
    assert not (tmp_path / "first" / "vocabularies" / "seen.txt").exists()


def test_a_time_without_parts_that_differ_is_ignored(tmp_path):
    rows = [{"seen": f"2017-11-0{1 + i % 3}", "x": i % 60} for i in range(100)]
    spec = written(tmp_path, rows)
    assert spec.ignored == ("seen",)
    text = (tmp_path / "first" / "spec.yaml").read_text()
    assert "so no part of it helps with the times of" in text
