"""drift: compares records with earlier records by the thresholds of a spec; tables by hand."""

from __future__ import annotations

import copy
import json
import math
import random

import pytest

import estimator_kit as ek
import feature_specs
from estimator_kit.main import main
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import drift
from input_pipelines.prepare.analyze.scan import scan
from input_pipelines.record_files import writing

DOCUMENT = {
    "features": {
        "price": {"dtype": "float32", "default": 0.0},
        "age": {"dtype": "int64", "default": -1},
        "city": {"dtype": "string", "default": ""},
        "item": {"dtype": "int64", "default": -1},
        "tags": {"dtype": "string", "shape": "variable"},
        "note": {"dtype": "string", "default": ""},
    },
    "columns": {
        "price": {"numeric": "price"},
        "age": {"numeric": "age"},
        "city": {"vocabulary": "city", "list": ["rome", "oslo"], "oov_buckets": 1},
        "item": {"hash_bucket": "item", "size": 10},
        "tag": {"hash_bucket": "tags", "size": 10},
    },
    "groups": {"wide": ["price", "age", "city", "item", "tag"]},
    "labels": {"click": {"dtype": "int64"}, "spent": {"dtype": "float32"}},
    "objectives": {"click": {"head": "binary"}, "spent": {"head": "regression"}},
    "ignored": ["note"],
    "drift": {
        "default": {
            "l_infinity": {"warn": 0.1, "stop": 0.3},
            "jensen_shannon": {"warn": 0.1, "stop": 0.4},
            "missing": {"warn": 0.1},
        },
        "features": {"item": {"l_infinity": {}, "missing": {"stop": 0.2}}},
        "labels": {"click": {"l_infinity": {"stop": 0.2}}},
    },
}

BEFORE = [
    {"price": 1.0, "age": 20, "city": "rome", "item": 1, "tags": ["a"], "click": 0, "spent": 1.0},
    {"price": 3.0, "age": 30, "city": "rome", "item": 2, "tags": [], "click": 0, "spent": 1.0},
    {"price": 1.0, "age": 20, "city": "oslo", "item": 3, "tags": ["b"], "click": 0, "spent": 1.0},
    {"price": 3.0, "age": 30, "city": "oslo", "item": 4, "tags": ["a", "b"], "click": 1,
     "spent": 1.0},
]  # fmt: skip

# price: always 1. city: one oslo less, lima is new. item: new items. click: twice as often.
NOW = [
    {"price": 1.0, "age": 30, "city": "rome", "item": 7, "tags": ["a"], "click": 0, "spent": 1.0},
    {"price": 1.0, "age": 20, "city": "lima", "item": 8, "tags": ["b"], "click": 0, "spent": 1.0},
    {"price": 1.0, "age": 30, "city": "oslo", "item": 9, "tags": ["b", "a"], "click": 1,
     "spent": 1.0},
    {"age": 20, "city": "rome", "item": 7, "tags": [], "click": 1, "spent": 1.0},
]  # fmt: skip

# price: P = (1/2, 1/2), Q = (1, 0), the example of distances.jensen_shannon; missing in 1 of 4.
TABLE = (
    "drift of 4 records against 4 records of the baseline",
    "  what           measure         distance  warn  stop  verdict",
    "  label click    l_infinity        0.2500     -   0.2  stop",
    "  feature price  jensen_shannon    0.3113   0.1   0.4  warn",
    "  feature price  missing           0.2500   0.1     -  warn",
    "  feature city   l_infinity        0.2500   0.1   0.3  warn",
    "  feature age    jensen_shannon    0.0000   0.1   0.4  ok",
    "  feature age    missing           0.0000   0.1     -  ok",
    "  feature city   missing           0.0000   0.1     -  ok",
    "  feature item   missing           0.0000     -   0.2  ok",
    "  feature tags   l_infinity        0.0000   0.1   0.3  ok",
    "  feature tags   missing           0.0000   0.1     -  ok",
    "  label click    missing           0.0000   0.1     -  ok",
    "  label spent    jensen_shannon    0.0000   0.1   0.4  ok",
    "  label spent    missing           0.0000   0.1     -  ok",
    "  feature item   l_infinity        0.5000     -     -  -",
)
WARNINGS = (
    "drift of feature 'price': jensen_shannon 0.3113 is over warn: 0.1; over 1 50.00% -> "
    "0.00%; up to 1 50.00% -> 100.00%",
    "drift of feature 'price': missing 0.2500 is over warn: 0.1; missing 0.00% -> 25.00%",
    "drift of feature 'city': l_infinity 0.2500 is over warn: 0.1; 'lima' 0.00% -> 25.00%; "
    "'oslo' 50.00% -> 25.00%",
)
ERRORS = (
    "drift of label 'click': l_infinity 0.2500 is over stop: 0.2; '0' 75.00% -> 50.00%; '1' 25.00% "
    "-> 50.00%",
)


