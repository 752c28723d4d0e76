"""Training and evaluation from tables: the same as from the records that `convert` writes."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import types

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import estimator_kit as ek
from estimator_kit.checkpoints import run_record
from estimator_kit.commands import in_tables
from estimator_kit.commands.convert import run_conversion
from estimator_kit.config.flags import config_from_flags, read_command_line
from estimator_kit.config.modes import command_of
from estimator_kit.exporters.extra_files import Lineage
from estimator_kit.result import EvaluationResult
from feature_specs.files import caches, file_systems
from input_pipelines.errors import DataError
from input_pipelines.record_files import writing
from tests.conftest import DOCUMENT, make_rows, small_run, variables

ROWS = {"train-0": 150, "train-1": 130, "eval": 100, "new": 60}


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """A folder with a spec, two tables to train on and two to evaluate; with a separate cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "spec.yaml").write_text(json.dumps(DOCUMENT))
    for seed, (name, count) in enumerate(ROWS.items()):
        write(folder / f"{name}.parquet", make_rows(count, seed=seed))
    return folder


def write(path, rows):
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def run_of(tables, model_dir, **values):
    given = {"mode": "train", "model": "linear", "deterministic": True}
    files = {
        "train_files": (f"{tables}/train-*.parquet",), "eval_files": (f"{tables}/eval.parquet",)
    }  # fmt: skip
    config = small_run(tables, model_dir, **{**given, **files, **values})
    return ek.run(config())


def convert(tables, name, folder):
    config = ek.ExperimentConfig(
        mode="convert", spec=f"{tables}/spec.yaml", convert_files=(f"{tables}/{name}",),
        convert_dir=str(folder),
    )  # fmt: skip
    run_conversion(command_of(config))
    return f"{folder}/data-*"


def records(tables):
    """The folders of the records, by the number of bytes of their first shard."""
    root = pathlib.Path(os.environ["XDG_CACHE_HOME"], "estimator_kit", "records")
    return sorted(path for path in root.glob("*") if path.is_dir())


def shards(tables):
    return {s.name: s.read_bytes() for folder in records(tables) for s in folder.glob("data-*")}


def assert_same(first, second):
    one, other = variables(first), variables(second)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_the_checkpoint_is_that_of_converted_records(tables, tmp_path, suffix):
    if suffix == "jsonl":
        for table in tables.glob("train-*.parquet"):
            lines = [json.dumps(row) for row in pq.read_table(table).to_pylist()]
            table.with_suffix(".jsonl").write_text("\n".join(lines) + "\n")
    pattern = convert(tables, f"train-*.{suffix}", tmp_path / "out")
    run_of(tables, tmp_path / "a", train_files=(pattern,), epochs=2)
    result = run_of(tables, tmp_path / "b", train_files=(f"{tables}/train-*.{suffix}",), epochs=2)
    assert result.rows_trained == 2 * 280
    assert_same(tmp_path / "a", tmp_path / "b")
    (folder,) = records(tables)
    for made in ("data-00000-of-00001.tfrecord", "_SUCCESS"):
        assert (folder / made).read_bytes() == (tmp_path / "out" / made).read_bytes()


