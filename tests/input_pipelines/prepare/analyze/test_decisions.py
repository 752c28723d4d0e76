"""What the values of features are in a first spec, the flags that override it, and the report."""

from __future__ import annotations

import random

import pytest

import feature_specs
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import first_spec
from input_pipelines.prepare.analyze.overrides import Overrides
from input_pipelines.record_files import writing


def make_rows(count=3000):
    rng = random.Random(1)
    effect = [rng.uniform(0, 0.7) for _ in range(70)]
    rows = []
    for i in range(count):
        creative = rng.randrange(70)
        rows.append({
            "click": int(rng.random() < effect[creative]),
            "creative_c": 3 * creative,  # Only its effect says that it is a code.
            "device": rng.randrange(60),
            "age": rng.randint(18, 90),
            "stars": rng.randint(1, 10) if i % 10 else None,
            "code": 500_000 + rng.randrange(60),
            "key_id": i,
            "city": rng.choice(["rome", "oslo", "7"]),
        })  # fmt: skip
        rows[-1]["paid"] = 1 if rows[-1]["click"] else None
    return rows


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("records") / "x.tfrecord")
    writing.write_examples(path, make_rows())
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "x.csv"
    rows = make_rows()
    lines = [",".join("" if v is None else str(v) for v in row.values()) for row in rows]
    path.write_text("\n".join([",".join(rows[0]), *lines, ""]))
    return str(path)


def analyzed(path, folder, **decisions):
    first = first_spec.write(
        [path], labels=["click"], directory=str(folder), overrides=Overrides(**decisions)
    )
    return feature_specs.load(first.path), first.report


def kind(spec, name):
    numbers = any(c.kind == "numeric" and c.source == name for c in spec.columns.values())
    categories = name in spec.columns and spec.columns[name].kind in ("vocabulary", "hash_bucket")
    return ["ignored", "number", "category", "both"][numbers + 2 * categories]


@pytest.mark.parametrize("of", ["records", "table"])
def test_the_rules(of, request, tmp_path):
    spec, report = analyzed(request.getfixturevalue(of), tmp_path / "a")
    assert {name: kind(spec, name) for name in spec.features} == {
        "creative_c": "category", "device": "category", "age": "number", "stars": "both",
        "code": "category", "key_id": "ignored", "city": "category", "paid": "ignored",
    }  # fmt: skip
    assert spec.ignored == ("key_id", "paid")
    for line in (
        "WARNING: paid is ignored: it may give a label away: it has a value exactly where click is "
        "1 (override: --categorical=paid)",
        "creative_c: category, 70 integers without order in their effect "
        "(override: --numeric=creative_c)",
        "stars: category and number, only 10 different integers that fill a scale "
        "(override: --categorical=stars)",
    ):
        assert line in report
    # The number of a scale is for the deep group. A missing one counts as the median there.
    assert "stars" in spec.groups["wide"] and "stars_scaled" not in spec.groups["wide"]
    assert "stars_scaled" in spec.groups["deep"] and "stars_emb" not in spec.groups["deep"]
    assert "stars_emb" in spec.groups["fields"]
    assert spec.columns["stars_scaled"].missing in (5, 6) and spec.features["stars"].default == -1


@pytest.mark.parametrize("of", ["records", "table"])
def test_overrides(of, request, tmp_path):
    spec, report = analyzed(
        request.getfixturevalue(of), tmp_path / "a",
        categorical=["age", "paid", "key_id"], numeric=["creative_c", "device", "stars"],
        ignore=["city"],
    )  # fmt: skip
    assert {name: kind(spec, name) for name in spec.features} == {
        "creative_c": "number", "device": "number", "age": "category", "stars": "number",
        "code": "category", "key_id": "category", "city": "ignored", "paid": "category",
    }  # fmt: skip
    assert spec.ignored == ("city",) and "ignored: city: --ignore names it" in report
    assert "WARNING" not in report
    assert "  age: category, --categorical names it\n" in report
    assert "  device: number, --numeric names it\n" in report


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ({"numeric": ["agee"]}, "--numeric: no record has a feature 'agee'. Did you mean 'age'?"),
        ({"ignore": ["click"]}, "--ignore: 'click' is a label. Remove it from one of the flags"),
        (
            {"numeric": ["city"]},
            "--numeric: 'city' is text. The most frequent values that are not numbers: ",
        ),
    ],
)
def test_impossible_decisions(records, tmp_path, decisions, message):
    with pytest.raises(DataError) as error:
        analyzed(records, tmp_path / "a", **decisions)
    assert str(error.value).startswith(message)
    assert not (tmp_path / "a").exists()


def test_a_name_that_no_variable_can_have_cannot_be_wanted(tmp_path):
    path = str(tmp_path / "x.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(["click,Länge\n", *(f"{i % 2},{i}\n" for i in range(9))])
    with pytest.raises(DataError, match="--numeric: the name 'Länge' cannot be part of a TensorF"):
        analyzed(path, tmp_path / "a", numeric=["Länge"])


def test_floats_are_no_categories(tmp_path):
    path = str(tmp_path / "x.tfrecord")
    writing.write_examples(path, [{"click": i % 2, "price": i / 7} for i in range(9)])
    with pytest.raises(DataError, match="--categorical: the values of 'price' are float32"):
        analyzed(path, tmp_path / "a", categorical=["price"])


def test_a_leak_is_used_if_there_is_nothing_else(tmp_path):
    path = str(tmp_path / "x.tfrecord")
    writing.write_examples(path, [{"click": i % 2, "x": i % 2} for i in range(1000)])
    spec, report = analyzed(path, tmp_path / "a")
    assert "x" in spec.columns
    assert "it is used, because nothing else could be" in report


def test_many_notes_share_a_line(tmp_path):
    names = [f"x{i}" for i in range(20)]
    lines = [",".join(["click", *names])]
    lines += [",".join([str(i % 2), *(str(i + j) for j in range(20))]) for i in range(60)]
    lines.append(",".join(["1", *["1.5"] * 20]))
    (tmp_path / "x.csv").write_text("\n".join([*lines, ""]))
    _, report = analyzed(str(tmp_path / "x.csv"), tmp_path / "a")
    assert len(report.splitlines()) <= 20
    notes = [line for line in report.splitlines() if line.startswith("  note")]
    assert notes == [
        f"  note: {', '.join(names[:12])} and 8 more: float32, because some values are not integers"
    ]
