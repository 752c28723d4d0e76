"""Whole runs in this process: train, resume, finish, evaluate, export, warm start, go wrong."""

from __future__ import annotations

import json
import logging
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.result import EvaluationResult, read_result
from input_pipelines.record_files import writing
from tests.conftest import ROOT, make_rows, place, small_run, variables
from tests.integration.own_model import MissedClicks

SMALL = {"hidden_units": [8], "learning_rate": 0.1}


@pytest.fixture(scope="module")
def small(ads):
    return lambda model_dir: small_run(
        ads, model_dir, model="wide_deep", model_params=SMALL, max_steps=20,
        save_checkpoints_steps=20,
    )  # fmt: skip


@pytest.fixture
def read_lines():
    def read(path):
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    return read


def test_a_run_from_start_to_end(config, read_lines, tmp_path):
    run = config(exporters=("latest", "best", "final"), best_metric="auc/click",
                 max_steps=90, save_checkpoints_steps=30)  # fmt: skip
    result = ek.run(run)
    assert (result.status, result.stop_reason, result.global_step) == ("done", "max_steps", 90)
    assert result.rows_trained == 4500 and result.rows_evaluated == 200
    assert result.examples_per_second > 0
    assert result.metrics["auc/click"] > 0.8
    assert set(result.exports) == {"latest", "best", "final"}
    kept = read_result(run.model_dir)
    assert kept.export_path == result.exports["final"] == result.export_path
    assert kept.metrics["auc/click"] == result.metrics["auc/click"]
    steps = [entry["global_step"] for entry in read_lines(f"{run.model_dir}/eval_history.jsonl")]
    assert steps == [30, 60, 90]
    assert tf.saved_model.load(result.export_path).signatures["serving_default"] is not None
    # The stored run record gives the same config and spec again.
    spec = ek.load_spec(f"{run.model_dir}/feature_spec/spec.json")
    assert spec.to_dict() == ek.load_spec(run.spec).to_dict()
    with open(f"{run.model_dir}/flags.txt", encoding="utf-8") as file:
        assert "--max_steps=90\n" in file.read()
    with open(f"{run.model_dir}/versions.json", encoding="utf-8") as file:
        assert json.load(file)["tensorflow"] == tf.__version__


def test_a_training_without_a_length_ends_when_it_stops_improving(config, read_lines):
    run = config(
        max_steps=None,
        save_checkpoints_steps=None,
        early_stopping_patience=1,
        best_metric="auc/click",
        exporters=("best", "final"),
    )
    result = ek.run(run)
    assert (result.status, result.stop_reason) == ("done", "early_stopped")
    entries = read_lines(f"{run.model_dir}/eval_history.jsonl")
    # An epoch has fewer than 50 steps, so there are 50 steps between two evaluations.
    assert [e["global_step"] for e in entries] == [50 * (i + 1) for i in range(len(entries))]
    aucs = [entry["metrics"]["auc/click"] for entry in entries]
    assert aucs.index(max(aucs)) == len(aucs) - 2
    assert result.metrics["auc/click"] == max(aucs)
    assert result.export_path == result.exports["best"]
    assert "--epochs=100\n" in (pathlib.Path(run.model_dir) / "flags.txt").read_text()
    with pytest.raises(ek.NothingToDo, match="was stopped early at step"):
        ek.run(run)


@pytest.mark.ci
def test_an_export_says_how_it_was_checked(config, trained):
    checks = []
    for fields in ({}, {"eval_files": ()}):
        again = ek.run(config(mode="export", **fields))
        assert again.global_step == 20
        extra = f"{again.exports['final']}/assets.extra"
        with open(f"{extra}/metrics.json", encoding="utf-8") as file:
            assert json.load(file)["auc/click"] == trained.metrics["auc/click"]
        with open(f"{extra}/lineage.json", encoding="utf-8") as file:
            checks.append(json.load(file)["check"])
    # The first 100 rows, and one more with a value that none of them has.
    assert checks[0]["rows"] == 101 and checks[0]["largest_difference"] <= 1e-5
    assert checks[1] == "not checked: no rows to send. Give --eval_files."
    with pytest.raises(ek.ConfigError, match="--default_signature=predict/clik: the model has no"):
        ek.run(config(mode="export", default_signature="predict/clik"))