def test_a_training_that_was_stopped_goes_on_with_the_next_row(tables, tmp_path):
    run_of(tables, tmp_path / "whole", max_steps=9, epochs=None)
    run_of(tables, tmp_path / "parts", max_steps=4, epochs=None)
    before = shards(tables)
    shutil.rmtree(tmp_path / "cache")  # The folder is cleaned, and the records made again.
    run_of(tables, tmp_path / "parts", max_steps=9, epochs=None)
    assert shards(tables) == before and len(before) == 1
    assert json.loads((tmp_path / "parts/input.json").read_text())["first_step"] == 0
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_tables_are_converted_once_until_they_change(tables, tmp_path, monkeypatch):
    made = []
    convert_set = in_tables._convert
    monkeypatch.setattr(
        in_tables, "_convert", lambda *given: made.append(given[0].flag) or convert_set(*given)
    )
    run_of(tables, tmp_path / "a", max_steps=1)
    run_of(tables, tmp_path / "b", max_steps=1)
    assert made == ["--train_files"]
    write(tables / "train-1.parquet", make_rows(131, seed=1))
    result = run_of(tables, tmp_path / "c", epochs=1)
    assert made == ["--train_files"] * 2 and result.rows_trained == 281
    document = {**DOCUMENT, "labels": {**DOCUMENT["labels"], "click": {"dtype": "float32"}}}
    (tables / "spec.yaml").write_text(json.dumps(document))  # The records have another label.
    with pytest.raises(ek.ConfigError, match="nothing"):  # It comes after the conversion.
        run_of(tables, tmp_path / "d", max_steps=1, model="nothing")
    assert made == ["--train_files"] * 3


def test_the_time_of_records_is_the_time_of_the_newest_table(tables, tmp_path):
    """A search compares them when it goes on."""
    os.utime(tables / "train-0.parquet", ns=(10**18, 10**18))
    os.utime(tables / "train-1.parquet", ns=(10**18 + 7, 10**18 + 7))
    run_of(tables, tmp_path / "a", max_steps=1)
    ((folder,)) = records(tables)
    assert file_systems.stamp(str(folder / "data-00000-of-00001.tfrecord"))[1] == 10**18 + 7


def test_a_row_that_cannot_be_used_ends_the_run_before_training(tables, tmp_path):
    rows = make_rows(20, seed=3)
    rows[13]["click"] = None
    write(tables / "train-2.parquet", rows)
    with pytest.raises(DataError) as error:
        run_of(tables, tmp_path / "a", max_steps=1, corrupt_data_policy="skip_record")
    assert f"{tables}/train-2.parquet" in str(error.value) and "row 14" in str(error.value)
    assert not (tmp_path / "a").exists()


def test_sets_of_an_evaluation_and_what_the_run_records(tables, tmp_path):
    writing.write_examples(str(tables / "old.tfrecord"), make_rows(40, seed=7))
    sets = (
        f"{tables}/eval.parquet", f"newcomers={tables}/new.parquet", f"old={tables}/old.tfrecord"
    )  # fmt: skip
    result = run_of(
        tables, tmp_path / "a", mode="train_and_evaluate", max_steps=2, eval_files=sets,
        exporters=("final",),
    )  # fmt: skip
    rows = {name: each.rows for name, each in result.eval_sets.items()}
    assert result.rows_evaluated == 100 and rows == {"newcomers": 60, "old": 40}
    flags = run_record.read_flags(str(tmp_path / "a"))
    assert f"--train_files={tables}/train-*.parquet" in flags
    assert f"--eval_files={','.join(sets)}" in flags
    (path,) = pathlib.Path(result.export_path, "assets.extra").rglob("lineage.json")
    assert Lineage.load(str(path)).as_json()["train_files"] == [f"{tables}/train-*.parquet"]
    # The flagfile of a run starts it again.
    again = ek.run(ek.ExperimentConfig(**{
        "mode": "evaluate", "spec": f"{tables}/spec.yaml", "model_dir": str(tmp_path / "a"),
        "model": "linear", "eval_files": sets,
    }))  # fmt: skip
    assert again.metrics["loss"] == pytest.approx(result.metrics["loss"], rel=1e-6)
    of_export = ek.run(ek.ExperimentConfig(
        mode="evaluate", export_dir=result.export_path, eval_files=sets
    ))  # fmt: skip
    assert isinstance(of_export, EvaluationResult) and of_export.rows_evaluated == 100
    assert len(records(tables)) == 3


