"""spec_check: rates that were counted by hand, errors and warnings."""

from __future__ import annotations

import json

import pytest

import estimator_kit as ek
import feature_specs
from estimator_kit.main import main
from input_pipelines.errors import DataError
from input_pipelines.integrity import spec_check
from input_pipelines.reading import selection
from input_pipelines.record_files import writing

DOCUMENT = {
    "features": {
        "price": {"dtype": "float32", "default": 0.0},
        "city": {"dtype": "string", "default": ""},
        "user": {"dtype": "string"},
        "kind": {"dtype": "int64", "default": -1},
    },
    "columns": {
        "price": {"numeric": "price"},
        "city": {"vocabulary": "city", "list": ["rome", "oslo"]},
        "user": {"hash_bucket": "user", "size": 4},
        "kind": {"identity": "kind", "size": 3, "default_id": 0},
        "user_emb": {"embedding": "user", "dimension": 2},
        "city_emb": {"embedding": "city", "dimension": 2},
    },
    "groups": {"deep": ["price", "user_emb", "city_emb"], "wide": ["kind", "user"]},
    "labels": {"click": {"dtype": "int64"}, "spent": {"dtype": "float32"}},
    "objectives": {"click": {"head": "binary"}, "spent": {"head": "regression"}},
}

ROWS = [
    {"price": 1.0, "city": "rome", "user": "a", "kind": 1, "click": 0, "spent": 1.0},
    {"city": "oslo", "user": "b", "kind": 5, "click": 0, "spent": 2.0},
    {"city": "lima", "user": "c", "kind": 0, "click": 1, "spent": 0.0},
    {"user": "a", "kind": 2, "click": 0, "spent": 1.0},
]


@pytest.fixture
def spec():
    return feature_specs.parse(DOCUMENT)


def write(tmp_path, rows, name="rows.tfrecord"):
    path = str(tmp_path / name)
    writing.write_examples(path, rows)
    return path


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        (10, "label tag: " + ", ".join(f"{i} in 10.0%" for i in range(10))),
        # The labels 0 to 15, then 3 and 7 twice more: 20 in all.
        (
            16,
            "label tag: 16 of 12,000 classes, most often 3 in 15.0%, 7 in 15.0%, 0 in 5.0%, "
            "1 in 5.0%, 2 in 5.0%",
        ),
    ],
)
def test_many_classes_are_summed_up(tmp_path, seen, line):
    document = {
        **DOCUMENT, "labels": {"tag": {"dtype": "int64"}},
        "objectives": {"tag": {"head": "multi_class", "num_classes": 12000}},
    }  # fmt: skip
    labels = [*range(seen), *([3, 3, 7, 7] if seen > 10 else [])]
    rows = [{"user": "a", "kind": 1, "tag": tag} for tag in labels]
    report = spec_check.check(feature_specs.parse(document), [write(tmp_path, rows)], rows=100)
    assert f"  {line}" in report.lines


def test_rates_counted_by_hand(spec, tmp_path):
    report = spec_check.check(spec, [write(tmp_path, ROWS)], rows=100)
    assert report.errors == ()
    # 3 users in 4 buckets: 1 - (3/4)^2 = 43.75% expect to collide.
    assert report.lines == (
        "4 records, 4 of them fit the spec",
        "  feature price: missing in 75.0%, 1 different values",
        "  feature city: missing in 25.0%, 3 different values",
        "  feature user: missing in 0.0%, 3 different values",
        "  feature kind: missing in 0.0%, 4 different values",
        "  label click: 0 in 75.0%, 1 in 25.0%",
        "  label spent: mean 1",
        "  column city: 33.3% of the values outside its vocabulary",
        "  column user: 3 values in 4 buckets, 43.8% expected to collide",
        "  column kind: 25.0% of the values outside its size",
        "  weights of user: 4, 0.0 MiB for each logit",
        "  table user_emb: 4 x 2, 0.0 MiB",
        "  table city_emb: 2 x 2, 0.0 MiB",
    )
    assert report.warnings == (
        "feature 'price' is missing in 75.0% of the records",
        "column city: 33.3% of the values outside its vocabulary",
        "column user: 3 values in 4 buckets, 43.8% expected to collide; raise size",
        "column kind: 25.0% of the values outside its size",
    )