def statistics_of(folder, rows, name="rows"):
    path = str(folder / f"{name}.tfrecord")
    writing.write_examples(path, rows)
    return scan([path]).statistics(1)


def compare(folder, before, now, **changes):
    spec = feature_specs.parse({**copy.deepcopy(DOCUMENT), **changes})
    return drift.compare(spec, statistics_of(folder, before, "a"), statistics_of(folder, now, "b"))


def verdicts(report):
    return {(f.name, f.measure): f.verdict for f in report.findings}


def test_the_table_worked_out_by_hand(tmp_path):
    report = compare(tmp_path, BEFORE, NOW)
    assert report.lines == TABLE
    assert report.warnings == WARNINGS
    assert report.errors == ERRORS


def test_what_the_filter_keeps_is_compared(tmp_path):
    """The rate goes from .50 to .72 in 100 rows that count, and from .125 to .18 in all 400."""
    robots = [{"note": "robot", "click": 0}] * 300
    files = []
    for clicks in (50, 72):
        rows = [{"click": 1}] * clicks + [{"click": 0}] * (100 - clicks) + robots
        files.append(str(tmp_path / f"{clicks}.tfrecord"))
        writing.write_examples(files[-1], [{"spent": 1.0, **row} for row in rows])
    conditions = [{"feature": "note", "not_in": ["robot"]}]
    changes = {"filter": conditions, "ignored": []}
    spec = feature_specs.parse({**copy.deepcopy(DOCUMENT), **changes})
    before, now = (scan([path], conditions=spec.conditions).statistics(1) for path in files)
    report = drift.compare(spec, before, now)
    assert (
        report.lines[0] == "drift of 100 of 400 records against 100 of 400 records of the baseline"
    )
    (click,) = (f for f in report.findings if (f.name, f.measure) == ("click", "l_infinity"))
    assert click.distance.value == pytest.approx(0.22) and click.verdict == "stop"
    assert report.filters == ()
    report = drift.compare(spec, scan(files[:1]).statistics(1), now)
    assert report.warnings[0] == (
        "the baseline and the records do not count by the same filter, so a difference may come "
        "from the filter. Analyze the baseline again with --mode=analyze --spec"
    )


def test_two_halves_of_one_distribution_are_near(tmp_path):
    rng = random.Random(1)
    rows = [
        {
            "price": rng.lognormvariate(2, 1), "age": rng.randint(18, 80),
            "city": rng.choice(["rome", "oslo", "lima"]), "item": rng.randint(0, 20),
            "tags": rng.sample("abcdef", rng.randint(0, 3)), "click": int(rng.random() < 0.2),
            "spent": rng.gauss(5, 2),
        }
        for _ in range(4000)
    ]  # fmt: skip
    near = {"warn": 0.01}
    # With 2,000 rows in each half, jensen_shannon is about 9 / (4 * 2000 * ln 2) = 0.0016. Shares
    # of 1/4 or 1/3 differ between the halves with a standard deviation of 0.014 or 0.015
    # (sqrt(2 p (1 - p) / 2000)).
    far = {"warn": 0.05}
    thresholds = {"l_infinity": far, "jensen_shannon": near, "missing": far}
    report = compare(tmp_path, rows[::2], rows[1::2], drift={"default": thresholds})
    assert (report.warnings, report.errors) == ((), ())
    # The same, but prices are 50% higher.
    shifted = [{**row, "price": 1.5 * row["price"]} for row in rows[1::2]]
    report = compare(tmp_path, rows[::2], shifted, drift={"default": thresholds})
    assert [v for v in verdicts(report).items() if v[1] != "ok"] == [
        (("price", "jensen_shannon"), "warn")
    ]


