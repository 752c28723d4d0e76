"""Runs on rows of a user's function give the numbers of the same rows in one TFRECORD file."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import re

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.result import read_result
from input_pipelines.record_files import writing
from tests import programs
from tests.conftest import small_run, variables
from tests.integration import own_rows

pytestmark = pytest.mark.ci

NAME = "tests.integration.own_rows"
OPTIONS = {"model": "linear", "epochs": 2, "deterministic": True}


@pytest.fixture(scope="session")
def files(once, ads):
    """A folder with the rows of `own_rows.read` as files, and a run that trained on them."""

    def write(folder):
        (folder / "spec.yaml").write_text((ads / "spec.yaml").read_text())
        for mode, name in (("train", "train-0"), ("eval", "eval")):
            writing.write_examples(f"{folder}/{name}.tfrecord", own_rows.read(mode))
        own_rows.write_tables(f"{folder}/rows.db")
        ek.run(small_run(folder, folder / "run", **OPTIONS, exporters=("final",))())

    return once("own_input", write)


def of_batches(mode):
    return pa.Table.from_pylist(own_rows.read(mode)).to_batches(70)


def of_tensors(mode):
    rows = own_rows.read(mode)
    return tf.data.Dataset.from_tensor_slices(
        {
            "price": [row["price"] for row in rows],
            "user": [row["user"] or "" for row in rows],
            "city": [row["city"] for row in rows],
            "tags": tf.ragged.constant([row["tags"] for row in rows], tf.string),
            "click": tf.constant([row["click"] for row in rows], tf.int64),
            "buy": tf.constant([row["buy"] for row in rows], tf.int64),
        }
    )


def of_batches_of_tensors(mode):
    return of_tensors(mode).ragged_batch(70)


def own_run(files, model_dir, **values):
    given = {"train_files": (), "eval_files": (), "input_version": "1", **OPTIONS}
    return small_run(files, model_dir, **{**given, **values})


def check_equal(files, model_dir):
    expected, found = variables(files / "run"), variables(model_dir)
    assert expected.keys() == found.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, name)


def check_lineage(export, name):
    """An export says which function gave the rows, and was checked with at least 100 of them."""
    lineage = json.loads(pathlib.Path(export, "assets.extra", "lineage.json").read_text())
    assert (lineage["input_fn"], lineage["train_files"]) == (name, [])
    assert lineage["check"]["rows"] >= 100


@pytest.mark.parametrize(
    "function",
    [
        f"{NAME}:of_a_cursor",
        *(
            pytest.param(function, marks=pytest.mark.nightly)
            for function in (own_rows.read, of_batches, of_tensors, of_batches_of_tensors)
        ),
    ],
)
def test_a_training_an_evaluation_and_an_export(files, tmp_path, monkeypatch, function):
    monkeypatch.setenv("OWN_ROWS", f"{files}/rows.db")
    run = own_run(files, tmp_path / "run", input_fn=function, exporters=("final",))
    result = ek.run(run())
    expected = read_result(f"{files}/run")
    check_equal(files, tmp_path / "run")
    assert result.metrics == expected.metrics
    assert (result.stop_reason, result.rows_trained) == ("input_exhausted", 800)
    name = run().input_fn
    check_lineage(result.exports["final"], name)


def test_a_restart_goes_on_with_the_next_row(files, tmp_path):
    run = own_run(files, tmp_path / "run", mode="train", input_fn=own_rows.read)
    ek.run(run(epochs=None, max_steps=5))
    ek.run(run(epochs=None, max_steps=11))  # In the second epoch.
    assert ek.run(run()).rows_trained == 250
    check_equal(files, tmp_path / "run")


@pytest.mark.nightly
def test_without_a_version_a_restart_says_what_may_repeat(files, tmp_path, caplog):
    run = own_run(files, tmp_path / "run", mode="train", input_fn=own_rows.read,
                  input_version=None)  # fmt: skip
    with caplog.at_level(logging.WARNING, "estimator_kit"):
        ek.run(run(epochs=None, max_steps=5))
        assert not caplog.messages
        ek.run(run())
    # TensorFlow warns, too.
    ours = [record.getMessage() for record in caplog.records if record.name == "estimator_kit"]
    warning, few_steps = ours
    assert few_steps.startswith("the whole training has 16 steps, which is few")
    assert warning == (
        f"--input_fn: this start leaves out the first 250 rows of {NAME}:read, because they were "
        "read up to step 5. Without --input_version, nothing says that their order is the same as "
        "before. If it is not, some rows are trained on again and others are left out."
    )
    check_equal(files, tmp_path / "run")


@pytest.mark.nightly
def test_another_version_or_other_first_rows_are_another_input(files, tmp_path, caplog):
    run = own_run(files, tmp_path / "run", mode="train", input_fn=own_rows.read, epochs=None)
    ek.run(run(max_steps=2))
    start = "so counting its rows and epochs starts again at 0"
    for step, changes in (
        (2, {"input_version": "2"}),
        (4, {"input_version": "2", "input_fn": lambda mode: own_rows.read("eval")}),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "estimator_kit"):
            ek.run(run(max_steps=step + 2, **changes))
        assert any(m.startswith(f"the input changed since step {step} (") and m.endswith(start)
                   for m in caplog.messages)  # fmt: skip


@pytest.mark.nightly
def test_a_function_that_is_evaluated_and_exported_later(files, tmp_path):
    folder = tmp_path / "run"
    flags = [f"--spec={files}/spec.yaml", f"--model_dir={folder}", f"--input_fn={NAME}:read",
             "--model=linear"]  # fmt: skip
    done = programs.run(tmp_path, "train", *flags, "--input_version=1", "--epochs=2",
                        "--batch_size=50", "--deterministic")  # fmt: skip
    assert done.returncode == 0, done.stderr
    check_equal(files, folder)
    for mode in ("evaluate", "export", "validate"):
        done = programs.run(tmp_path, mode, *flags)
        assert done.returncode == 0, done.stderr
    assert f"--input_fn={NAME}:read: can be imported; its rows were not read" in done.stdout
    document = json.loads((folder / "evaluation-evaluate.json").read_text())
    assert document["eval_files"] == [f"--input_fn={NAME}:read"]
    expected = read_result(f"{files}/run")
    assert document["metrics"] == expected.metrics
    (export,) = (folder / "export" / "final").iterdir()
    check_lineage(export, f"{NAME}:read")


PROBLEMS = {
    "module": (f"{NAME}s:read", 2, f"--input_fn={NAME}s:read: cannot import"),
    "name": (f"{NAME}:reed", 2, f"--input_fn={NAME}:reed: {NAME!r} has no 'reed'. Did you mean"),
    "arguments": (lambda: [], 2, "expected a function of one argument, the mode 'train' or 'eval'"),
    "no row": (lambda mode: [], 65, "gave no row. Return rows, and make a new iterator in each"),
    "bad row": (
        lambda mode: [{**row, "click": 7} for row in own_rows.read(mode)], 65,
        "row 0: label 'click' is 7, expected 0 or 1",
    ),
    "no feature": (
        lambda mode: [{"click": 1, "buy": 1}], 65,
        "row 0: feature 'city' is missing, and it has no default in the spec",
    ),
    "another shape": (
        lambda mode: [{"city": ["a", "b"], "click": 1, "buy": 1}], 65,
        "row 0: feature 'city' has 2 values, expected 1",
    ),
    "no label": (lambda mode: [{"city": "a", "buy": 1}], 65, "row 0: label 'click' is missing"),
    "returned": (lambda mode: None, 65, "expected a tf.data.Dataset, or an iterable of rows"),
}  # fmt: skip


@pytest.mark.parametrize("case", PROBLEMS)
def test_a_problem_at_the_start_is_named_before_anything_is_written(files, tmp_path, case):
    from estimator_kit.exit_codes import exit_code

    function, code, message = PROBLEMS[case]
    run = own_run(files, tmp_path / "run", mode="train", input_fn=function)
    with pytest.raises((ek.ConfigError, ek.DataError), match=re.escape(message)) as error:
        ek.run(run())
    assert exit_code(error.value) == code
    if callable(function):
        assert str(error.value).startswith(f"{__file__}:")
    assert not os.path.exists(tmp_path / "run")


def test_a_problem_in_a_later_row_names_the_function_and_the_row(files, tmp_path):
    text = pathlib.Path(own_rows.__file__).read_text("utf-8").splitlines()
    fails = next(i for i, line in enumerate(text, 1) if line.endswith("# fails"))
    run = own_run(files, tmp_path / "run", mode="train", epochs=None, max_steps=20)
    with pytest.raises(ek.DataError) as error:
        ek.run(run(input_fn=f"{NAME}:fails_at_300"))
    expected = f"{own_rows.__file__}:{fails}: {NAME}:fails_at_300 raised ValueError: no more"
    assert str(error.value) == expected
    first = own_rows.bad_at_300.__code__.co_firstlineno
    name = f"{own_rows.__file__}:{first}: {NAME}:bad_at_300"
    with pytest.raises(ek.DataError, match=re.escape(f"{name}: row 300: label 'click' is 7, exp")):
        ek.run(run(input_fn=f"{NAME}:bad_at_300", model_dir=str(tmp_path / "other")))
    assert read_result(str(tmp_path / "other")).status == "failed"


@pytest.mark.nightly
def test_fewer_rows_than_were_counted(files, tmp_path):
    calls = []

    def shrinks(mode):
        calls.append(mode)
        return own_rows.read(mode)[: 400 if len(calls) < 3 else 380]

    run = own_run(files, tmp_path / "run", mode="train", input_fn=shrinks, epochs=1)
    with pytest.raises(ek.DataError, match="gave 20 rows fewer than when they were counted"):
        ek.run(run())


@pytest.mark.nightly
def test_a_bad_row_of_an_evaluation_names_the_function(files, tmp_path):
    run = own_run(files, tmp_path / "run", input_fn=lambda mode: own_rows.read("train"), epochs=1)
    ek.run(run(mode="train"))
    name = f"{__name__}:test_a_bad_row_of_an_evaluation_names_the_function.<locals>.<lambda>"
    bad = run(
        mode="evaluate",
        input_fn=lambda mode: [{**row, "click": 7} for row in own_rows.read(mode)],
    )  # fmt: skip
    with pytest.raises(ek.DataError) as error:
        ek.run(bad)
    expected = f"--input_fn={name} in the mode 'eval': record 0 at byte 0: label 'click' is 7"
    assert str(error.value).startswith(expected)