def test_every_file_of_a_run_is_in_the_reference(config, trained):
    page = (ROOT / "docs/reference/files.md").read_text("utf-8")
    of_runs, of_exports = (
        [re.sub(r"<\w+>", "[^/]+", re.escape(form).replace(r"\*\*", ".+"))
         for form in re.findall(r"^\| `(.+?)` \|", part, re.MULTILINE)]
        for part in page.split("## In an export")
    )  # fmt: skip
    folder = pathlib.Path(config().model_dir)
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    inside = {"/".join(p.parts[3:]) for p in paths if p.parts[0] == "export" and p.parts[3:]}
    assert "saved_model.pb" in inside
    for found, forms in (({*map(str, paths)}, of_runs), (inside, of_exports)):
        assert {p for p in found if not any(re.fullmatch(form, p) for form in forms)} == set()


def test_a_second_start_has_nothing_to_do_and_touches_nothing(config, trained, tmp_path):
    run = config()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for mode in ("train_and_evaluate", "train"):
        with pytest.raises(ek.NothingToDo) as error:
            ek.run(run.model_copy(update={"mode": mode}))
        assert str(error.value) == (
            f"{run.model_dir} is already trained to step 20 of 20. Raise --max_steps or --epochs, "
            "or choose another --model_dir."
        )
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.nightly
def test_an_interrupted_training_ends_as_an_undisturbed_one(config, tmp_path):
    epochs = {"mode": "train", "epochs": 5, "max_steps": None}
    whole = config(model_dir=str(tmp_path / "whole"), **epochs)
    pieces = config(model_dir=str(tmp_path / "pieces"), **epochs)
    assert ek.run(whole).stop_reason == "input_exhausted"
    first = ek.run(pieces.model_copy(update={"max_steps": 17}))
    assert (first.stop_reason, first.global_step) == ("max_steps", 17)
    second = ek.run(pieces)
    assert (second.stop_reason, second.global_step) == ("input_exhausted", 40)
    assert second.rows_trained == 5 * 400 - 17 * 50
    expected, found = variables(whole.model_dir), variables(pieces.model_dir)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.nightly  # test_unfinished.py ends evaluations.
def test_a_start_after_the_last_checkpoint_evaluates_and_exports(config, read_lines):
    run = config(exporters=("final",))
    ek.run(run.model_copy(update={"mode": "train"}))
    result = ek.run(run)
    assert (result.stop_reason, result.global_step) == ("already_done", 20)
    assert result.rows_trained == 0 and result.rows_evaluated == 200
    assert set(result.exports) == {"final"}
    assert [e["global_step"] for e in read_lines(f"{run.model_dir}/eval_history.jsonl")] == [20]
    with pytest.raises(ek.NothingToDo):
        ek.run(run)


def test_evaluate_scores_what_training_had(config, trained):
    scored = ek.run(config(mode="evaluate", eval_batch_size=7))
    assert scored.metrics["auc/click"] == pytest.approx(trained.metrics["auc/click"], abs=1e-9)
    assert scored.metrics["loss/buy"] == pytest.approx(trained.metrics["loss/buy"], abs=1e-6)
    assert scored.rows_evaluated == 200