def test_a_feature_that_went_missing(tmp_path):
    now = [{k: v for k, v in row.items() if k not in ("city", "tags")} for row in BEFORE]
    report = compare(tmp_path, BEFORE, now)
    assert report.errors == (
        "drift of feature 'city': l_infinity 1.0000 is over stop: 0.3; one of the two has no value",
        "drift of feature 'tags': l_infinity 1.0000 is over stop: 0.3; one of the two has no value",
    )
    assert report.warnings == (
        "drift of feature 'city': missing 1.0000 is over warn: 0.1; missing 0.00% -> 100.00%",
        "drift of feature 'tags': missing 0.7500 is over warn: 0.1; missing 25.00% -> 100.00%",
    )
    assert verdicts(compare(tmp_path, now, now))["city", "l_infinity"] == "ok"


def test_strings_of_integers_and_integers_as_ids_are_categories(tmp_path):
    # Every new id is close to an old one as a number, but as an id it is different.
    now = [{**row, "item": row["item"] + 1} for row in BEFORE]
    thresholds = {"features": {"item": {"l_infinity": {"stop": 0.2}}}}
    report = compare(tmp_path, BEFORE, now, drift=thresholds)
    assert report.errors == (
        "drift of feature 'item': l_infinity 0.2500 is over stop: 0.2; '1' 25.00% -> 0.00%; '5' "
        "0.00% -> 25.00%",
    )
    both = {"features": {"item": {"jensen_shannon": {"stop": 0.9}}}}
    found = verdicts(compare(tmp_path, BEFORE, now, drift=both))
    assert (found["item", "l_infinity"], found["item", "jensen_shannon"]) == ("-", "ok")


def test_crossed_integers_are_ids_and_weights_are_numbers(tmp_path):
    columns = {
        "city": DOCUMENT["columns"]["city"],
        "crossed": {"crossed": ["city", "item"], "size": 10},
        "price": {"numeric": "price"}, "age_cut": {"bucketized": "age", "boundaries": [25]},
        "tag": DOCUMENT["columns"]["tag"],
    }  # fmt: skip
    groups = {"wide": ["crossed", "price", "age_cut", "tag"]}
    report = compare(tmp_path, BEFORE, NOW, columns=columns, groups=groups, drift={})
    found = {(f.name, f.measure) for f in report.findings}
    assert ("item", "l_infinity") in found and ("age", "jensen_shannon") in found


def test_a_feature_of_another_type_is_an_error_whatever_the_thresholds(tmp_path):
    now = [{**row, "age": str(row["age"])} for row in BEFORE]
    report = compare(tmp_path, BEFORE, now, drift={})
    assert report.errors == (
        "drift of feature 'age': it is string in the records but int64 in the spec, so it cannot "
        "be compared",
    )
    assert "age" not in {finding.name for finding in report.findings}


def lists_of(folder, name, rows, kind):
    path = str(folder / f"{name}.tfrecord")
    if kind == "Example":
        writing.write_examples(path, rows)
    else:
        ek.write_sequence_examples(
            path,
            [({k: v for k, v in row.items() if k != "tags"}, {"tags": row["tags"]})
             for row in rows],
        )  # fmt: skip
    return scan([path]).statistics(1)


