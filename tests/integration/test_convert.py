"""--mode=convert as a user runs it: shards that train, kills, exit statuses, statistics."""

from __future__ import annotations

import csv
import os
import random
import re
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from estimator_kit import exit_codes
from estimator_kit.commands.convert import run_conversion
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import command_of
from estimator_kit.errors import ConfigError, NothingToDo
from examples.adult import prepare
from feature_specs.files import file_systems
from input_pipelines.prepare.analyze import first_spec
from input_pipelines.prepare.convert.conversion import convert
from input_pipelines.prepare.convert.options import ConvertOptions
from tests.conftest import ROOT
from tests.input_pipelines.prepare.analyze import test_tables
from tests.programs import run

LIMIT = 240


def people(count):
    """Rows in the form of UCI Adult. None stands for a missing value."""
    rng = random.Random(0)
    for i in range(count):
        row = {name: rng.choice(["Private", "White, or not", "Sales"]) for name in prepare.COLUMNS}
        row |= {name: rng.randint(1, 90) for name in prepare.NUMBERS}
        row |= {"gender": rng.choice(["Female", "Male"]), "education_num": i % 17}
        row |= {"workclass": None if i % 7 == 0 else "Private", "age": i}
        yield row | {"income": rng.choice(["<=50K", ">50K"])}


