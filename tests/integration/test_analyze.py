"""--mode=analyze as a user runs it: a first spec that trains, and exit statuses."""

from __future__ import annotations

import json

import pytest

from input_pipelines.record_files import writing
from tests.conftest import make_rows
from tests.programs import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("analyze")
    for i in range(3):
        writing.write_examples(f"{place}/{i}.tfrecord", make_rows(300, seed=i))
    return place


ANALYZE = ("--mode=analyze", "--train_files=[01].tfrecord")


@pytest.mark.nightly  # The tutorial first_model goes the same way.
def test_from_records_to_a_trained_model(folder):
    done = run(folder, *ANALYZE, "--labels=click", "--analysis_dir=first")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("first/spec.yaml: ")
    done = run(
        folder, "--spec=first/spec.yaml", "--train_files=[01].tfrecord", "--model_dir=run",
        "--eval_files=2.tfrecord", "--epochs=1", "--batch_size=100", "--exporters=final",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads((folder / "run" / "result.json").read_text())
    assert result["rows_trained"] == 600 and "auc/click" in result["metrics"]
    # The copy in the model directory holds the numbers and needs no statistics file.
    assert "statistics" not in (folder / "run" / "feature_spec" / "spec.json").read_text()
    done = run(folder, "--mode=analyze", "--train_files=*.tfrecord", "--spec=first/spec.yaml")
    assert done.returncode == 0, done.stderr
    assert "records 600 -> 900" in done.stdout


def test_a_table(folder):
    (folder / "a.csv").write_text("# of ours\n0; NA;007\n1; 2.5;12\n" * 9)
    (folder / "csv.flags").write_text(
        "--mode=analyze\n--train_files=a.csv\n--csv_columns=click,price,code\n"
        "--csv_delimiter=;\n--csv_skip_spaces\n--csv_comment=#\n--csv_missing=NA,?\n"
    )
    done = run(folder, "--flagfile=csv.flags", "--labels=click", "--analysis_dir=table")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "table/spec.yaml: 1 feature and 1 label, from 18 records of 1 file"
    assert lines[-1] == (
        "  estimator-kit convert --spec=table/spec.yaml --convert_files=a.csv "
        "--convert_dir=table/data --split=rows --split_eval=0.1 --split_test=0.1"
    )
    assert (
        "  note: code: text, because 9 of 18 numbers begin with a zero that would be lost, the "
        "first one '007' in a.csv: line 2"
    ) in lines
    statistics = json.loads((folder / "table" / "statistics.json").read_text())
    assert statistics["features"]["price"]["missing"] == 9


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        ((*ANALYZE, "--analysis_dir=x"), 2, "error: --labels is missing. --mode=analyze needs "),
        ((*ANALYZE, "--analysis_dir=x", "--labels=clik"), 65,
         "error: --labels: no record has a feature 'clik'. Did you mean 'click'?"),
        ((*ANALYZE, "--analysis_dir=.", "--labels=click"), 2, "error: --analysis_dir: '.' holds "),
        (("--mode=analyze", "--train_files=*", "--analysis_dir=x", "--labels=click"), 65,
         "error: by their names, 0.tfrecord is TFRecord and a.csv is CSV; give files of one "),
        (("--mode=analyze", "--train_files=no*", "--analysis_dir=x", "--labels=click"), 65,
         "error: no file matches 'no*' of --train_files"),
    ],
)  # fmt: skip
def test_mistakes(folder, arguments, code, message):
    (folder / "a.csv").touch()
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.splitlines()[-1].startswith(message)
    assert not (folder / "x").exists()