@pytest.mark.parametrize("kind", ["Example", "SequenceExample"])
@pytest.mark.parametrize("ignored", [False, True])
def test_records_of_the_other_kind_are_errors_whatever_the_thresholds(tmp_path, kind, ignored):
    document = copy.deepcopy({**DOCUMENT, "drift": {}})
    sequences = kind == "Example"  # The spec describes the other kind of records.
    if sequences:
        document["features"]["tags"] = {"dtype": "string", "feature_list": True}
    if ignored:
        document["ignored"].append("tags")
        del document["columns"]["tag"]
        document["groups"]["wide"].remove("tag")
    spec = feature_specs.parse(document)
    right = lists_of(tmp_path, "a", BEFORE, "SequenceExample" if sequences else "Example")
    wrong = lists_of(tmp_path, "b", BEFORE, kind)
    assert drift.compare(spec, right, right).errors == ()
    if ignored:
        these = {
            "SequenceExample": "tf.train.SequenceExamples, with the feature lists tags, but the "
            "spec describes tf.train.Examples",
            "Example": "tf.train.Examples, with tags among their features, but the spec describes "
            "tf.train.SequenceExamples",
        }[kind]
        errors = [
            f"the {what}: these are {these}, so they cannot be compared"
            for what in ("baseline", "records")
        ]
    else:
        found, said = ("not ", "") if sequences else ("", "not ")
        errors = [
            f"drift of feature 'tags': it is {found}a feature list in the {what}, but {said}in the "
            "spec, so it cannot be compared"
            for what in ("baseline", "records")
        ]
        report = drift.compare(spec, right, wrong)
        assert "tags" not in {finding.name for finding in report.findings}
    assert drift.compare(spec, wrong, right).errors == (errors[0],)
    assert drift.compare(spec, right, wrong).errors == (errors[1],)
    assert drift.compare(spec, wrong, wrong).errors == tuple(errors)


def test_a_name_with_nothing_sets_no_threshold_at_all(tmp_path):
    section = copy.deepcopy(DOCUMENT["drift"])
    section["features"] = {"city": {}, "price": {"missing": {"stop": 0.3}}}
    section["labels"] = {"click": {}}
    report = compare(tmp_path, BEFORE, NOW, drift=section)
    found = verdicts(report)
    assert found["city", "l_infinity"] == found["city", "missing"] == "-"
    assert found["click", "l_infinity"] == found["click", "missing"] == "-"
    # A feature's own measure replaces the default for this measure, but not for other measures.
    assert (found["price", "missing"], found["price", "jensen_shannon"]) == ("ok", "warn")
    spec = feature_specs.parse({**DOCUMENT, "drift": section})
    assert feature_specs.parse(spec.to_dict()) == spec


def test_values_that_the_model_treats_as_missing_are_missing(tmp_path):
    def written_out(row):
        return {"city": "", "item": -1, **row}

    before = [{k: v for k, v in row.items() if k not in ("city", "item")} for row in BEFORE[:2]]
    before += BEFORE[2:]
    drifts = {
        (f.name, f.measure): f.distance.value
        for f in compare(tmp_path, before, list(map(written_out, before)), drift={}).findings
    }
    assert drifts["city", "missing"] == drifts["city", "l_infinity"] == 0.0
    assert drifts["item", "missing"] == drifts["item", "l_infinity"] == 0.0
    # With only such values, the feature is missing in all records, and in 0 of 4 before.
    now = [{**row, "city": "", "item": -1} for row in BEFORE]
    drifts = {
        (f.name, f.measure): (f.distance.value, f.distance.moved)
        for f in compare(tmp_path, BEFORE, now, drift={}).findings
    }
    for name in ("city", "item"):
        assert drifts[name, "missing"] == (1.0, ("missing 0.00% -> 100.00%",))
        assert drifts[name, "l_infinity"] == (1.0, ())


def test_values_that_the_model_treats_as_values_are_values(tmp_path):
    # Numbers, lists, and features that only a cross reads: it also crosses the empty string.
    columns = {**DOCUMENT["columns"], "crossed": {"crossed": ["city", "item"], "size": 10}}
    del columns["city"], columns["item"]
    groups = {"wide": ["price", "age", "crossed", "tag"]}
    now = [{**row, "age": -1, "city": "", "item": -1, "tags": [""]} for row in BEFORE]
    report = compare(tmp_path, BEFORE, now, columns=columns, groups=groups, drift={})
    found = {(f.name, f.measure): f.distance.moved for f in report.findings}
    for name in ("age", "city", "item"):
        assert found[name, "missing"] == ("missing 0.00% -> 0.00%",)
    assert found["tags", "missing"] == ("missing 25.00% -> 0.00%",)
    assert found["city", "l_infinity"][0] == "'' 0.00% -> 100.00%"