@pytest.mark.ci
def test_from_csv_to_a_trained_model(tmp_path):
    rows = list(people(700))
    with open(tmp_path / "adult.csv", "w", newline="") as file:
        file.write("| a comment\n")
        writer = csv.writer(file)
        for row in rows:
            cells = ["?" if value is None else value for value in row.values()]
            writer.writerow([f" {cell}" if "," not in str(cell) else cell for cell in cells])
    spec = ROOT / "feature_specs" / "catalog" / "adult.yaml"
    done = run(
        tmp_path, "--mode=convert", f"--spec={spec}", "--convert_files=adult.csv",
        "--convert_dir=out",
        f"--csv_columns={','.join(prepare.COLUMNS)}", "--split=key:age", "--split_eval=0.3",
        "--convert_order=shuffled", "--shard_compression=gzip", "--processes=2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("out: 700 rows of 1 file as Examples of 14 features\n")
    assert done.stdout.endswith("  left out because the spec does not name them: fnlwgt\n")
    found, sizes = {}, {}
    for part in ("train", "eval"):
        (path,) = (tmp_path / "out").glob(f"{part}-*")
        records = list(tf.data.TFRecordDataset(str(path), "GZIP").as_numpy_iterator())
        sizes[part] = len(records)
        for record in records:
            features = tf.train.Example.FromString(record).features.feature
            row = {name: None for name in prepare.COLUMNS if name != "fnlwgt"}
            for name, feature in features.items():
                values = feature.int64_list.value or [
                    word.decode() for word in feature.bytes_list.value
                ]
                (row[name],) = values
            found[row["age"]] = row
    for row in rows:
        del row["fnlwgt"]
    assert [found[i] for i in range(700)] == rows
    config = ExperimentConfig(
        spec=str(spec), model="linear", model_dir=f"{tmp_path}/model", batch_size=50, epochs=1,
        train_files=(f"{tmp_path}/out/train-*",), eval_files=(f"{tmp_path}/out/eval-*",),
        exporters=(),
    )  # fmt: skip
    from estimator_kit import commands

    result = commands.run(config)
    assert (result.rows_trained, result.rows_evaluated) == (sizes["train"], sizes["eval"])
    assert sum(sizes.values()) == 700 and 150 < sizes["eval"] < 270


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_the_statistics_are_those_of_the_table(tmp_path, kind):
    rows = test_tables.make_rows(1200, 3, kind != "csv")
    options = {}
    if kind == "csv":
        options = {"csv_missing": ("NULL",)}
        for row in rows:
            row["city"] = row["city"] or None
    (path,) = test_tables.write(tmp_path, kind, [rows])
    config = ExperimentConfig(
        mode="convert", convert_files=(path,), convert_dir=f"{tmp_path}/out", **options
    )
    run_conversion(command_of(config))
    texts = []
    for files, csv_options in (([path], {"csv": config.csv_options()}),
                               ([str(next((tmp_path / "out").glob("data-*")))], {})):  # fmt: skip
        folder = tmp_path / f"analysis{len(texts)}"
        first_spec.write(files, labels=["click"], directory=str(folder), min_count=2, **csv_options)
        texts.append((folder / "statistics.json").read_bytes())
    assert texts[0] == texts[1]


@pytest.fixture(scope="module")
def many_rows(tmp_path_factory):
    """A folder with a Parquet file for many small shards, and the expected shards by order."""
    folder = tmp_path_factory.mktemp("many")
    rng = np.random.default_rng(0)
    columns = {f"number_{i}": rng.random(40_000, np.float32) for i in range(10)}
    columns["user"] = rng.integers(0, 3000, 40_000)
    pq.write_table(pa.table(columns), folder / "a.parquet", row_group_size=15_000)
    return folder


def convert_many(many_rows, order, out):
    """Runs the conversion, or the rest of one, and returns the content of the folder."""
    options = ConvertOptions(shard_mib=1, order=order, split_key="user", eval_fraction=0.2)
    result = convert(["a.parquet"], directory=str(out), options=options, workers=1)
    return result, {path.name: path.read_bytes() for path in out.iterdir()}


KILLED = """
import os, signal, sys
from input_pipelines.prepare.convert.conversion import convert
from input_pipelines.prepare.convert.options import ConvertOptions

def main():
    # A shell starts what runs in the background without it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    order, out, after, sign = sys.argv[1:]
    options = ConvertOptions(shard_mib=1, order=order, split_key="user", eval_fraction=0.2)

    def stop(rows, done, shards):
        if done >= int(after):
            os.kill(os.getpid(), int(sign))

    try:
        convert(["a.parquet"], directory=out, options=options, workers=2, on_progress=stop)
    except KeyboardInterrupt:
        sys.exit(130)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    "order, after, sign, code",
    [
        ("shuffled", 1, signal.SIGKILL, -9),
        ("stable", 1, signal.SIGINT, 130),
        pytest.param("stable", 1, signal.SIGKILL, -9, marks=pytest.mark.nightly),
        pytest.param("shuffled", 0, signal.SIGKILL, -9, marks=pytest.mark.ci),
    ],
)  # fmt: skip
def test_stopped_and_started_again(many_rows, tmp_path, monkeypatch, order, after, sign, code):
    monkeypatch.chdir(many_rows)
    _, expected = convert_many(many_rows, order, tmp_path / "whole")
    assert len(expected) > 10
    (tmp_path / "killed.py").write_text(KILLED)
    # Its processes also hold the pipe, so this returns when all of them have ended.
    done = subprocess.run(
        [sys.executable, f"{tmp_path}/killed.py", order, f"{tmp_path}/out", str(after),
         str(int(sign))],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == code
    # After a kill, Python reports the semaphores that it had to clean up.
    assert not done.stderr if code > 0 else "Traceback" not in done.stderr
    out = tmp_path / "out"
    assert not (out / "_SUCCESS").exists()
    finished = list(out.glob("*-of-*"))
    assert after <= len(finished) < len(expected) - 3
    for path in finished:
        assert path.read_bytes() == expected[path.name]
    result, found = convert_many(many_rows, order, out)
    assert found == expected
    assert result.new <= len(expected) - 3 - after


def test_it_needs_no_tensorflow(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,x\n")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(ROOT / "run.py"), "--mode=convert",
         "--convert_files=a.csv", "--convert_dir=out"],
        cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=True,
    )  # fmt: skip
    imported = re.findall(r"\| +([\w.]+)$", done.stderr, re.M)
    assert "input_pipelines.prepare.convert.tasks" in imported
    assert not [name for name in imported if name.split(".")[0] == "tensorflow"]


@pytest.mark.parametrize(
    "given, code, message",
    [
        (["--convert_files=a.csv"], 2,
         "error: --convert_dir is missing. --mode=convert needs it.\n"),
        (["--convert_files=no*.csv", "--convert_dir=x"], 65,
         "error: no file matches 'no*.csv' of --convert_files\n"),
        (["--convert_files=a.csv", "--convert_dir=."], 2,
         "error: --convert_dir: '.' holds 'a.csv' and no _PLAN.json, so no conversion wrote it; "
         "name another folder, or move it away\n"),
        (["--convert_files=a.csv", "--convert_dir=x", "--csv_delimiter=ab"], 2,
         "error: --csv_delimiter: got 'ab', expected one character, such as ; or \\t\n"),
        (["--convert_files=bad.csv", "--convert_dir=x"], 65,
         "error: bad.csv: line 3: has 3 fields, expected 2: '1,2,3'\n"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path, given, code, message):
    (tmp_path / "a.csv").write_text("a,b\n1,x\n")
    (tmp_path / "bad.csv").write_text("a,b\n1,x\n1,2,3\n")
    done = run(tmp_path, "--mode=convert", *given)
    assert done == (code, "", message)
    assert not (tmp_path / "x").exists()


SEQUENCES = {"sequence_by": "u", "order_by": "t", "sequence_columns": ("i",)}


def config(**values):
    return ExperimentConfig(mode="convert", convert_files=("a.csv",), convert_dir="x", **values)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"split": "key:u"}, "--split_eval is missing. Say which share of the values of the "
         "column is for evaluation, such as 0.1."),
        ({"split_eval": 0.1}, "--split is missing. Say how rows are chosen for evaluation: "
         "key:user_id, rows or time:ts, with the names of your columns."),
        ({"split": "rows"}, "--split_eval is missing. Say which share of the rows is for "
         "evaluation, such as 0.1."),
        ({"split": "time:t"}, "--split_eval is missing. Say which share of the rows is for "
         "evaluation, such as 0.1, or the first value."),
        ({"split": "u", "split_eval": 0.1}, "--split: expected key:<column>, rows or "
         "time:<column>, such as key:user_id, got 'u'."),
        ({"split": "key:u", "split_eval": "2026-01-01"}, "--split_eval: expected a share between 0 "
         "and 1, such as 0.1, got '2026-01-01'."),
        ({"split_test": 0.1}, "--split is missing. Say how rows are chosen for evaluation: "
         "key:user_id, rows or time:ts, with the names of your columns."),
        ({"split": "rows", "split_test": 0.1}, "--split_eval is missing. Say which share of the "
         "rows is for evaluation, such as 0.1."),
        ({"split": "rows", "split_eval": 0.1, "split_test": "x"}, "--split_test: expected a share "
         "between 0 and 1, such as 0.1, got 'x'."),
        ({"split": "time:t", "split_eval": 0.6, "split_test": 0.4},
         "--split_eval and --split_test: expected shares that are less than 1 together, got 0.6 "
         "and 0.4. Training needs rows, too."),
        ({"split": "rows", "split_eval": 1.0}, "--split_eval: expected a share between 0 and 1, "
         "such as 0.1, got '1.0'."),
        ({"derive_labels": ("a=b:equals:x", "a=b", "c=d:above:x", "e=f:in:x|")},
         "--derive_labels: got 'a=b', expected a label, a column and a test, such as "
         "bought=event:equals:buy, liked=rating:above:3 or bought=event:in:buy|order.\n"
         "--derive_labels: got 'c=d:above:x', expected a number after above, such as 3.\n"
         "--derive_labels: got 'e=f:in:x|', which has an empty value. Remove it.\n"
         "--derive_labels: 'a' is listed twice. Remove one of them."),
        ({**SEQUENCES, "split": "rows", "split_eval": 0.1, "derive_labels": ("a=b:in:x",)},
         "--derive_labels: expected 'a' in --sequence_columns, because records of sequences have "
         "only these columns. Add it.\n"
         "--split=rows is for a conversion without --sequence_by. Use --split=key:u, or "
         "--targets=leave_one_out."),
        ({"shard_mib": 0}, "--shard_mib: expected at least 1, got 0."),
        ({"processes": 0}, "--processes: expected at least 1, got 0."),
        ({"convert_order": "random"}, "--convert_order: expected 'stable' or 'shuffled', got "
         "'random'."),
        ({"step_columns": ("a", "a", "")},
         "--step_columns: 'a' is listed twice. Remove one of them.\n"
         "--step_columns: got an empty name. Remove it."),
        ({"order_by": "t", "sequence_steps": 5, "targets": "leave_one_out"},
         "\n".join(f"--{name} is for sequences. Name the column of a history, such as user_id, "
                   "with --sequence_by." for name in ("order_by", "sequence_steps", "targets"))),
        ({"sequence_by": "u"},
         "--order_by is missing. Name the column with the time of each row.\n"
         "--sequence_columns is missing. Name the column with the item of each row."),
        ({**SEQUENCES, "sequence_columns": ("i", "i")},
         "--sequence_columns: 'i' is listed twice. Remove one of them."),
        ({**SEQUENCES, "sequence_columns": ("i", "u")},
         "--sequence_columns: 'u' is also --sequence_by, and has the same value in each step. "
         "Remove it."),
        ({**SEQUENCES, "sequence_columns": ("i", "next_i")},
         "--sequence_columns: 'next_i' is the name of a feature that the conversion adds. Rename "
         "the column."),
        ({**SEQUENCES, "split": "key:i", "split_eval": 0.1},
         "--split: expected key:u, as in --sequence_by, got key:i. All rows of a history must be "
         "on the same side."),
        ({**SEQUENCES, "split": "key:u", "split_eval": 0.1, "targets": "leave_one_out"},
         "--split is for --targets=next. --targets=leave_one_out splits each history itself."),
        ({**SEQUENCES, "processes": 2},
         "--processes is for a conversion without --sequence_by. One process makes all "
         "sequences. Remove it."),
        ({**SEQUENCES, "sequence_steps": 0}, "--sequence_steps: expected at least 1, got 0."),
        ({**SEQUENCES, "targets": "last"}, "--targets: expected 'next' or 'leave_one_out', got "
         "'last'."),
        ({"step_columns": ("a",), "spec": "s.yaml"}, "--step_columns is for a conversion without "
         "--spec. Write feature_list: true in the spec instead."),
    ],
)  # fmt: skip
def test_flags_that_do_not_go_together(values, message):
    with pytest.raises(ConfigError) as error:
        config(**values)
    assert str(error.value) == message


def test_nothing_left_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("a,b\n1,x\n")
    assert run_conversion(command_of(config())).startswith(
        "x: 1 row of 1 file as Examples of 2 features\n"
    )
    with pytest.raises(NothingToDo) as error:
        run_conversion(command_of(config()))
    assert str(error.value) == (
        "--convert_dir: 'x' has all 1 shards of this conversion. Nothing was changed."
    )


def test_a_full_disk_is_temporary():
    with pytest.raises(OSError) as error, file_systems.writing("out/_unfinished/a"):
        raise OSError(28, "No space left on device")
    assert exit_codes.exit_code(error.value) == exit_codes.TEMPORARY