def test_what_the_run_records_of_several_tables_with_any_names(tables, tmp_path):
    """The folder of their records is empty when the run has ended."""
    names = ["é, 1.parquet", 'a"b.parquet']
    for seed, name in enumerate(names):
        write(tables / name, make_rows(20, seed=seed + 20))
    sets = tuple(f"{tables}/{name}" for name in names)
    sets += (f"more={tables}/new.parquet", f"more={tables}/eval.parquet")
    result = run_of(
        tables, tmp_path / "a", mode="train_and_evaluate", max_steps=1, eval_files=sets,
        exporters=("final",), input_cache_dir="off",
    )  # fmt: skip
    assert not records(tables)
    flagfile = tmp_path / "a.flags"
    flagfile.write_text("\n".join(run_record.read_flags(str(tmp_path / "a"))))
    line = read_command_line([f"--flagfile={flagfile}"])
    assert config_from_flags(line.values).eval_files == sets
    (path,) = pathlib.Path(result.export_path, "assets.extra").rglob("lineage.json")
    assert Lineage.load(str(path)).as_json()["eval_files"] == list(sets)
    exported = ek.run(ek.ExperimentConfig(
        mode="export", spec=f"{tables}/spec.yaml", model_dir=str(tmp_path / "a"), model="linear",
        eval_files=sets,
    ))  # fmt: skip
    assert exported.export_path


def test_the_days_that_are_chosen_are_converted(tables, tmp_path):
    for day in (1, 2, 3):
        write(tables / f"dt=2026-01-0{day}" / "a.parquet", make_rows(10 * day, seed=day))
    files = (f"{tables}/dt=*/a.parquet",)
    result = run_of(
        tables, tmp_path / "a", mode="train_and_evaluate", epochs=1, train_files=files,
        train_days="2026-01-01..2026-01-02", eval_files=files, eval_days="2026-01-03",
    )  # fmt: skip
    assert (result.rows_trained, result.rows_evaluated) == (30, 30)
    assert (
        f"--train_files={tables}/dt=2026-01-01/a.parquet,{tables}/dt=2026-01-02/a.parquet"
        in run_record.read_flags(str(tmp_path / "a"))
    )
    with pytest.raises(DataError, match=r"1 of 2 days are missing \(2026-01-04\)"):
        run_of(tables, tmp_path / "b", epochs=1, train_files=files, train_days="2d..2026-01-04")


def config_of(tables, **values):
    given = {
        "mode": "train_and_evaluate",
        "max_steps": 1,
        "train_files": f"{tables}/train-0.parquet",
    }
    return small_run(tables, f"{tables}/model", **{**given, **values})()


def problem_of(config):
    with pytest.raises((ek.ConfigError, DataError)) as error, in_tables.converted(config):
        pass
    return str(error.value)


def test_what_is_refused(tables, monkeypatch):
    table = f"{tables}/train-0.parquet"
    both = (f"{tables}/train-*.parquet",)
    message = problem_of(config_of(tables, eval_files=both))
    assert message.startswith(f"--train_files and --eval_files share 1 files, the first is {table}")
    message = problem_of(
        config_of(tables, eval_files=(f"{tables}/eval.parquet", f"test={tables}/[en]*.parquet"))
    )
    assert message.startswith(
        f"--eval_files, set test: {tables}/eval.parquet is also one of the files that judge."
    )
    writing.write_examples(str(tables / "train.tfrecord"), make_rows(3))
    message = problem_of(config_of(tables, train_files=(f"{tables}/train*",)))
    assert "give files of one kind" in message
    remedy = (
        f"read TFRecord files. Convert it first: estimator-kit convert --spec={tables}/spec.yaml "
        f"--convert_files='{table}' --convert_dir=<a new folder>"
    )
    service = config_of(tables, data_service="grpc://a:1", eval_files=("e",))
    assert problem_of(service) == (
        f"--train_files: {table} is a Parquet file, and workers of a data service {remedy}"
    )
    monkeypatch.setenv(
        "TF_CONFIG",
        '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "chief", "index": 0}}',
    )
    cluster = config_of(tables, strategy="parameter_server", eval_files=("e",))
    assert problem_of(cluster) == (
        f"--train_files: {table} is a Parquet file, and tasks of a cluster {remedy}"
    )
    assert not records(tables)