def test_words_are_shown_as_they_are_written(tmp_path):
    now = [{**row, "city": "Z\u00fcrich\n"} for row in BEFORE]
    (finding,) = (f for f in compare(tmp_path, BEFORE, now).findings
                  if (f.name, f.measure) == ("city", "l_infinity"))  # fmt: skip
    assert finding.distance.moved[0] == "'Z\u00fcrich\\n' 0.00% -> 100.00%"


def test_an_ignored_feature_is_measured_only_where_it_has_a_threshold(tmp_path):
    now = [{**row, "note": "x"} for row in BEFORE]
    assert "note" not in {f.name for f in compare(tmp_path, BEFORE, now).findings}
    report = compare(tmp_path, BEFORE, now, drift={"features": {"note": {"missing": {"warn": 0}}}})
    assert report.warnings == (
        "drift of feature 'note': missing 1.0000 is over warn: 0; missing 100.00% -> 0.00%",
    )


def test_statistics_without_records_are_refused(tmp_path):
    spec = feature_specs.parse(DOCUMENT)
    found = statistics_of(tmp_path, BEFORE)
    empty = found.model_copy(update={"rows": 0, "features": {}})
    with pytest.raises(DataError, match="the statistics of the baseline have 0 records"):
        drift.compare(spec, empty, found)


# --- As a user runs it ---------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "spec.yaml").write_text(json.dumps(DOCUMENT))
    for name, rows in (("before", BEFORE), ("now", NOW), ("same", BEFORE)):
        writing.write_examples(f"{tmp_path}/{name}.tfrecord", rows)
    return tmp_path


def validate(folder, *arguments):
    return main(["run.py", "--mode=validate", f"--spec={folder}/spec.yaml", *arguments])


def test_files_against_files(folder, capsys):
    baseline = f"--baseline={folder}/before.tfrecord"
    assert validate(folder, f"--train_files={folder}/now.tfrecord", baseline) == 2
    captured = capsys.readouterr()
    assert "the spec and the flags, before the data\n" in captured.out
    assert captured.err == "\n".join([
        "error: the data drifted further than the spec allows", *ERRORS, *TABLE,
        *(f"warning: {warning}" for warning in WARNINGS), "",
    ])  # fmt: skip
    assert validate(folder, f"--train_files={folder}/same.tfrecord", baseline) == 0
    assert "  feature price  jensen_shannon    0.0000   0.1   0.4  ok" in capsys.readouterr().out


def test_files_against_statistics_that_were_kept(folder, capsys):
    # The statistics file of another analysis.
    assert main([
        "run.py", "--mode=analyze", f"--train_files={folder}/before.tfrecord", "--labels=click",
        f"--analysis_dir={folder}/first",
    ]) == 0  # fmt: skip
    baseline = f"--baseline={folder}/first/statistics.json"
    assert validate(folder, f"--train_files={folder}/now.tfrecord", baseline) == 2
    assert "\n".join(TABLE) in capsys.readouterr().err