def test_an_evaluation_is_kept_under_its_name(config, trained):
    run = config(mode="evaluate", eval_name="holdout")
    curve = set(pathlib.Path(run.model_dir, "eval").glob("events*"))
    scored = ek.run(run)
    kept = EvaluationResult.load(f"{run.model_dir}/evaluation-holdout.json")
    assert kept.metrics == scored.metrics and kept.rows_evaluated == 200
    assert (kept.eval_name, kept.global_step) == ("holdout", scored.global_step)
    assert kept.checkpoint == f"{run.model_dir}/model.ckpt-{scored.global_step}"
    assert kept.eval_files == sorted(run.eval_files)
    # In TensorBoard the curve of the training's own evaluations has one value at this step.
    assert set(pathlib.Path(run.model_dir, "eval").glob("events*")) == curve
    assert list(pathlib.Path(run.model_dir, "eval_holdout").glob("events*"))


@pytest.mark.nightly  # test_exporters.py has the rule.
def test_the_best_export_survives_a_restart(config):
    run = config(exporters=("best",), best_metric="loss/click", max_steps=20)
    first = ek.run(run)
    path = f"{run.model_dir}/export/best/best.json"
    with open(path, encoding="utf-8") as file:
        kept = json.load(file)
    assert first.exports["best"].endswith("/export/best/" + kept["history"][-1]["version"])
    # This value is better than any model reaches, so nothing after the restart may replace it.
    kept["history"][-1]["value"] = 0.0
    with open(path, "w", encoding="utf-8") as file:
        json.dump(kept, file)
    second = ek.run(run.model_copy(update={"max_steps": 40}))
    assert second.exports == first.exports


@pytest.mark.nightly
def test_a_model_with_its_own_losses_metrics_and_hooks(config, read_lines, caplog):
    run = config(
        model=MissedClicks, model_params={"learning_rate": 2.0}, max_steps=1000,
        save_checkpoints_steps=10, early_stopping_metric="loss", early_stopping_patience=2,
        exporters=("best",),
    )  # fmt: skip
    with caplog.at_level(logging.INFO, "estimator_kit"):
        result = ek.run(run)
    assert result.stop_reason == "early_stopped" and result.global_step < 1000
    entries = [each["metrics"] for each in read_lines(f"{run.model_dir}/eval_history.jsonl")]
    for found in entries:
        parts = found["example_loss/click"] + 0.5 * found["loss/buy"]
        assert found["loss"] == pytest.approx(parts, rel=1e-5)
    with open(f"{run.model_dir}/export/best/best.json", encoding="utf-8") as file:
        kept = json.load(file)["history"]
    assert kept[-1]["value"] == pytest.approx(min(found["loss"] for found in entries))
    hooks = [message for message in caplog.messages if message.startswith("own hook")]
    assert hooks.count("own hook: 1 steps of eval") == len(entries)
    assert hooks[-1] == f"own hook: {result.global_step} steps of train"

    scored = ek.run(
        ek.ExperimentConfig(
            mode="evaluate", export_dir=result.exports["best"], eval_files=run.eval_files
        )
    )
    assert {"missed", "example_loss/click"} <= set(scored.metrics_left_out)
    best = min(entries, key=lambda found: found["loss"])
    assert scored.metrics["loss/click"] == pytest.approx(best["loss/click"], rel=1e-5)


@pytest.mark.parametrize(
    "source",
    ["checkpoint", *(pytest.param(s, marks=pytest.mark.nightly) for s in ("model_dir", "export"))],
)
def test_warm_start_takes_the_weights_and_no_slots_but_those_of_ftrl(
    config, trained, tmp_path, source
):
    old = config()
    path = {
        "model_dir": old.model_dir,
        "checkpoint": tf.train.latest_checkpoint(old.model_dir),
        "export": trained.export_path,
    }[source]
    new = config(
        model_dir=str(tmp_path / "new"), warm_start_from=path, max_steps=1, mode="train",
        model_params={"hidden_units": [8], "learning_rate": 1e-9, "linear_learning_rate": 1e-9},
    )  # fmt: skip
    ek.run(new)
    before, after = variables(old.model_dir), variables(new.model_dir)
    assert after["global_step"] == 1
    slots = [name for name in after if "Adagrad" in name or "Ftrl" in name]
    assert slots
    for name, value in before.items():
        if name not in slots and name != "global_step" and "linear/" not in name:
            np.testing.assert_allclose(after[name], value, atol=1e-5, err_msg=name)
    kernel = "dnn/hiddenlayer_0/kernel/Adagrad"
    assert not np.allclose(before[kernel], after[kernel])