def test_the_tables_of_a_search_fit_together_before_its_first_trial(tables):
    def searching(**values):
        files = {"eval_files": f"{tables}/eval.parquet", "test_files": f"{tables}/new.parquet"}
        own = {"max_steps": None, "mode": "tune", "search": "auto", **files, **values}
        return config_of(tables, **own)

    with in_tables.converted(searching()):
        assert len(records(tables)) == 4  # Training, evaluation, test, and the first two together.
    (tables / "eval.jsonl").write_text("\n".join(map(json.dumps, make_rows(9))))
    message = problem_of(searching(eval_files=f"{tables}/eval.jsonl"))
    assert message == (
        "--train_files and --eval_files: a search with test files trains its best settings on all "
        f"of them: by their names, {tables}/eval.jsonl is JSON lines and {tables}/train-0.parquet "
        "is Parquet; give files of one kind"
    )
    with in_tables.converted(searching(eval_files=f"{tables}/eval.jsonl", test_files=())):
        pass  # No training reads both.
    write(tables / "wide.parquet", [{**row, "more": 1} for row in make_rows(9)])
    message = problem_of(searching(eval_files=f"{tables}/wide.parquet"))
    assert message.startswith(f"{tables}/wide.parquet has 'more', unlike {tables}/train-0.parquet")


def test_columns_that_are_not_read_are_named(tables, caplog):
    more = {f"c{i:02}": 1 for i in range(12)}
    write(tables / "wide.parquet", [{**row, **more} for row in make_rows(9)])
    caplog.set_level("INFO")
    with in_tables.converted(config_of(tables, train_files=f"{tables}/wide.parquet")):
        pass
    (line,) = [text for text in caplog.messages if "left out" in text]
    assert line.startswith("--train_files: left out, as the spec does not name them: ")
    assert ", c00, c01, " in line and line.endswith(" more")


def test_a_folder_that_cannot_be_written(tables, monkeypatch):
    root = file_systems.user_cache("records")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert problem_of(config_of(tables, eval_files=("e",))) == (
        f"--train_files: {root}, the folder for the records of tables, cannot be written: it is "
        "read-only. Name another one with --input_cache_dir, or use --mode=convert"
    )


def test_records_under_the_name_of_a_table_are_read_as_before(tables):
    writing.write_examples(str(tables / "a.json"), make_rows(3))
    config = config_of(tables, train_files=f"{tables}/a.json", eval_files=("missing",))
    with in_tables.converted(config) as same:
        assert same is config


def test_a_disk_without_room_is_an_error_before_anything_is_written(tables, monkeypatch):
    usage = types.SimpleNamespace(free=1000)
    monkeypatch.setattr(caches.shutil, "disk_usage", lambda path: usage)
    message = problem_of(config_of(tables, eval_files=("e",)))
    assert message.startswith("the records of the tables need about 0.0 MiB, and the disk of ")
    assert message.endswith(
        "has room for 0.0 MiB. Free some space, or choose a folder on a larger disk with "
        "--input_cache_dir, or with --mode=convert"
    )
    assert not records(tables)


def test_a_named_folder_and_off(tables, tmp_path):
    config = config_of(tables, eval_files=("e",), input_cache_dir=str(tmp_path / "named"))
    with in_tables.converted(config) as local:
        (pattern,) = local.train_files
        assert pattern.startswith(f"{tmp_path}/named/records/")
    assert os.path.isdir(os.path.dirname(pattern))
    with in_tables.converted(config_of(tables, eval_files=("e",), input_cache_dir="off")):
        assert len(records(tables)) == 1
    assert not records(tables)