def test_tables_against_tables(folder, capsys):
    names = ["price", "age", "city", "item", "click", "spent"]
    for name, rows in (("before", BEFORE), ("now", NOW)):
        lines = [";".join(str(row.get(n, "?")) for n in names) for row in rows]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = [f"--csv_columns={','.join(names)}", "--csv_delimiter=;", "--csv_missing=?"]
    table = tuple(line for line in TABLE if " tags " not in line)
    for now, before, csv in (
        ("now.csv", "before.csv", options),
        ("now.csv", "before.jsonl", options),
        ("now.jsonl", "before.csv", options),
        ("now.jsonl", "before.jsonl", []),
    ):
        files = [f"--train_files={folder}/{now}", f"--baseline={folder}/{before}"]
        assert validate(folder, *files, *csv) == 2
        printed = capsys.readouterr().err
        assert ERRORS[0] in printed and WARNINGS[0] in printed
        assert set(table) <= set(printed.splitlines())
    # Columns have the types in the spec: 4 cities of digits are text, and all prices are floats.
    (folder / "digits.csv").write_text("price,city\n" + "1,10\n3,20\n" * 4)
    files = [f"--{flag}={folder}/digits.csv" for flag in ("train_files", "baseline")]
    assert validate(folder, *files) == 0
    assert "  feature city   l_infinity        0.0000   0.1   0.3  ok" in capsys.readouterr().out
    files = [f"--train_files={folder}/now.jsonl", f"--baseline={folder}/before.jsonl"]
    assert validate(folder, *files, *options) == 65
    assert "are only for CSV files" in capsys.readouterr().err


def test_the_heading_says_what_is_wrong(folder, capsys):
    other = [{**row, "age": str(row["age"])} for row in BEFORE]
    writing.write_examples(f"{folder}/other.tfrecord", other)
    writing.write_examples(
        f"{folder}/both.tfrecord", [{**row, "click": 1 - row["click"]} for row in other]
    )
    baseline = f"--baseline={folder}/before.tfrecord"
    wrong = "drift of feature 'age': it is string in the records but int64 in the spec"
    for name, heading in (
        ("other", "error: some data do not fit the spec"),
        ("both", "error: some data do not fit the spec, and other data drifted further than "
         "it allows"),
    ):  # fmt: skip
        assert validate(folder, f"--train_files={folder}/{name}.tfrecord", baseline) == 2
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == heading and lines[1].startswith(wrong)


def test_in_your_own_program(folder):
    config = ek.ExperimentConfig(
        mode="validate", spec=f"{folder}/spec.yaml", train_files=(f"{folder}/now.tfrecord",),
        baseline=(f"{folder}/before.tfrecord",),
    )  # fmt: skip
    with pytest.raises(ek.ConfigError, match="the data drifted further than the spec allows"):
        ek.run(config)
    same = config.model_copy(update={"train_files": (f"{folder}/same.tfrecord",)})
    assert ek.run(same).mode == "validate"


@pytest.mark.parametrize(
    "arguments, status, message",
    [
        (["--baseline={0}/before.tfrecord"], 2,
         "error: --train_files is missing. --validate_rows and --baseline look at its rows."),
        (["--baseline={0}/gone*", "--train_files={0}/now.tfrecord"], 65,
         "error: no file matches '{0}/gone*' of --baseline"),
        (["--baseline={0}/gone_statistics.json", "--train_files={0}/now.tfrecord"], 2,
         "error: --baseline: the file '{0}/gone_statistics.json' does not exist. Write it with "
         "run.py --mode=analyze, without --spec, into a new folder, and copy it."),
        (["--baseline={0}/old_statistics.json", "--train_files={0}/now.tfrecord"], 2,
         "error: --baseline: {0}/old_statistics.json: rows is missing. Repair or remove it. Write "
         "it again with run.py --mode=analyze."),
        (["--baseline=statistics.json,b", "--train_files=c"], 2,
         "error: --baseline: expected files with records or one statistics.json, got both. Give "
         "one of them."),
        (["--baseline=b,", "--train_files=c"], 2,
         "error: --baseline: got an empty name. Remove it."),
    ],
)  # fmt: skip
def test_mistakes(folder, capsys, arguments, status, message):
    (folder / "old_statistics.json").write_text("{}")
    assert validate(folder, *(argument.format(folder) for argument in arguments)) == status
    assert capsys.readouterr().err == message.format(folder) + "\n"


def test_thresholds_without_a_baseline_are_reported(folder, capsys):
    assert validate(folder) == 0
    assert (
        "  drift: only its thresholds were checked; --baseline says what to compare records with"
    ) in capsys.readouterr().out