@pytest.mark.nightly
def test_ftrl_keeps_the_weights_of_a_warm_start(config, tmp_path, caplog):
    model = {"model": "linear", "model_params": {"learning_rate": 0.2}, "mode": "train"}
    old = config(**model)
    ek.run(old)
    export = ek.run(config(**{**model, "mode": "export"})).export_path

    def change_in_a_step(name, source):
        new = config(**model, model_dir=str(tmp_path / name), warm_start_from=source, max_steps=1)
        caplog.clear()
        with caplog.at_level("WARNING", "estimator_kit"):
            ek.run(new)
        before, after = variables(old.model_dir), variables(new.model_dir)
        names = [n for n in before if n.endswith("weights")]
        return max(np.abs(after[n] - before[n]).max() / np.abs(before[n]).max() for n in names)

    kept = change_in_a_step("checkpoint", old.model_dir)
    assert not [m for m in caplog.messages if "FTRL" in m]
    # An export has no slots, so the kit can only warn.
    forgotten = change_in_a_step("export", export)
    assert kept < 0.4 < 2 * kept < forgotten, (kept, forgotten)
    assert any("so FTRL will forget the weights" in message for message in caplog.messages)


@pytest.mark.ci
def test_warm_start_refuses_what_does_not_fit(config, trained, tmp_path, document):
    old = config()
    document["columns"]["user"]["size"] = 21
    (tmp_path / "spec.json").write_text(json.dumps(document))
    new = config(spec=str(tmp_path / "spec.json"), model_dir=str(tmp_path / "new"),
                 warm_start_from=old.model_dir)  # fmt: skip
    with pytest.raises(ek.CheckpointError) as error:
        ek.run(new)
    table = "dnn/input_from_feature_columns/input_layer/user_embedding/embedding_weights"
    assert f"{table}: [20, 4] in the source, [21, 4] in the model" in str(error.value)
    assert "linear/linear_model/user/weights: [20, 2] in the source" in str(error.value)
    assert "variables to take, these do not fit:\n" in str(error.value)
    assert not (tmp_path / "new").exists()
    partly = new.model_copy(update={"warm_start_vars": "dnn/(hidden|logits).*", "mode": "train"})
    assert ek.run(partly).global_step == 20
    with pytest.raises(ek.ConfigError, match="--warm_start_vars=dn matches none of the model's"):
        ek.run(new.model_copy(update={"warm_start_vars": "dn", "model_dir": str(tmp_path / "n2")}))
    with pytest.raises(ek.ConfigError, match="expected a checkpoint, a model directory with a"):
        ek.run(new.model_copy(update={"warm_start_from": str(tmp_path), "model_dir": "x"}))


