"""Whole runs on a part of the rows: filters, negatives, days and mixes; and reproducible runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import estimator_kit as ek
from estimator_kit.result import read_result
from input_pipelines.record_files import writing
from tests.conftest import ROOT, make_rows, small_run, variables


@pytest.fixture
def config(ads, tmp_path):
    return small_run(ads, tmp_path / "model", mode="train", model="linear", epochs=2)


@pytest.fixture
def filtered(document, tmp_path):
    """The path of the spec with a filter."""

    def write(*entries):
        document["filter"] = list(entries)
        (tmp_path / "filtered.json").write_text(json.dumps(document))
        return str(tmp_path / "filtered.json")

    return write


ROME = {"feature": "city", "in": ["rome"]}
TRAINED = [row for i, size in enumerate((150, 130, 90, 30)) for row in make_rows(size, seed=i)]


@pytest.mark.nightly
def test_a_filtered_run_is_counted_and_goes_on_exactly(config, filtered, tmp_path):
    kept = sum(row["city"] == "rome" for row in TRAINED)
    scored = sum(row["city"] == "rome" for row in make_rows(200, seed=9))
    run = config(mode="train_and_evaluate", spec=filtered(ROME))
    result = ek.run(run.model_copy(update={"max_steps": 4}))
    selected = {
        "train": {"read": 400, "kept": kept, "dropped": 400 - kept},
        "eval": {"read": 200, "kept": scored, "dropped": 200 - scored},
    }
    assert result.rows_selected == selected == read_result(run.model_dir).rows_selected
    assert result.rows_evaluated == scored
    result = ek.run(run)
    assert result.rows_trained == 2 * kept - 4 * 50
    assert result.stop_reason == "input_exhausted"
    whole = config(spec=run.spec, model_dir=str(tmp_path / "whole"))
    ek.run(whole)
    for name, value in variables(whole.model_dir).items():
        found = variables(run.model_dir)[name]
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-6, err_msg=name)
    # Another filter makes another input. The trained variables stay.
    changed = config(spec=filtered(ROME, {"feature": "price", "min": 5}))
    fewer = sum(row["city"] == "rome" and row["price"] >= 5 for row in TRAINED)
    assert ek.run(changed).rows_trained == 2 * fewer
    assert ek.run(config(spec=filtered(ROME), mode="evaluate")).rows_evaluated == scored


def test_a_filter_that_keeps_nothing_is_an_error_before_anything_is_written(
    config, filtered, ads, tmp_path
):
    spec = filtered({"feature": "price", "min": 11})
    with pytest.raises(ek.DataError) as error:
        ek.run(config(spec=spec))
    assert str(error.value) == (
        f"--train_files: none of its 400 rows is kept ({ads}/train-0.tfrecord and other files). "
        "Check `filter` in the spec and --keep_negatives."
    )
    with pytest.raises(ek.DataError) as error:
        ek.run(config(spec=spec, mode="train_and_evaluate"))
    assert str(error.value) == (
        f"--eval_files: none of its 200 rows is kept ({ads}/eval.tfrecord). Check `filter` in the "
        "spec."
    )
    assert not (tmp_path / "model").exists()


@pytest.mark.nightly
def test_a_run_on_some_negatives_ends_where_an_undisturbed_one_does_and_is_calibrated(
    config, document, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # The names of files decide which negatives are drawn.
    del document["labels"]["buy"], document["objectives"]["buy"]
    (tmp_path / "one.json").write_text(json.dumps(document))
    rows = [
        {**row, "click": int(row["click"] and row["row"] % 4 == 0)}
        for row in make_rows(4000, seed=5)
    ]
    path = "rare.tfrecord"
    writing.write_examples(path, rows)
    run = config(spec="one.json", train_files=(path,), keep_negatives="0.2",
                 epochs=4, batch_size=100)  # fmt: skip
    first = ek.run(run.model_copy(update={"max_steps": 30}))
    second = ek.run(run)
    positives = sum(row["click"] for row in rows)
    kept = first.rows_selected["train"]["kept"]
    expected = positives + 0.2 * (4000 - positives)
    assert abs(kept - expected) < 4 * np.sqrt(0.16 * 4000)
    assert second.stop_reason == "input_exhausted"
    # Each epoch draws other negatives, so the rows of epochs differ.
    assert abs(first.rows_trained + second.rows_trained - 4 * expected) < 4 * 4 * 26
    whole = run.model_copy(update={"model_dir": f"{tmp_path}/whole"})
    assert ek.run(whole).global_step == second.global_step
    for name, value in variables(whole.model_dir).items():
        found = variables(run.model_dir)[name]
        np.testing.assert_allclose(found, value, rtol=1e-3, atol=1e-5, err_msg=name)
    metrics = ek.run(run.model_copy(update={"mode": "evaluate", "eval_files": (path,)})).metrics
    assert metrics["rows"] == 4000
    # Without the weights, it would be 0.11 / (0.11 + 0.2 * 0.89), or 0.38.
    assert metrics["prediction_mean/click"] == pytest.approx(positives / 4000, rel=0.2)


@pytest.mark.nightly
def test_a_mix_counts_its_epochs_and_goes_on_exactly(config, ads, tmp_path, caplog):
    run = config(train_files=(), train_mix=(f"{ads}/train-0*=3", f"{ads}/train-[123]*=1"))
    with caplog.at_level("INFO", logger="estimator_kit"):
        ek.run(run.model_copy(update={"max_steps": 7}))
    assert f"{ads}/train-0*: 75.0% of the stream, its 150 rows read 2.00 times" in caplog.text
    assert f"{ads}/train-[123]*: 25.0% of the stream, its 250 rows read 0.40 times" in caplog.text
    result = ek.run(run)
    assert (result.global_step, result.stop_reason) == (16, "input_exhausted")
    whole = run.model_copy(update={"model_dir": f"{tmp_path}/whole"})
    ek.run(whole)
    for name, value in variables(whole.model_dir).items():
        found = variables(run.model_dir)[name]
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-6, err_msg=name)
    with pytest.raises(ek.NothingToDo):
        ek.run(run)
    # Another mix makes another input.
    other = run.model_copy(update={"train_mix": (f"{ads}/train-0*=1", f"{ads}/train-1*=1")})
    assert ek.run(other).rows_trained == 2 * 280


@pytest.mark.nightly  # The rule is in reading/test_files.py.
def test_days_choose_the_files(config, tmp_path):
    for day in range(1, 6):
        path = f"{tmp_path}/data/dt=2026-01-0{day}/part.tfrecord"
        writing.write_examples(path, make_rows(10 * day, seed=day))
    days = config(
        train_files=(f"{tmp_path}/data/dt=*/*",), eval_files=(f"{tmp_path}/data/dt=*/*",),
        train_days="3d..2026-01-04", eval_days="2026-01-05", mode="train_and_evaluate", epochs=1,
    )  # fmt: skip
    result = ek.run(days)
    assert (result.rows_trained, result.rows_evaluated) == (20 + 30 + 40, 50)
    with pytest.raises(ek.DataError, match=r"1 of 2 days are missing \(2026-01-06\)"):
        ek.run(days.model_copy(update={"train_days": "2d..2026-01-06"}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_days": "yesterday"}, "--train_days: got 'yesterday', expected a day (2026-01-07)"),
        ({"train_days": "2026-01-01"}, "--train_files, with --train_days: "),
        ({"train_mix": ("a=1",)}, "--train_files and --train_mix do not go together"),
        ({"train_files": (), "train_mix": ("a",)}, "--train_mix: expected pattern=share"),
        ({"deterministic": True, "early_stopping_metric": "loss", "save_checkpoints_secs": 9},
         "--deterministic with --early_stopping_metric does not go with --save_checkpoints_secs"),
    ],
)  # fmt: skip
def test_flags_that_do_not_go_together(config, changes, message):
    with pytest.raises(ek.ConfigError) as error:
        config(**changes)
    assert str(error.value).startswith(message)


def test_negatives_of_a_label_that_is_none(config):
    with pytest.raises(ek.ConfigError) as error:
        ek.run(config(keep_negatives="0.5"))
    assert str(error.value) == (
        "--keep_negatives: got '0.5': name a label, as in click=0.1 (labels of binary heads are: "
        "click, buy)"
    )


def test_a_folder_that_tensorflow_cannot_reach(config):
    from estimator_kit import exit_codes

    with pytest.raises(
        ek.ConfigError, match=r"--model_dir: 'nowhere://x': .* nowhere://\."
    ) as error:
        ek.run(config(model_dir="nowhere://x"))
    assert exit_codes.exit_code(error.value) == exit_codes.BAD_CONFIG


@pytest.mark.ci
def test_deterministic_trainings_are_equal_to_the_last_bit(ads, tmp_path):
    params = (
        "hidden_units=[16,8]", "dropout=0.2", "optimizers={linear: ftrl, '': lazy_adam}",
        "optimizer=adam",
    )  # fmt: skip
    runs = []
    for i in range(2):
        command = [
            sys.executable, str(ROOT / "run.py"), "--mode=train", f"--spec={ads}/spec.yaml",
            f"--model_dir={tmp_path}/{i}", f"--train_files={ads}/train-*", "--epochs=4",
            "--batch_size=64", "--deterministic", "--seed=5", "--model=wide_deep",
            *(f"--model_params={p}" for p in params),
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONHASHSEED": str(i + 1), "PYTHONPATH": str(ROOT)}
        runs.append(subprocess.Popen(command, env=environment, cwd=ROOT))
    try:
        assert [run.wait(timeout=300) for run in runs] == [0, 0]
    finally:
        for run in runs:
            run.kill()
    first, second = (variables(f"{tmp_path}/{i}") for i in range(2))
    assert first.keys() == second.keys() and len(first) > 10
    for name, value in first.items():
        assert np.asarray(value).tobytes() == np.asarray(second[name]).tobytes(), name
