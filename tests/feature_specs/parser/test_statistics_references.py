"""References to statistics files in a spec: their numbers, and the errors."""

from __future__ import annotations

import json
import logging

import pytest

import feature_specs
from feature_specs import statistics

pytestmark = pytest.mark.no_tensorflow

NUMBERS = {
    "min": -2, "max": 98, "mean": 10.5, "stddev": 4.0, "zeros": 0, "non_finite": 0,
    "quantiles": list(range(-2, 99)), "quantiles_exact": True,
}  # fmt: skip
FEATURE = {
    "dtype": "int64", "missing": 0, "values": 5,
    "lengths": {"min": 1, "max": 1, "mean": 1.0, "counts": {"1": 5}},
    "cardinality": {"value": 4, "exact": True},
}  # fmt: skip


def statistics_document():
    steps = {**NUMBERS, "quantiles": [0] * 51 + [7.5] * 50}
    constant = {**NUMBERS, "min": 3, "max": 3, "mean": 3.0, "stddev": 0.0, "quantiles": [3] * 101}
    return {
        "version": 1, "rows": 5, "files": 1,
        "features": {
            "age": {**FEATURE, "numbers": NUMBERS},
            "steps": {**FEATURE, "dtype": "float32", "numbers": steps},
            "constant": {**FEATURE, "numbers": constant},
            "city": {**FEATURE, "dtype": "string"},
        },
    }  # fmt: skip


def document(columns):
    features = {column.get("numeric", column.get("bucketized")) for column in columns.values()} & {
        "age",
        "steps",
        "constant",
        "other",
        "city",
    }
    return {
        "features": {**{name: {"dtype": "float32"} for name in sorted(features)}},
        "columns": columns,
        "groups": {"deep": list(columns)},
        "labels": {"click": {"dtype": "int64"}},
        "objectives": {"click": {"head": "binary"}},
    }


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "statistics.json").write_text(json.dumps(statistics_document()))
    return tmp_path


def parse(folder, **columns):
    return feature_specs.parse(document(columns), directory=folder)


def numeric(feature, *steps):
    return {"numeric": feature, "normalizer": steps[0] if len(steps) == 1 else list(steps)}


ZSCORE = {"zscore": {"statistics": "statistics.json"}}
MINMAX = {"minmax": {"statistics": "statistics.json"}}


def test_a_spec_holds_the_numbers(folder):
    spec = parse(
        folder,
        a=numeric("age", ZSCORE, {"clip": {"min": -3, "max": 3}}),
        s=numeric("steps", MINMAX),
        b={"bucketized": "age", "quantiles": 4, "statistics": "statistics.json"},
    )
    assert spec.to_dict()["columns"] == {
        "a": {"numeric": "age", "normalizer": [
            {"zscore": {"mean": 10.5, "stddev": 4.0}}, {"clip": {"min": -3.0, "max": 3.0}}]},
        "s": {"numeric": "steps", "normalizer": [{"minmax": {"min": -2.0, "max": 98.0}}]},
        "b": {"bucketized": "age", "boundaries": [23.0, 48.0, 73.0]},
    }  # fmt: skip
    (folder / "statistics.json").unlink()
    assert feature_specs.parse(spec.to_dict()).columns == spec.columns


def test_the_file_may_be_below_the_folder_of_a_spec_file(folder):
    (folder / "below").mkdir()
    (folder / "statistics.json").rename(folder / "below" / "s.json")
    column = numeric("age", {"zscore": {"statistics": "below/s.json"}})
    (folder / "spec.yaml").write_text(json.dumps(document({"a": column})))
    spec = feature_specs.load(folder / "spec.yaml")
    assert spec.columns["a"].normalizer[0].zscore.mean == 10.5


def test_quantiles_of_a_numeric_column_that_is_not_normalized(folder):
    spec = parse(
        folder,
        raw={"numeric": "age"},
        b={"bucketized": "raw", "quantiles": 2, "statistics": "statistics.json"},
    )
    assert spec.columns["b"].boundaries == (48.0,)


def test_fewer_buckets_are_announced(folder, caplog):
    with caplog.at_level(logging.WARNING, "feature_specs"):
        spec = parse(
            folder, b={"bucketized": "steps", "quantiles": 10, "statistics": "statistics.json"}
        )
    # Half of the values are 0, and the other half are 7.5.
    assert spec.columns["b"].boundaries == (7.5,)
    assert caplog.messages == [
        "columns.b: many rows have one value of feature 'steps', which leaves 2 buckets instead of "
        "10"
    ]