def test_a_vocabulary_file_and_a_label_of_one_value(tmp_path):
    (tmp_path / "cities.txt").write_text("lima\nrome\noslo\n")
    document = json.loads(json.dumps(DOCUMENT))
    document["columns"]["city"] = {"vocabulary": "city", "file": "cities.txt", "size": 2}
    spec = feature_specs.parse(document, directory=tmp_path)
    rows = [{**row, "click": 1} for row in ROWS]
    report = spec_check.check(spec, [write(tmp_path, rows)], rows=100)
    assert "  column city: 33.3% of the values outside its vocabulary" in report.lines
    assert "label 'click' has only one value, 1" in report.warnings


def test_values_that_the_model_treats_as_missing_count_as_missing(tmp_path):
    document = json.loads(json.dumps(DOCUMENT))
    document["features"]["code"] = {"dtype": "string", "default": ""}
    document["columns"]["code"] = {"vocabulary": "code", "list": ["-1", "1"]}
    document["features"]["tags"] = {"dtype": "string", "shape": "variable"}
    document["columns"]["tags"] = {"hash_bucket": "tags", "size": 10}
    document["groups"]["wide"] += ["code", "tags"]
    more = {"city": "", "user": "", "kind": -1, "code": "-1", "tags": [""]}
    rows = [ROWS[0], *({**ROWS[0], **more} for _ in range(3))]
    report = spec_check.check(feature_specs.parse(document), [write(tmp_path, rows)], rows=9)
    assert {
        "  feature city: missing in 75.0%, 1 different values",
        "  feature user: missing in 75.0%, 1 different values",
        "  feature kind: missing in 75.0%, 1 different values",
        # Text of a number, and a list.
        "  feature code: missing in 25.0%, 1 different values",
        "  feature tags: missing in 25.0%, 1 different values",
        "  column city: 0.0% of the values outside its vocabulary",
        "  column kind: 0.0% of the values outside its size",
        "  column code: 0.0% of the values outside its vocabulary",
    } <= set(report.lines)


def test_crosses_shared_tables_and_weights(tmp_path):
    document = json.loads(json.dumps(DOCUMENT))
    document["features"] |= {
        "town": {"dtype": "string", "default": "rome"},
        "importance": {"dtype": "float32", "default": 0.0},
        "tags": {"dtype": "string", "shape": "variable"},
        "shop": {"dtype": "string", "default": ""},
    }
    document["embedding_tables"] = {"places": {"dimension": 2}}
    document["columns"] |= {
        "town": {"vocabulary": "town", "list": ["rome", "oslo"]},
        "city_x_kind": {"crossed": ["city", "kind"], "size": 4},
        "town_x_shop": {"crossed": ["town", "shop"], "size": 100},
        "tags_x_shop": {"crossed": ["tags", "shop"], "size": 100},
        "city_emb": {"embedding": "city", "table": "places"},
        "town_emb": {"embedding": "town", "table": "places"},
    }
    document["groups"]["deep"].append("town_emb")
    document["groups"]["wide"] += ["city_x_kind", "town_x_shop", "tags_x_shop"]
    document["labels"]["click"]["weight"] = "importance"
    document["labels"]["spent"]["weight"] = "click"
    spec = feature_specs.parse(document)
    weights = [1.0, 0.0, None, 2.0]
    shops = ["a", None, "", "b"]
    rows = [
        {**row, "importance": weight, "shop": shop}
        for row, weight, shop in zip(ROWS, weights, shops)
    ]
    rows.append({**rows[0], "town": "rome"})  # The default: not a new combination.
    report = spec_check.check(spec, [write(tmp_path, rows)], rows=9)
    # city and kind are columns: a record without a city has no cross. This leaves 3 combinations in
    # 4 buckets: 1 - (3/4)^2. A shop is not a column, so rome with "", a and b are 3 combinations in
    # 100 buckets: 1 - (99/100)^2 = 1.99%.
    assert report.lines[8:] == (
        "  label click: 0 in 80.0%, 1 in 20.0%",
        "  label spent: mean 1",
        "  weight importance of label click: 0 in 40.0%, missing in 20.0%",
        "  weight click of label spent: 0 in 80.0%, missing in 0.0%",
        "  column city: 25.0% of the values outside its vocabulary",
        "  column user: 3 values in 4 buckets, 43.8% expected to collide",
        "  column kind: 20.0% of the values outside its size",
        "  column town: 0.0% of the values outside its vocabulary",
        "  column city_x_kind: 3 combinations in 4 buckets, 43.8% expected to collide",
        "  column town_x_shop: 3 combinations in 100 buckets, 2.0% expected to collide",
        "  column tags_x_shop: a cross of lists or buckets, which is not counted",
        "  weights of user: 4, 0.0 MiB for each logit",
        "  table user_emb: 4 x 2, 0.0 MiB",
        "  table places of city_emb, town_emb: 2 x 2, 0.0 MiB",
        "  weights of city_x_kind: 4, 0.0 MiB for each logit",
        "  weights of town_x_shop: 100, 0.0 MiB for each logit",
        "  weights of tags_x_shop: 100, 0.0 MiB for each logit",
    )
    rows = [{**row, "importance": 0.0} for row in ROWS]
    report = spec_check.check(spec, [write(tmp_path, rows)], rows=9)
    assert "weight 'importance' of label 'click' is 0 in all of the records" in report.warnings


