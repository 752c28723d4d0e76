"""Later starts that find lost and damaged files, another input, or a finished run."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit import commands
from estimator_kit.errors import Locked, SessionLost
from estimator_kit.result import read_result
from estimator_kit.training import data_service
from estimator_kit.training.hooks.stop import OneSession
from estimator_kit.training.run import Training
from estimator_kit.training.trainer import Alone
from feature_specs.files import owners
from input_pipelines.record_files import tfrecords, writing
from tests.conftest import make_rows, small_run, variables


@pytest.fixture(scope="module")
def small(ads):
    scored = (f"{ads}/eval.tfrecord",)
    return lambda model_dir: small_run(
        ads, model_dir, model="linear", max_steps=4, predict_files=scored
    )


@pytest.mark.nightly  # test_training.py scores in batches of 7.
def test_the_loss_is_that_of_the_rows_whatever_the_batches(config, trained):
    losses = [
        ek.run(config(mode="evaluate", eval_batch_size=size)).metrics for size in (7, 199, 200)
    ]
    for metrics in losses:
        assert metrics["loss"] == pytest.approx(losses[0]["loss"], rel=1e-5)
        expected = metrics["loss/click"] + 0.5 * metrics["loss/buy"]
        assert metrics["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("mode", "damage"),
    [
        ("train", "lost"),
        ("evaluate", "garbage"),
        pytest.param("train", "garbage", marks=pytest.mark.nightly),
        pytest.param("evaluate", "lost", marks=pytest.mark.nightly),
    ],
)
def test_a_lost_checkpoint_file_never_restarts_training(config, trained, damage, mode):
    run = config(mode="train")
    state = pathlib.Path(run.model_dir) / "checkpoint"
    if damage == "lost":
        state.unlink()
    else:
        state.write_text("garbage")
    with pytest.raises(ek.CheckpointError) as error:
        ek.run(config(mode=mode, max_steps=9))
    assert str(error.value) == (
        f"{state} does not exist or names no checkpoint, but its folder has 2. Write the line "
        'model_checkpoint_path: "model.ckpt-4" into it, or choose another --model_dir.'
    )


@pytest.mark.ci
@pytest.mark.parametrize("mode", ["evaluate", pytest.param("train", marks=pytest.mark.nightly)])
def test_a_damaged_checkpoint_is_named_with_the_one_before_it(config, trained, mode, tmp_path):
    run = config(mode="train")
    data = pathlib.Path(f"{run.model_dir}/model.ckpt-4.data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:100])
    before = f"{run.model_dir}/model.ckpt-0"
    changes = {"max_steps": 9, "mode": mode}
    if mode == "train":
        changes.update(model_dir=str(tmp_path / "warm"), warm_start_from=run.model_dir)
    with pytest.raises(ek.CheckpointError) as error:
        ek.run(config(**changes))
    assert str(error.value).startswith(f"{data} is damaged: ")
    assert f". The checkpoint before it, {before}, can be read. To go on" in str(error.value)


def test_a_checkpoint_without_its_data_is_named(config, trained):
    run = config(mode="train")
    os.remove(f"{run.model_dir}/model.ckpt-4.data-00000-of-00001")
    with pytest.raises(ek.CheckpointError, match=r"model\.ckpt-4"):
        ek.run(config(mode="train", max_steps=9))


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("result.json", '{"mode": "train", "rows_lost": "x"}',
         "/result.json: rows_lost: got 'x', expected a valid integer. Repair or remove it."),
        ("input.json", '{"whole": [1]}',
         "/input.json: whole[1] is missing. Repair or remove it."),
        ("eval_history.jsonl", "{",
         "/eval_history.jsonl:1: .*. Repair or remove the line."),
        ("eval_history.jsonl", '{"global_step": 1, "metrics": {"loss": []}}',
         "/eval_history.jsonl:1: metrics.loss: got [], expected a "
         "valid number. "),
        ("export/best/best.json", '{"metric": "loss", "direction": "min", "history": [{}]}',
         "/best.json: history[0].value is missing. Repair or remove it."),
        ("export/best/keep.json", '{"liv": []}',
         "/keep.json: liv is unknown. Repair it: without it, versions that are pinned "),
        ("feature_spec/spec.json", '{"columns": {"city": 1}}',
         "/spec.json:1: the top level: the section 'features' is missing"
         ".*Repair .*/spec.json or remove it."),
        ("feature_spec/places.json", '{"linear/bias": [[["a", -1]]]}',
         "/places.json: linear/bias[0][0][1]: got -1, expected greater than or equal to 0. "),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named_before_training(config, trained, file, text, message):
    run = config()
    (pathlib.Path(run.model_dir) / file).write_text(text)
    message = "(?s)" + re.escape(message).replace(r"\.\*", ".*")
    with pytest.raises(ek.ConfigError, match=message):
        ek.run(config(exporters=("best",), max_steps=9))


@pytest.mark.nightly
def test_another_input_is_read_from_its_first_row_and_counted_anew(config, ads):
    ek.run(config(mode="train", max_steps=6))
    new = config(mode="train", max_steps=None, epochs=1, train_files=(f"{ads}/train-0.tfrecord",))
    result = ek.run(new)
    assert (result.rows_trained, result.global_step) == (150, 6 + 3)
    with pytest.raises(ek.NothingToDo):
        ek.run(new)
    again = ek.run(new.model_copy(update={"epochs": 2, "batch_size": 25}))
    assert (again.rows_trained, again.global_step) == (300, 9 + 12)


@pytest.mark.ci
def test_another_training_is_said_once(config, trained, caplog):
    caplog.set_level("INFO", logger="estimator_kit")
    ek.run(config(mode="train", max_steps=6, batch_size=25))
    ek.run(config(mode="train", max_steps=8, batch_size=25))
    assert [text for text in caplog.messages if text.startswith("training goes on")] == [
        "training goes on at step 4 otherwise than before: --batch_size: was 50, is 25; "
        "--max_steps: was 4, is 6",
        "training goes on at step 6 otherwise than before: --max_steps: was 6, is 8",
    ]


@pytest.mark.nightly
def test_a_model_directory_may_be_moved_with_its_best_export(config, trained, tmp_path):
    (tmp_path / "model").rename(tmp_path / "moved")
    moved = config(exporters=("best",), model_dir=str(tmp_path / "moved"), mode="export")
    assert ek.run(moved).exports["final"].startswith(str(tmp_path / "moved"))
    result = ek.run(config(exporters=("best",), model_dir=str(tmp_path / "moved"), max_steps=5))
    name = os.path.basename(trained.exports["best"])
    assert result.exports["best"].startswith(str(tmp_path / "moved" / "export" / "best"))
    assert (tmp_path / "moved" / "export" / "best" / name).exists()


def test_a_model_dir_that_is_a_file(config, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ek.ConfigError, match="/file is a file"):
        ek.run(config(model_dir=str(tmp_path / "file")))


def test_files_without_records_are_an_error(config, made, tmp_path):
    writing.write_examples(f"{tmp_path}/empty.tfrecord.gz", [])
    empty = (f"{tmp_path}/empty.tfrecord.gz",)
    for flag in ("train_files", "eval_files"):
        with pytest.raises(ek.DataError, match=f"--{flag}: its 1 files have no records"):
            ek.run(config(**{flag: empty}))
    shutil.copytree(made[0], config().model_dir, dirs_exist_ok=True)
    with pytest.raises(ek.DataError, match="--eval_files: its 1 files have no records"):
        ek.run(config(mode="evaluate", eval_files=empty))


def test_predictions_never_replace_their_input(config, trained, tmp_path):
    path = f"{tmp_path}/in.tfrecord"
    writing.write_examples(path, make_rows(3))
    with pytest.raises(ek.ConfigError, match=r"is one of --predict_files\. Name"):
        ek.run(config(mode="predict", predict_files=(path,), predict_output=path))
    assert tfrecords.count_records([path]) == 3


def test_no_row_gives_an_empty_file_of_predictions(config, trained, tmp_path):
    writing.write_examples(f"{tmp_path}/empty.tfrecord.gz", [])
    output = tmp_path / "out.jsonl"
    ek.run(config(mode="predict", predict_files=(f"{tmp_path}/empty.tfrecord.gz",),
                  predict_output=str(output)))  # fmt: skip
    assert output.read_text() == ""


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("model_dir", marks=pytest.mark.ci),
        pytest.param("export", marks=pytest.mark.nightly),
    ],
)
def test_warm_start_refuses_rows_that_mean_something_else(
    config, trained, tmp_path, document, source
):
    document["columns"]["city"]["list"] = ["oslo", "rome"]
    (tmp_path / "spec.json").write_text(json.dumps(document))
    path = trained.export_path if source == "export" else str(tmp_path / "model")
    new = config(spec=str(tmp_path / "spec.json"), model_dir=str(tmp_path / "new"),
                 warm_start_from=path, mode="train")  # fmt: skip
    with pytest.raises(ek.CheckpointError) as error:
        ek.run(new)
    crossed = "linear/linear_model/city_X_tags/weights: it means something else: columns.city"
    assert crossed in str(error.value)
    # The rows of the words themselves are moved.
    assert "linear/linear_model/city/weights" not in str(error.value)
    assert not (tmp_path / "new").exists()
    part = new.model_copy(update={"warm_start_vars": ".*/(user|bias_weights|tag).*"})
    assert ek.run(part).global_step == 4


class AbortedOnce(tf.compat.v1.train.SessionRunHook):
    """The session fails once at a step, with an error after which TensorFlow makes another one."""

    def __init__(self, step):
        self.left = step

    def before_run(self, run_context):
        self.left -= 1
        if self.left == 0:
            raise tf.errors.AbortedError(None, None, "a store did not answer")


@pytest.mark.ci
def test_a_session_that_is_lost_reads_no_row_twice(config, tmp_path, monkeypatch):
    """TensorFlow would go on from the checkpoint, but read from the first row of this start."""

    given = {"mode": "train", "max_steps": None, "epochs": 1, "save_checkpoints_steps": 2}
    whole, lost = config(**given, model_dir=str(tmp_path / "whole")), config(**given)
    ended = ek.run(whole)
    with monkeypatch.context() as patched:
        patched.setattr(data_service, "hooks", lambda *areas: [AbortedOnce(4)])
        with pytest.raises(tf.errors.UnavailableError, match="Start again to go on from the last"):
            ek.run(lost)
    assert read_result(lost.model_dir).global_step == 2
    again = ek.run(lost)
    assert again.global_step == ended.global_step > 4
    expected, found = variables(whole.model_dir), variables(lost.model_dir)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_session_that_fails_while_it_is_made_is_made_again():
    session = OneSession()
    session.after_create_session(None, None)
    session.after_create_session(None, None)  # TensorFlow tries again.
    session.before_run(None)
    with pytest.raises(SessionLost):
        session.after_create_session(None, None)


@pytest.mark.nightly
def test_an_early_stop_stays_one_if_the_process_is_killed_after_it(config):
    run = config(max_steps=9, save_checkpoints_steps=1, early_stopping_metric="max:loss",
                 early_stopping_patience=1,
                 exporters=("final",))  # fmt: skip
    first = ek.run(run)
    assert first.stop_reason == "early_stopped" and first.global_step < 9
    path = pathlib.Path(run.model_dir, "result.json")  # As before the last export.
    path.write_text(json.dumps({**json.loads(path.read_text()), "status": "running"}))
    shutil.rmtree(os.path.dirname(first.exports["final"]))
    again = ek.run(run)
    assert (again.stop_reason, again.global_step) == ("early_stopped", first.global_step)
    assert os.path.isdir(again.exports["final"])
    with pytest.raises(ek.NothingToDo, match="was stopped early at step"):
        ek.run(run)


class Uncounted(ek.ModelFn):
    """Its training op does not increase the global step. Another op does."""

    def logits(self, features, mode):
        value = tf.compat.v1.get_variable("value", [2], initializer=tf.zeros_initializer())
        return tf.tile(value[tf.newaxis], [tf.shape(features["user"])[0], 1])

    def train_op(self, loss):
        tf.compat.v1.assign_add(tf.compat.v1.train.get_global_step(), 1)
        return tf.compat.v1.train.AdamOptimizer().minimize(loss)


class Countless(Uncounted):
    """No op of its graph increases the global step."""

    def train_op(self, loss):
        return tf.compat.v1.train.AdamOptimizer().minimize(loss)


def test_a_train_op_that_does_not_count_is_stopped(config):
    with pytest.raises(ek.ConfigError, match="train_op does not increase the global step"):
        ek.run(config(model="tests.integration.test_restarts:Uncounted", mode="train"))


def test_a_graph_that_does_not_count_is_refused_before_a_file_is_written(config):
    run = config(model="tests.integration.test_restarts:Countless", mode="train")
    message = r"test_restarts\.py:\d+: Countless\.train_op: no op increases the global step, so"
    with pytest.raises(ek.ConfigError, match=message):
        ek.run(run)
    assert not os.path.exists(run.model_dir)


@pytest.mark.ci
@pytest.mark.nightly
def test_an_undefined_metric_is_no_reason_to_stop(config, tmp_path, caplog):
    rows = [{**row, "click": 0, "buy": 0} for row in make_rows(50)]
    path = f"{tmp_path}/nobody.tfrecord"
    writing.write_examples(path, rows)
    run = config(eval_files=(path,), early_stopping_metric="auc/click", max_steps=4,
                 save_checkpoints_steps=1, early_stopping_patience=1)  # fmt: skip
    with caplog.at_level("WARNING", logger="estimator_kit"):
        result = ek.run(run)
    assert result.stop_reason == "max_steps" and np.isnan(result.metrics["auc/click"])
    assert "auc/click is undefined: the evaluation files have no rows for it" in caplog.text


def test_an_undefined_metric_cannot_say_when_training_ends(config, tmp_path):
    path = f"{tmp_path}/nobody.tfrecord"
    writing.write_examples(path, [{**row, "click": 0, "buy": 0} for row in make_rows(50)])
    run = config(eval_files=(path,), best_metric="auc/click", epochs=None, max_steps=None)
    message = (
        r"^auc/click is undefined in the evaluation of step \d+, so it cannot say when training is "
        r"to end\. The 50 rows of --eval_files have no rows for it, .* or give --max_steps\.$"
    )
    with pytest.raises(ek.DataError, match=message):
        ek.run(run)


def test_a_training_without_a_best_evaluation_says_so(config, tmp_path):
    path = f"{tmp_path}/nobody.tfrecord"
    writing.write_examples(path, [{**row, "click": 0, "buy": 0} for row in make_rows(50)])
    told = []
    run = config(eval_files=(path,), best_metric="auc/click", exporters=("best",), max_steps=2)
    result = commands.run(run, told.append)
    assert not result.exports
    warning = "WARNING: auc/click is undefined in all evaluations, so no SavedModel of the best one"
    assert sum(text.startswith(warning) for text in told) == 1
    told.clear()
    commands.run(config(exporters=("best",), model_dir=f"{tmp_path}/defined"), told.append)
    assert not any("WARNING" in text for text in told)


@pytest.mark.nightly
def test_more_epochs_begin_with_the_first_row_of_the_next_one(config, ads):
    """The last batch of the epoch with which training ended was smaller than the batch size."""
    one = (f"{ads}/train-0.tfrecord",)  # 150 rows: four batches of 40, the last of 30.
    run = config(mode="train", max_steps=None, epochs=1, train_files=one, batch_size=40)
    assert ek.run(run).rows_trained == 150
    # Stopped before the end: three batches of 40 of the second epoch.
    part = ek.run(run.model_copy(update={"epochs": 3, "max_steps": 7}))
    assert (part.rows_trained, part.global_step) == (120, 7)
    # The rest of the three epochs, and a fourth epoch: 150 * 4 - 150 - 120 rows.
    rest = ek.run(run.model_copy(update={"epochs": 3}))
    assert (rest.rows_trained, rest.global_step) == (180, 4 + 8)
    last = ek.run(run.model_copy(update={"epochs": 4}))
    assert (last.rows_trained, last.global_step) == (150, 4 + 8 + 4)


@pytest.mark.nightly
def test_checkpoints_and_evaluations_come_at_the_same_steps_after_a_stop(config):
    run = config(max_steps=7, save_checkpoints_steps=5, eval_throttle_secs=0)
    ek.run(run)
    ek.run(run.model_copy(update={"max_steps": 16}))
    lines = (pathlib.Path(run.model_dir) / "eval_history.jsonl").read_text().splitlines()
    # Starts ended at the steps 7 and 16.
    assert [json.loads(line)["global_step"] for line in lines] == [5, 7, 10, 15, 16]


def test_a_second_start_on_one_model_dir_is_refused(config):
    run = config(mode="train")
    with owners.held(run.model_dir), pytest.raises(Locked) as error:
        ek.run(run)
    assert re.fullmatch(
        rf"{run.model_dir} is locked by .* on .*, process {os.getpid()}\. Only one start works in "
        "a folder at a time. Try again when the other start has ended.", str(error.value),
    )  # fmt: skip
    assert not (pathlib.Path(run.model_dir) / "result.json").exists()


@pytest.mark.ci
def test_a_start_that_another_one_overtook_is_refused(config, monkeypatch):
    run = config(mode="train")
    original = Training.plan

    def overtaken(self):
        original(self)
        monkeypatch.setattr(Training, "plan", original)
        ek.run(run)

    monkeypatch.setattr(Training, "plan", overtaken)
    with pytest.raises(Locked, match=r"another start has trained in .* since this start read it"):
        ek.run(run)


def test_a_file_that_becomes_shorter_while_it_is_read_is_named(config, ads, tmp_path, monkeypatch):
    """TensorFlow treats the new end of the file as the end of the input."""
    paths = [str(tmp_path / f"{i}.tfrecord") for i in range(2)]
    for i, path in enumerate(paths):
        shutil.copy(f"{ads}/train-{i}.tfrecord", path)
    size = os.path.getsize(paths[1])
    original = Alone.train

    def meanwhile(self, steps):
        writing.write_examples(paths[1], make_rows(40))
        original(self, steps)

    monkeypatch.setattr(Alone, "train", meanwhile)
    run = config(mode="train", max_steps=None, epochs=1, train_files=tuple(paths))
    with pytest.raises(ek.DataError) as error:
        ek.run(run)
    now = os.path.getsize(paths[1])
    assert str(error.value) == (
        "the training files had 90 rows fewer than at the start, when they had 280: "
        f"{paths[1]} had {size:,} bytes and now has {now:,}. The model is trained to step 4 of 6. "
        "Start again, and do not change files while they are read."
    )
    assert read_result(run.model_dir).status == "failed"