# --- The section of the spec ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "section, message",
    [
        (0.1, "drift: got 0.1, expected a mapping of default, features, labels"),
        ({"defualt": {}}, "drift.defualt: unknown key. Did you mean 'default'?"),
        ({"features": ["city"]}, "drift.features: got ['city'], expected names with thresholds"),
        ({"features": {"city": 0.1}},
         "drift.features.city: got 0.1, expected a mapping of l_infinity, jensen_shannon, missing"),
        ({"default": {"l_infinty": {}}},
         "drift.default.l_infinty: unknown key. Did you mean 'l_infinity'?"),
        ({"default": {"missing": {"warn": -0.1}}},
         "drift.default.missing.warn: got -0.1, expected greater than or equal to 0"),
        ({"default": {"missing": {"stop": 1.5}}},
         "drift.default.missing.stop: got 1.5, expected less than or equal to 1"),
        ({"default": {"missing": {"stop": math.nan}}},
         "drift.default.missing.stop: got nan, expected a finite number"),
        ({"default": {"missing": {"warn": 0.2, "stop": 0.1}}},
         "drift.default.missing: warn must not be greater than stop, got warn 0.2 and stop 0.1"),
        ({"features": {"citi": {}}},
         "drift.features.citi: got 'citi', expected the name of a feature. Did you mean 'city'?"),
        ({"labels": {"clik": {}}},
         "drift.labels.clik: got 'clik', expected the name of a label. Did you mean 'click'?"),
        ({"features": {"click": {}}},
         "drift.features.click: 'click' is not a feature. Move it to drift.labels."),
        ({"labels": {"city": {}}},
         "drift.labels.city: 'city' is not a label. Move it to drift.features."),
        ({"features": {"price": {"l_infinity": {}}}},
         "drift.features.price.l_infinity: 'price' is float32, but l_infinity is for categories. "
         "Use jensen_shannon."),
        ({"labels": {"spent": {"l_infinity": {}}}},
         "drift.labels.spent.l_infinity: 'spent' is float32, but l_infinity is for categories. "
         "Use jensen_shannon."),
        ({"features": {"city": {"jensen_shannon": {}}}},
         "drift.features.city.jensen_shannon: 'city' is a string, but jensen_shannon is for "
         "numbers. Use l_infinity."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_section(section, message):
    with pytest.raises(feature_specs.SpecError) as error:
        feature_specs.parse({**DOCUMENT, "drift": section})
    assert [problem.text("spec") for problem in error.value.problems] == [f"spec: {message}"]


def test_the_section_is_kept_and_changes_no_model(tmp_path):
    from estimator_kit.checkpoints import run_record
    from feature_specs.files import documents

    spec = feature_specs.parse(DOCUMENT)
    assert spec.to_dict()["drift"] == DOCUMENT["drift"] | {"features": {
        "item": {"l_infinity": {}, "missing": {"stop": 0.2}}}}  # fmt: skip
    assert feature_specs.parse(spec.to_dict()) == spec
    plain = feature_specs.parse({k: v for k, v in DOCUMENT.items() if k != "drift"})
    assert "drift" not in plain.to_dict()
    documents.write_json(str(tmp_path / "spec.json"), plain.to_dict())
    assert run_record.changes_since(str(tmp_path), spec) == []


def test_of_bytes_that_are_decoded_only_missing_ones_are_measured(tmp_path):
    document = copy.deepcopy(DOCUMENT)
    sound = {"raw": {"dtype": "int8", "shape": [2]}}
    document["features"]["sound"] = {"dtype": "string", "default": "zeros", "decode": sound}
    document["columns"]["sound"] = {"numeric": "sound"}
    document["groups"]["deep"] = ["sound"]
    before = [{**row, "sound": bytes([1, i])} for i, row in enumerate(BEFORE)]
    now = [{**row, "sound": bytes([9, 0xFF]) if i else b""} for i, row in enumerate(NOW)]
    report = compare(tmp_path, before, now, **document)
    found = [f for f in report.findings if f.name == "sound"]
    assert [(f.measure, f.distance.value, f.verdict) for f in found] == [("missing", 0.25, "warn")]
