"""Later starts whose scores mean something else: other evaluation files, another loss."""

from __future__ import annotations

import json
import os
import pathlib
import shutil

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.training.after_evaluation import AfterEvaluation
from input_pipelines.record_files import writing
from tests.conftest import make_rows, small_run


@pytest.fixture(scope="module")
def small(ads):
    return lambda model_dir: small_run(
        ads, model_dir, model="linear", model_params={"learning_rate": 0.02}, max_steps=5,
        save_checkpoints_steps=5, early_stopping_metric="loss", early_stopping_patience=1,
        exporters=("best",),
    )  # fmt: skip


@pytest.fixture
def easy(tmp_path):
    """Rows without a click, and so without a loss of `buy`: the loss is lower than of all rows."""
    path = tmp_path / "easy.tfrecord"
    rows = [row for row in make_rows(200, seed=9) if not row["click"]]
    writing.write_examples(str(path), rows)
    return (str(path),)


def lines(run):
    text = pathlib.Path(run.model_dir, "eval_history.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def best(run):
    """(step, folder) of each best export."""
    path = pathlib.Path(run.model_dir, "export", "best", "best.json")
    return [(e["global_step"], e["version"]) for e in json.loads(path.read_text())["history"]]


def make_old(run):
    """Leaves the model directory as the version before eval_meaning.json has left it."""
    folder = pathlib.Path(run.model_dir)
    (folder / "eval_meaning.json").unlink()
    text = "".join(
        json.dumps({key: entry[key] for key in ("global_step", "metrics")}) + "\n"
        for entry in lines(run)
    )
    (folder / "eval_history.jsonl").write_text(text)
    for path in (folder / "export" / "best" / "best.json", folder / "result.json"):
        document = json.loads(path.read_text())
        for entry in (document, *document.get("history", ())):
            entry.pop("scores", None)
        path.write_text(json.dumps(document))


def check_began_again(run, result, caplog):
    """The loss of step 15 is below the one of step 10, and both are above the one of step 5."""
    losses = [entry["metrics"]["loss"] for entry in lines(run)]
    steps = [entry["global_step"] for entry in lines(run)]
    assert steps == [5, 10, 15] and losses[0] < losses[2] < losses[1]
    digests = [entry["scores"] for entry in lines(run)]
    assert digests[0] != digests[1] == digests[2] == result.scores
    assert (result.stop_reason, result.global_step) == ("max_steps", 15)
    assert best(run)[-1] == (15, os.path.basename(result.exports["best"]))
    warnings = [text for text in caplog.messages if text.startswith("scores are measured")]
    assert len(warnings) == 1 and warnings[0].startswith(
        "scores are measured otherwise since step 5 ("
    )
    return warnings[0]


@pytest.mark.ci
def test_other_evaluation_files_begin_best_and_early_stopping_again(config, easy, caplog):
    ek.run(config(eval_files=easy))
    run = config(max_steps=15)
    with caplog.at_level("WARNING", logger="estimator_kit"):
        result = ek.run(run)
    text = check_began_again(run, result, caplog)
    assert "(files of --eval_files: was {" in text


@pytest.mark.nightly
def test_other_evaluation_files_of_an_old_directory_begin_again(config, easy, caplog):
    ek.run(config(eval_files=easy))
    make_old(config())
    run = config(max_steps=15)
    with caplog.at_level("WARNING", logger="estimator_kit"):
        result = ek.run(run)
    text = check_began_again(run, result, caplog)
    assert f'(--eval_files: was ["{easy[0]}"], is [' in text


@pytest.mark.nightly
def test_another_loss_begins_best_and_early_stopping_again(config, tmp_path, document, caplog):
    ek.run(config())
    document["objectives"]["click"]["loss_weight"] = 2.0
    (tmp_path / "spec.json").write_text(json.dumps(document))
    run = config(spec=str(tmp_path / "spec.json"), max_steps=15)
    with caplog.at_level("WARNING", logger="estimator_kit"):
        result = ek.run(run)
    text = check_began_again(run, result, caplog)
    assert "(objectives.click.loss_weight: was 1.0, is 2.0)" in text


@pytest.mark.ci
@pytest.mark.parametrize("other", ["path", pytest.param("version", marks=pytest.mark.nightly)])
def test_the_same_scores_go_on(config, ads, tmp_path, other, caplog):
    run = config()
    ek.run(run)
    path = pathlib.Path(run.model_dir, "export", "best", "best.json")
    kept = json.loads(path.read_text())
    kept["history"][-1]["value"] = 0.0  # Better than any model.
    path.write_text(json.dumps(kept))
    if other == "version":
        make_old(run)
    else:
        os.mkdir(tmp_path / "fetched")
        shutil.copyfile(f"{ads}/eval.tfrecord", tmp_path / "fetched" / "rows.tfrecord")
        os.utime(tmp_path / "fetched" / "rows.tfrecord", (1, 1))
        run = config(eval_files=(f"{tmp_path}/fetched/rows.tfrecord",))
    with pytest.raises(ek.NothingToDo, match="is already trained to step 5 of 5"):
        ek.run(run)
    with caplog.at_level("WARNING", logger="estimator_kit"):
        ek.run(run.model_copy(update={"max_steps": 10}))
    assert [entry["global_step"] for entry in lines(run)] == [5, 10]
    assert len({entry["scores"] for entry in lines(run)}) == 1
    assert best(run)[-1][0] == 5
    assert not [text for text in caplog.messages if text.startswith("scores are measured")]


@pytest.mark.ci
def test_a_finished_training_is_scored_on_other_files(config, easy):
    run = config(exporters=("best", "final"))
    first = ek.run(run)
    other = run.model_copy(update={"eval_files": easy})
    second = ek.run(other)
    assert (second.stop_reason, second.global_step) == ("already_done", 5)
    assert second.rows_trained == 0 and second.rows_evaluated < first.rows_evaluated == 200
    assert second.metrics["loss"] != first.metrics["loss"]
    assert [entry["global_step"] for entry in lines(run)] == [5, 5]
    for exporter in ("best", "final"):
        assert second.exports[exporter] > first.exports[exporter]
    with pytest.raises(ek.NothingToDo, match="is already trained to step 5 of 5"):
        ek.run(other)


@pytest.mark.nightly
def test_a_finished_training_exports_again_with_other_outputs(config, monkeypatch):
    run = config(exporters=("best", "final"))
    first, evaluated = ek.run(run), lines(run)
    other = run.model_copy(update={"default_signature": "classify/click"})
    with monkeypatch.context() as broken:
        broken.setattr(AfterEvaluation, "finish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ek.run(other)
    second = ek.run(other)  # It knows what the start before has not done.
    assert (second.stop_reason, second.global_step) == ("already_done", 5)
    assert second.rows_trained == 0
    assert second.metrics == pytest.approx(first.metrics, nan_ok=True, rel=0, abs=0)
    assert lines(run) == evaluated  # Without an evaluation.
    for exporter in ("best", "final"):
        assert second.exports[exporter] > first.exports[exporter]
        signatures = tf.saved_model.load(second.exports[exporter]).signatures
        assert set(signatures["serving_default"].structured_outputs) == {"classes", "scores"}
    assert best(run) == [(5, os.path.basename(second.exports["best"]))]
    with pytest.raises(ek.NothingToDo, match="is already trained to step 5 of 5"):
        ek.run(other)


@pytest.mark.nightly
def test_an_early_stop_is_one_by_the_settings_of_the_start(config, easy):
    # The loss falls, so "max" has stalled at the second evaluation.
    run = config(max_steps=25, early_stopping_metric="max:loss", exporters=())
    assert (ek.run(run).stop_reason, lines(run)[-1]["global_step"]) == ("early_stopped", 10)
    with pytest.raises(ek.NothingToDo, match=r"stopped early at step 10\. Raise --early_st"):
        ek.run(run)
    patient = run.model_copy(update={"early_stopping_patience": 2})
    assert (ek.run(patient).stop_reason, lines(run)[-1]["global_step"]) == ("early_stopped", 15)
    with pytest.raises(ek.NothingToDo, match="stopped early at step 15"):
        ek.run(run)  # Less patience has stalled, too.
    again = patient.model_copy(update={"eval_files": easy})
    assert ek.run(again).global_step == 25