@pytest.mark.parametrize(
    "column, message",
    [
        (numeric("age", {"zscore": {"statistics": "no.json"}}),
         "columns.x.normalizer.zscore.statistics: the file '{}/no.json' does not exist. Write it "
         "with run.py --mode=analyze, without --spec, into a new folder, and copy it."),
        (numeric("age", {"zscore": {"statistics": "../s.json"}}),
         "columns.x.normalizer.zscore.statistics: got '../s.json', expected a path below the "
         "folder of the spec, '{}'"),
        (numeric("age", {"zscore": {"statistics": 3}}),
         "columns.x.normalizer.zscore.statistics: got 3, expected a path below the folder of the "
         "spec, '{}'"),
        (numeric("age", {"zscore": {"statistics": "statistics.json", "mean": 0}}),
         "columns.x.normalizer.zscore: set either the numbers or `statistics`, not both"),
        (numeric("age", "log1p", ZSCORE),
         "columns.x.normalizer[1].zscore.statistics: statistics describe the stored feature, but "
         "other steps come first. Make zscore the first step, or set its numbers."),
        (numeric("other", ZSCORE),
         "columns.x.normalizer.zscore.statistics: 'statistics.json' has no feature 'other'. "
         "Use one of: age, steps, constant, city."),
        (numeric("city", MINMAX),
         "columns.x.normalizer.minmax.statistics: feature 'city' in 'statistics.json' is a "
         "string, expected numbers"),
        (numeric("constant", ZSCORE),
         "columns.x.normalizer.zscore.statistics: all values of feature 'constant' in "
         "'statistics.json' are 3, so the model cannot learn from it. List it under `ignored`, or "
         "set the numbers."),
        ({"bucketized": "constant", "quantiles": 2, "statistics": "statistics.json"},
         "columns.x.statistics: all values of feature 'constant' in 'statistics.json' are 3, so "
         "the model cannot learn from it. List it under `ignored`, or set the numbers."),
        ({"bucketized": "age", "quantiles": 4},
         "columns.x.quantiles: `quantiles` needs `statistics`, which is missing"),
        ({"bucketized": "age", "statistics": "statistics.json"},
         "columns.x.statistics: `statistics` needs `quantiles`, which is missing"),
        ({"bucketized": "age", "quantiles": 1, "statistics": "statistics.json"},
         "columns.x.quantiles: got 1, expected a number of buckets, 2 to 100"),
        ({"bucketized": "age", "quantiles": 4, "statistics": "statistics.json",
          "boundaries": [1]},
         "columns.x: set either `boundaries`, or `quantiles` and `statistics`"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(folder, column, message):
    with pytest.raises(feature_specs.SpecError) as error:
        parse(folder, x=column)
    text = str(error.value).splitlines()[1]
    assert text == f"  <dict>: {message.format(folder)}"


def test_quantiles_of_a_normalized_column(folder):
    with pytest.raises(feature_specs.SpecError) as error:
        parse(
            folder,
            age_z=numeric("age", ZSCORE),
            b={"bucketized": "age_z", "quantiles": 2, "statistics": "statistics.json"},
        )
    assert error.value.problems[0].message == (
        "column 'age_z' has a normalizer, but quantiles describe the stored feature. Bucketize "
        "the feature 'age' instead (no column may have the same name), or set `boundaries`."
    )


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "{}: not JSON: EOF while parsing an object"),
        ("{}", "{}: rows is missing. Repair or remove it. Write it again with run.py "
               "--mode=analyze."),
        ('{"version": 2}', "{}: version: got 2, expected 1. Repair or remove it. Write it again"),
        ('{"version": 1, "rows": 1, "files": -1, "features": {}}',
         "{}: files: got -1, expected greater than or equal to 0. Repair or remove it. Write"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_statistics(tmp_path, text, message):
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(statistics.StatisticsError) as error:
        statistics.load(path)
    assert str(error.value).startswith(message.replace("{}", str(path)))


def test_a_file_is_read_as_it_was_written(folder):
    read = statistics.load(folder / "statistics.json")
    (folder / "again.json").write_text(read.as_text())
    assert statistics.load(folder / "again.json") == read


def test_statistics_of_another_filter_are_told(folder, caplog):
    """An older kit counted all records, so it wrote no filter."""
    given = document({"age_z": numeric("age", ZSCORE)})
    given["filter"] = [{"feature": "age", "min": 18}]
    with caplog.at_level(logging.WARNING, "feature_specs"):
        feature_specs.parse(given, directory=folder)
        text = (
            f"{folder}/statistics.json: its numbers describe rows of another `filter` than the "
            "spec has. Refresh it: --mode=analyze --spec"
        )
        assert caplog.messages == [text]
        kept = {**statistics_document(), "filter": given["filter"], "dropped": 4}
        (folder / "statistics.json").write_text(json.dumps(kept))
        feature_specs.parse(given, directory=folder)
        assert caplog.messages == [text]
        del given["filter"]
        feature_specs.parse(given, directory=folder)
    assert caplog.messages == [text, text]
    assert statistics.load(folder / "statistics.json").population == "5 of 9 records"