def without_robots():
    document = json.loads(json.dumps(DOCUMENT))
    document["features"]["robot"] = {"dtype": "int64"}
    document["filter"] = [{"feature": "robot", "not_in": [1]}]
    return feature_specs.parse(document)


def test_records_that_the_filter_drops_are_not_checked(tmp_path):
    spec = without_robots()
    good = [{**row, "robot": 0} for row in ROWS]
    path = write(tmp_path, [{"robot": 1}, *good, {"robot": 1}])
    report = spec_check.check(spec, [path], rows=9)
    assert report.errors == ()
    assert report.lines[:2] == (
        "4 records, 4 of them fit the spec", "  2 more records dropped by the filter"
    )  # fmt: skip
    # Without the feature that decides, a record is not dropped.
    path = write(tmp_path, [{"robot": 1}, ROWS[0], good[1]], "late.tfrecord")
    (error,) = spec_check.check(spec, [path], rows=9).errors
    assert error.startswith(f"{path}: record 1: feature 'robot' is missing")
    path = write(tmp_path, [{"robot": 1}] * 2, "robots.tfrecord")
    report = spec_check.check(spec, [path], rows=9)
    assert report.errors == ()
    assert report.warnings == (
        "the filter of the spec drops all 2 records that were read, so no record was checked. "
        "Check `filter`, or read more rows",
    )


def test_bad_records_cost_few_readings_of_the_filter(tmp_path, monkeypatch):
    path = write(tmp_path, [ROWS[0]] + [{**ROWS[1], "robot": 0}] * 1000)
    mask, sizes = selection.mask, []

    def counted(block, conditions):
        sizes.append(len(block))
        return mask(block, conditions)

    monkeypatch.setattr(selection, "mask", counted)
    report = spec_check.check(without_robots(), [path], rows=100)
    assert len(report.errors) == 1 and report.lines[0] == "100 records, 99 of them fit the spec"
    # Halved to 50, 25, 12, 6, 3, 1. Training's check reads the block, the bad record and the rest.
    assert max(sizes) == 100 and len(sizes) == 2 * 6 + 1 + 3


def test_a_label_that_is_missing_weighs_nothing(tmp_path):
    document = json.loads(json.dumps(DOCUMENT))
    document["labels"]["click"]["missing"] = "mask"
    document["labels"]["spent"]["weight"] = "click"
    rows = [{**row, "click": click} for row, click in zip(ROWS, [1, None, 0, None])]
    report = spec_check.check(feature_specs.parse(document), [write(tmp_path, rows)], rows=9)
    assert "  weight click of label spent: 0 in 75.0%, missing in 50.0%" in report.lines