def test_a_checkpoint_that_does_not_fit_lists_the_variables(config, trained, tmp_path):
    run = config(mode="train")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    wider = run.model_copy(update={"model_params": {"hidden_units": [9]}, "max_steps": 30})
    with pytest.raises(ek.CheckpointError) as error:
        ek.run(wider)
    assert "dnn/hiddenlayer_0/kernel: [11, 8] in the checkpoint, [11, 9] in the model" in str(
        error.value
    )
    other = run.model_copy(update={"model_params": {"hidden_units": [8], "optimizer": "sgd"}})
    with pytest.raises(ek.CheckpointError) as error:
        ek.run(other.model_copy(update={"max_steps": 30}))
    assert "dnn/logits/bias/Adagrad: [2] in the checkpoint, not in the model" in str(error.value)
    assert str(error.value).endswith(
        'The checkpoint was trained with the optimizer "adagrad", and this start has "sgd". To '
        "go on with the old one, add '--model_params=optimizer=\"adagrad\"' "
        "'--model_params=learning_rate=0.1'."
    )
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_spec_that_means_something_else_is_refused(config, trained, tmp_path, document):
    run = config(mode="train")
    document["columns"]["city"]["list"] = ["oslo", "rome"]  # The shapes stay, the meanings change.
    document["objectives"]["buy"]["loss_weight"] = 0.7  # Allowed.
    document["objectives"]["click"]["metrics"] = ["log_loss"]  # Also allowed.
    (tmp_path / "spec.json").write_text(json.dumps(document))
    with pytest.raises(ek.CheckpointError) as error:
        ek.run(run.model_copy(update={"spec": str(tmp_path / "spec.json"), "max_steps": 30}))
    lines = str(error.value).splitlines()
    assert lines[0] == f"the spec differs from the spec that {run.model_dir} was trained with:"
    assert [line.split(":")[0] for line in lines[1:-1]] == ["  columns.city.words"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"best_metric": "auc", "exporters": ("best",)},
         "--best_metric=auc: the model has no such metric. Did you mean 'auc/buy'?"),
        ({"early_stopping_metric": "auc/clik"},
         "--early_stopping_metric=auc/clik: the model has no such metric. Did you mean "
         "'auc/click'?"),
        ({"model": "dnnn"}, "unknown model 'dnnn'. Did you mean 'dnn'? Write your own model as "
                            "package.module:ClassName."),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_anything_is_written(config, change, message, tmp_path):
    with pytest.raises(ek.ConfigError) as error:
        ek.run(config(**change))
    assert str(error.value) == message
    assert list(tmp_path.iterdir()) == []


def test_the_same_file_may_not_train_and_score(config, ads):
    with pytest.raises(ek.ConfigError, match="a model must not be scored on what it was trained"):
        ek.run(config(eval_files=(f"{ads}/train-0.tfrecord",)))


BAD_RECORDS = [
    ({"click": None},
     "label 'click' is missing; if records may lack it, say missing: mask in the "
     "spec, to give them no weight"),
    ({"click": 3}, "label 'click' is 3, expected 0 or 1 for the binary head of objective 'click'"),
    ({"price": float("nan")}, "feature 'price' is nan, expected a finite number"),
    ({"city": 7}, "feature 'city' is int64, expected string"),
]  # fmt: skip


@pytest.mark.ci
@pytest.mark.parametrize(
    ("where", "change", "message"),
    [
        ("train", *BAD_RECORDS[0]),
        *(
            pytest.param(where, *BAD_RECORDS[i], marks=pytest.mark.nightly)
            for where, i in (("train", 1), ("train", 2), ("train", 3), ("eval", 0), ("eval", 1),
                             ("eval", 2), ("eval", 3))
        ),
    ],
)  # fmt: skip
def test_a_bad_record_is_named_and_nothing_is_lost(
    config, trained, tmp_path, change, message, where
):
    run = config(mode="train")
    rows = make_rows(60)
    rows[33].update(change)
    bad = f"{tmp_path}/bad.tfrecord"
    writing.write_examples(bad, rows)
    mode = "train" if where == "train" else "train_and_evaluate"
    changed = {"max_steps": 30, "mode": mode, f"{where}_files": (bad,)}
    with pytest.raises(ek.DataError) as error:
        ek.run(run.model_copy(update=changed))
    assert str(error.value) == f"{bad}: {place(bad, 33)}: {message}"
    assert tf.train.latest_checkpoint(run.model_dir) is not None
    kept = read_result(run.model_dir)
    assert kept.status == "failed" and message in kept.error
    assert ek.run(run.model_copy(update={"max_steps": 21})).status == "done"


class Exploding(ek.ModelFn):
    """Its loss is NaN from the third step on."""

    def logits(self, features, mode):
        value = tf.compat.v1.get_variable("value", [2], initializer=tf.zeros_initializer())
        return tf.tile(value[tf.newaxis], [tf.shape(features["user"])[0], 1])

    def loss(self, losses):
        step = tf.compat.v1.train.get_global_step()
        return tf.where(step < 3, losses["click"], float("nan"))


