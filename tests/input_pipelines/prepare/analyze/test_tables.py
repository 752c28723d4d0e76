"""Analyzing a table gives the same result as analyzing the same rows in TFRecords."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import feature_specs
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import first_spec, refresh
from input_pipelines.prepare.analyze.scan import scan
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.record_files import writing
from tests.conftest import ROOT

DATA = ROOT.parent / "shared" / "data"
ADULT = os.environ.get("ESTIMATOR_KIT_ADULT", str(DATA / "adult"))
BIKES = os.environ.get("ESTIMATOR_KIT_BIKES", str(DATA / "bike_sharing"))


def make_rows(count, seed, lists):
    rng = random.Random(seed)
    rows = []
    for i in range(count):
        row = {
            "click": int(rng.random() < 0.25),
            "city": rng.choice(["rome", "ö, \"x\"", "two\nlines", "", None]),
            "user": f"user {int(rng.paretovariate(0.7))}",
            "zip": f"{rng.randint(0, 300):05}",
            "price": None if i % 7 == 0 else rng.lognormvariate(3, 2),
            "age": None if i % 11 == 0 else rng.randint(18, 90),
            "big": rng.randint(-(2**63), 2**63 - 1),
            "half": i / 2,
        }  # fmt: skip
        if lists:
            row["words"] = rng.choice([None, [], ["a"], ["b", "ü", "a"]])
            row["history"] = [rng.randint(0, 99) for _ in range(i % 4)]
            row["vector"] = [rng.gauss(0, 1), rng.gauss(5, 1)]
            row["member"] = rng.random() < 0.5
        rows.append(row)
    return rows


def write(folder, kind, parts):
    """Writes the rows as files of this kind."""
    paths = []
    for i, rows in enumerate(parts):
        path = f"{folder}/{i}.{kind}"
        paths.append(path)
        if kind.startswith("tfrecord"):
            writing.write_examples(path, rows)
        elif kind == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        elif kind == "jsonl":
            with open(path, "w", encoding="utf-8") as file:
                for row in rows:
                    given = {k: v for k, v in row.items() if v is not None or i}
                    file.write(json.dumps(given, ensure_ascii=False) + "\n")
        else:
            with (gzip.open if kind.endswith("gz") else open)(path, "wt", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(rows[0])
                for row in (
                    rows
                ):  # Python's writer writes None and "" in the same way, so None is a marker.
                    writer.writerow(["NULL" if v is None else v for v in row.values()])
    return paths


def outputs(folder, paths, **options):
    report = first_spec.write(
        paths, labels=["click"], directory=str(folder), min_count=2, **options
    ).report
    files = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return files, report.replace(str(folder), "")


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_the_same_as_of_tfrecords(tmp_path, kind):
    parts = [make_rows(9000, 1, True), make_rows(700, 2, True)]
    expected, plain = outputs(tmp_path / "a", write(tmp_path, "tfrecord", parts))
    found, report = outputs(tmp_path / "b", write(tmp_path, kind, parts))
    assert found == expected
    assert {"spec.yaml", "statistics.json", "vocabularies/city.txt"} <= set(found)
    notes = [line for line in report.splitlines() if line.startswith("  note: ")]
    assert [note.split(":")[1] for note in notes] == [" price", " vector"]
    assert [line for line in report.splitlines() if line not in notes] == plain.splitlines()


@pytest.mark.parametrize("kind", ["csv", "csv.gz"])
def test_the_same_of_csv(tmp_path, kind):
    parts = [make_rows(9000, 1, False), make_rows(700, 2, False)]
    for row in (row for rows in parts for row in rows):
        row["city"] = row["city"] or None
    expected, _ = outputs(tmp_path / "a", write(tmp_path, "tfrecord", parts))
    paths = write(tmp_path, kind, parts)
    found, report = outputs(tmp_path / "b", paths, csv=CsvOptions(missing=("NULL",)))
    section = found["spec.yaml"].index("\n# how the CSV files are written; ")
    assert found["spec.yaml"][section:].endswith(
        '\ntables:\n  csv_skip_spaces: false\n  csv_missing: ["NULL"]\n  csv_list_separator: ""\n'
    )
    found["spec.yaml"] = found["spec.yaml"][:section]
    del found["manifest.json"], expected["manifest.json"]  # It has a checksum of the spec.
    assert found == expected
    assert "  note: zip: text, because 9,700 of 9,700 numbers begin with a zero" in report


@pytest.mark.nightly
def test_the_number_of_processes_makes_no_difference(tmp_path):
    files = []
    for i in range(3):
        files.append(f"{tmp_path}/{i}.parquet")
        pq.write_table(pa.Table.from_pylist(make_rows(300, i, True)), files[-1], row_group_size=100)
    one, two = (scan(files, workers=n, group_bytes=1, exact_limit=20) for n in (1, 2))
    assert one.statistics(3).as_text() == two.statistics(3).as_text()
    assert one.rounded == two.rounded and one.notes == two.notes
    assert set(one.rounded) == {("price", "digits"), ("vector", "digits")}


def test_a_column_without_a_value_is_told(tmp_path):
    path = f"{tmp_path}/a.parquet"
    pq.write_table(
        pa.table({"x": [1, 2] * 30, "click": [0, 1] * 30, "never": pa.nulls(60),
                  "nor": pa.array([[]] * 60, pa.list_(pa.int64()))}), path,
    )  # fmt: skip
    found, report = outputs(tmp_path / "a", [path])
    assert "left out: never: none of 60 records has a value of it" in report
    assert "left out: nor: none of 60 records has a value of it" in report
    assert json.loads(found["statistics.json"])["features"]["never"]["missing"] == 60


def test_a_refresh_reads_text_as_the_spec_says(tmp_path):
    (tmp_path / "1.csv").write_text(
        "click,zip,price\n" + "0,00123,1.5\n1,12345,2.5\n1,55555,3\n" * 9
    )
    (tmp_path / "2.csv").write_text("click,zip,price\n" + "1,12345,2\n0,77777,3\n" * 9)
    first_spec.write([f"{tmp_path}/1.csv"], labels=["click"], directory=f"{tmp_path}/a")
    report = refresh.refresh(f"{tmp_path}/a/spec.yaml", [f"{tmp_path}/2.csv"])
    assert "    added: 1: 77777" in report and "    dropped: 2: 00123, 55555" in report
    assert "type" not in report
    (tmp_path / "3.csv").write_text("click,zip,price\n1,12345,none\n")
    with pytest.raises(DataError) as error:
        refresh.refresh(f"{tmp_path}/a/spec.yaml", [f"{tmp_path}/3.csv"])
    assert str(error.value) == (
        f"{tmp_path}/3.csv: line 2: column 'price': got 'none', expected float32, as the spec "
        "says; correct the spec, or name the values that mean missing with --csv_missing"
    )
    refresh.refresh(
        f"{tmp_path}/a/spec.yaml", [f"{tmp_path}/2.csv", f"{tmp_path}/3.csv"],
        csv=CsvOptions(missing=("none",)),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_tables_without_rows(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"x": pa.array([], pa.int64())}), path)
    else:
        path.write_text("a,b\n" if kind == "csv" else "")
    with pytest.raises(DataError) as error:
        scan([str(path)])
    assert str(error.value) == f"{path} has no records to analyze"


def test_options_of_csv_with_tfrecords(tmp_path):
    (path,) = write(tmp_path, "tfrecord", [make_rows(3, 1, True)])
    with pytest.raises(DataError, match=r"are only for CSV files, but .*0\.tfrecord is TFRecord"):
        scan([path], csv=CsvOptions(missing=("?",)))


def test_the_first_spec_says_how_the_table_is_written(tmp_path):
    lines = "".join(f"{i % 2}, {i}, {'NA' if i % 5 == 0 else i % 3}\n" for i in range(60))
    (tmp_path / "a.csv").write_text("click, price, kind\n" + lines)
    first_spec.write(
        [f"{tmp_path}/a.csv"], labels=["click"], directory=f"{tmp_path}/analysis",
        csv=CsvOptions(missing=("NA",)),
    )  # fmt: skip
    spec = feature_specs.load(tmp_path / "analysis" / "spec.yaml")
    # The option for spaces was not set: the spaces were found.
    assert spec.tables.given == {
        "csv_skip_spaces": True, "csv_missing": ("NA",), "csv_list_separator": "",
    }  # fmt: skip


@pytest.mark.parametrize(("given", "names"), [(None, "ab,a b"), (False, " ab, a b")])
def test_the_first_spec_says_that_spaces_count(tmp_path, given, names):
    """Otherwise a file in which all values start with a space would be read otherwise."""
    one, other = names.split(",")
    lines = "".join(f"{i % 2},{one if i % 3 else other}\n" for i in range(60))
    (tmp_path / "a.csv").write_text("click,kind\n" + lines)
    first_spec.write(
        [f"{tmp_path}/a.csv"], labels=["click"], directory=f"{tmp_path}/analysis",
        csv=CsvOptions(skip_spaces=given),
    )  # fmt: skip
    spec = feature_specs.load(tmp_path / "analysis" / "spec.yaml")
    assert spec.tables.given == {
        "csv_skip_spaces": False, "csv_missing": (), "csv_list_separator": "",
    }  # fmt: skip
    words = (tmp_path / "analysis" / "vocabularies" / "kind.txt").read_text().splitlines()
    assert sorted(words) == sorted([one, other])


@pytest.mark.skipif(not os.path.isdir(ADULT), reason=f"no UCI Adult in {ADULT}")
def test_adult_as_it_is_and_as_its_example_prepares_it(tmp_path):
    from examples.adult import prepare

    with gzip.open(f"{ADULT}/adult.data.gz", "rb") as file:
        (tmp_path / "adult.csv").write_bytes(file.read())
    options = CsvOptions(columns=prepare.COLUMNS, skip_spaces=True, missing=("?",))
    found = scan([f"{tmp_path}/adult.csv"], csv=options).statistics(1)
    writing.write_examples(f"{tmp_path}/a", prepare.rows(f"{ADULT}/adult.data.gz"))
    assert found.rows == 32561
    assert found.as_text() == scan([f"{tmp_path}/a"]).statistics(1).as_text()


@pytest.mark.skipif(not os.path.isdir(BIKES), reason=f"no UCI Bike Sharing in {BIKES}")
def test_bike_sharing(tmp_path):
    found = scan([f"{BIKES}/hour.csv.gz"]).statistics(1)
    assert (found.rows, len(found.features)) == (17379, 17)
    types = {name: feature.dtype for name, feature in found.features.items()}
    assert {name for name, dtype in types.items() if dtype == "float32"} == {
        "temp", "atemp", "hum", "windspeed",
    }  # fmt: skip
    assert types["dteday"] == "string" and types["cnt"] == "int64"
    assert found.features["hr"].cardinality.value == 24
    with gzip.open(f"{BIKES}/hour.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    assert found.features["cnt"].numbers.mean == sum(int(row["cnt"]) for row in rows) / len(rows)


def test_two_integers_of_a_csv_file_are_classes(tmp_path):
    """In other files, integers cannot be read as words, and the label is a number."""
    lines = [f"{i % 7},{1 + (i % 4 == 0)}\n" for i in range(200)]
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(lines))
    first_spec.write([f"{tmp_path}/a.csv"], labels=["y"], directory=f"{tmp_path}/csv")
    spec = feature_specs.load(f"{tmp_path}/csv/spec.yaml")
    assert (spec.labels["y"].dtype, spec.labels["y"].vocabulary) == ("string", ("1", "2"))
    assert spec.objectives["y"].head == "binary"
    rows = [dict(zip("xy", map(int, line.split(",")))) for line in lines]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first_spec.write([f"{tmp_path}/a.jsonl"], labels=["y"], directory=f"{tmp_path}/json")
    spec = feature_specs.load(f"{tmp_path}/json/spec.yaml")
    assert (spec.labels["y"].dtype, spec.objectives["y"].head) == ("int64", "regression")
