"""--mode=validate: which files are there, and what it says of what it did not look at."""

from __future__ import annotations

import json

import pytest

from estimator_kit import main
from tests.conftest import DOCUMENT

pytestmark = pytest.mark.no_tensorflow


@pytest.fixture
def validate(tmp_path, monkeypatch, capsys):
    (tmp_path / "spec.yaml").write_text(json.dumps(DOCUMENT))
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = main.main(["run.py", "--mode=validate", "--spec=spec.yaml", *arguments])
        return code, *capsys.readouterr()

    return run


def test_it_claims_no_more_than_it_checked(validate):
    code, out, err = validate()
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert (
        lines[0] == "spec.yaml: the spec and the flags are correct, as far as the lines below show"
    )
    assert lines[-3:] == [
        "  files: not checked, because no flag names any",
        "  model: not checked. Name it with --model.",
        "  data: not read; --validate_rows=1000 compares rows with the spec",
    ]


def test_files_are_looked_for(validate, tmp_path):
    for day in ("2026-01-01", "2026-01-02"):
        (tmp_path / f"dt={day}").mkdir()
        (tmp_path / f"dt={day}" / "a.tfrecord").touch()
    (tmp_path / "dt=2026-01-02" / ".tmp-b.tfrecord").touch()
    code, out, _ = validate("--train_files=dt=*/*,gs://bucket/x", "--eval_files=dt=*-02/a.tfrecord")
    assert code == 0
    assert (
        "  --train_files: 2 files, and 1 patterns on other file systems, not checked"
        in out.splitlines()
    )
    assert "  --eval_files: 1 files" in out.splitlines()
    code, out, _ = validate("--train_files=dt=*/*", "--train_days=2026-01-02")
    assert code == 0 and "  --train_files: 1 files" in out.splitlines()


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--train_files=nope/*", "no file matches 'nope/*' of --train_files"),
        ("--eval_files=nope", "no file matches 'nope' of --eval_files"),
        ("--train_mix=nope/*=3", "no file matches 'nope/*' of --train_mix"),
        ("--predict_files=nope", "no file matches 'nope' of --predict_files"),
    ],
)
def test_a_pattern_without_a_file_is_an_error(validate, flag, message):
    assert validate(flag) == (2, "", f"error: {message}\n")
    code, out, _ = validate(flag, "--generate_default_data=data")
    assert code == 0
    assert "  files: not checked, because --generate_default_data may still write them" in out


def test_many_names_are_counted(validate, tmp_path):
    document = json.loads(json.dumps(DOCUMENT))
    for i in range(77):
        document["features"][f"n{i}"] = {"dtype": "float32"}
        document["columns"][f"n{i}"] = {"numeric": f"n{i}"}
        document["groups"]["deep"].append(f"n{i}")
    (tmp_path / "spec.yaml").write_text(json.dumps(document))
    code, out, err = validate()
    assert (code, err) == (0, "")
    assert (
        "   85 columns: price, user, city, tag, city_x_tag, user_emb, city_hot, tag_emb, n0, n1, "
        "n2, n3, and 73 more" in out.splitlines()
    )
    assert "  group deep, 81 columns: price, user_emb, city_hot, tag_emb, n0, " in out
    assert max(map(len, out.splitlines())) < 150


def test_the_file_of_a_search_is_checked(validate, tmp_path):
    (tmp_path / "search.yaml").write_text(
        "metric: auc/click\ndirection: max\ntrials: 3\npruner: none\n"
        "parameters:\n  batch_size: {range: [5, 1], int: true}\n"
    )
    code, _, err = validate("--search=search.yaml")
    assert code == 2
    assert err == (
        "error: search.yaml:6: parameters.batch_size.range: got [5, 1], expected a low end below "
        "the high end, as in [0.01, 0.1]\n"
    )