def test_a_loss_that_is_nan_stops_without_saving_it(config, tmp_path):
    run = config(model="tests.integration.test_training:Exploding", model_params={},
                 mode="train", save_checkpoints_steps=1)  # fmt: skip
    with pytest.raises(ek.LossError) as error:
        ek.run(run)
    assert str(error.value).startswith("the loss became NaN or infinite, and the step was not appl")
    saved = variables(run.model_dir)
    assert saved["global_step"] == 3
    assert np.isfinite(saved["value"]).all()


class Buggy(Exploding):
    """A bug in user code: an index that is out of range at run time."""

    def loss(self, losses):
        return tf.gather(tf.stack([losses["click"], losses["buy"]]), 5)


def test_a_bug_in_a_model_is_not_blamed_on_the_data(config):
    run = config(model="tests.integration.test_training:Buggy", model_params={}, mode="train")
    with pytest.raises(tf.errors.InvalidArgumentError):
        ek.run(run)


@pytest.mark.parametrize("mode", ["evaluate", "export"])
def test_modes_that_need_a_checkpoint_say_so(config, mode):
    run = config(mode=mode)
    with pytest.raises(ek.ConfigError) as error:
        ek.run(run)
    assert str(error.value) == (
        f"--model_dir={run.model_dir} has no checkpoint. Train the model first, or check the path."
    )


def test_a_mode_of_one_process_refuses_a_cluster(config, monkeypatch):
    cluster = {"chief": ["a:1"], "worker": ["b:1"]}
    task = {"type": "chief", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    with pytest.raises(ek.ConfigError) as error:
        ek.run(config(mode="evaluate"))
    assert str(error.value) == (
        "TF_CONFIG describes a cluster of 2 tasks, but --mode=evaluate runs in one process. Unset "
        "TF_CONFIG."
    )


@pytest.mark.nightly
def test_all_heads_in_one_model(config, tmp_path, document):
    document["labels"] = {
        "click": {"dtype": "int64"},
        "city_class": {"dtype": "string", "vocabulary": ["rome", "oslo", "lima"]},
        "amount": {"dtype": "float32"},
    }
    document["objectives"] = {
        "click": {"head": "binary"},
        "where": {"head": "multi_class", "num_classes": 3, "label": "city_class"},
        "amount": {"head": "regression", "loss_weight": 0.01},
    }
    (tmp_path / "spec.json").write_text(json.dumps(document))
    for name, seed in (("train", 0), ("eval", 1)):
        rows = [
            {**row, "city_class": row["city"], "amount": 2 * row["price"]}
            for row in make_rows(300, seed)
        ]
        writing.write_examples(f"{tmp_path}/{name}.tfrecord", rows)
    result = ek.run(
        config(
            spec=str(tmp_path / "spec.json"), model="dnn", max_steps=150, exporters=("final",),
            train_files=(f"{tmp_path}/train.tfrecord",), eval_files=(f"{tmp_path}/eval.tfrecord",),
        )
    )  # fmt: skip
    assert result.metrics["accuracy/where"] > 0.95
    assert result.metrics["root_mean_squared_error/amount"] < 6.5
    signatures = set(tf.saved_model.load(result.export_path).signatures)
    assert signatures == {
        "serving_default", "predict_examples", "predict_raw", "predict/click", "classify/click",
        "regress/click", "predict/where", "classify/where", "predict/amount", "regress/amount",
    }  # fmt: skip


@pytest.mark.ci
def test_a_model_directory_that_is_moved_still_works(config, trained, tmp_path):
    shutil.move(str(tmp_path / "model"), str(tmp_path / "moved"))
    assert ek.run(config(mode="evaluate", model_dir=str(tmp_path / "moved"))).rows_evaluated == 200