def test_rows_are_spread_over_the_files(spec, tmp_path):
    files = [write(tmp_path, ROWS * 10, f"{i}.tfrecord") for i in range(3)]
    assert spec_check.check(spec, files, rows=6).lines[0] == "6 records, 6 of them fit the spec"


def test_records_that_do_not_fit_are_errors_with_their_places(spec, tmp_path):
    rows = [*ROWS, *({**ROWS[0], "price": "dear"} for _ in range(5)), {"city": "rome"}]
    path = write(tmp_path, rows)
    report = spec_check.check(spec, [path], rows=100)
    assert report.lines[0] == "10 records, 4 of them fit the spec"
    assert report.errors == (
        f"{path}: record 4, {path}: record 5, {path}: record 6 and 2 more: feature 'price' is "
        "string, expected float32",
        f"{path}: record 9: feature 'user' is missing, and it has no default in the spec; give it "
        "one if records may lack it",
    )


def test_files_without_records_or_that_are_corrupt(spec, tmp_path):
    empty = write(tmp_path, [], "empty.tfrecord.gz")
    with pytest.raises(DataError, match=r"has no records$"):
        spec_check.check(spec, [empty], rows=5)
    broken = tmp_path / "broken.tfrecord"
    broken.write_bytes(b"no TFRecord at all, by any reading")
    with pytest.raises(DataError, match="record 0 at byte 0: the checksum of its length"):
        spec_check.check(spec, [str(broken)], rows=5)


def test_as_a_mode_of_the_program(tmp_path, capsys):
    (tmp_path / "spec.yaml").write_text(json.dumps(DOCUMENT))
    arguments = ["run.py", "--mode=validate", f"--spec={tmp_path}/spec.yaml"]
    good = [f"--train_files={write(tmp_path, ROWS)}", "--validate_rows=10"]
    assert main([*arguments, *good]) == 0
    printed = capsys.readouterr().out
    assert "  model: not checked. Name it with --model.\n" in printed
    assert "4 records, 4 of them fit the spec" in printed
    assert "warning: feature 'price' is missing in 75.0% of the records" in printed
    bad = [f"--train_files={write(tmp_path, [{'city': 'rome'}], 'bad.tfrecord')}"]
    assert main([*arguments, *bad, "--validate_rows=10"]) == 2
    # The error comes first.
    assert [line.partition(", and it has")[0] for line in capsys.readouterr().err.splitlines()] == [
        "error: the data do not fit the spec",
        f"{tmp_path}/bad.tfrecord: record 0: feature 'user' is missing",
        "1 records, 0 of them fit the spec",
    ]
    assert main([*arguments, "--validate_rows=10"]) == 2
    assert "--train_files is missing. --validate_rows and " in capsys.readouterr().err


def test_in_your_own_program(tmp_path):
    (tmp_path / "spec.yaml").write_text(json.dumps(DOCUMENT))
    config = ek.ExperimentConfig(
        mode="validate", spec=f"{tmp_path}/spec.yaml", validate_rows=10,
        train_files=(write(tmp_path, [{"city": "rome"}]),),
    )  # fmt: skip
    with pytest.raises(ek.ConfigError, match="record 0: feature 'user' is missing"):
        ek.run(config)
    assert ek.run(config.model_copy(update={"validate_rows": 0})).mode == "validate"


def test_a_growing_column_has_all_its_rows_from_the_start(tmp_path):
    columns = {
        "grown": {"growing": "user", "rows": 2**20 - 1000},
        "user_emb": {"embedding": "grown", "dimension": 16},
    }
    document = {**DOCUMENT, "columns": columns, "groups": {"deep": ["user_emb"], "wide": ["grown"]},
                "ignored": ["price", "kind", "city"]}  # fmt: skip
    spec = feature_specs.parse(document)
    report = spec_check.check(spec, [write(tmp_path, ROWS)], rows=100)
    tables = [line for line in report.lines if "table" in line or "weights" in line]
    # 2^20 rows of 16 floats are 64 MiB. The default has 1,000 buckets.
    assert tables == [
        "  weights of grown: 1,048,576, 4.0 MiB for each logit",
        "  table user_emb: 1,048,576 x 16, 64.0 MiB",
    ]
