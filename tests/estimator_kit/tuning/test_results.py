"""results and page: search.json, best.flags and search.html of a search with known trials."""

from __future__ import annotations

import json
import re

import pytest

import estimator_kit as ek
from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.config.modes import command_of
from estimator_kit.observing.histories import EvaluationHistory
from estimator_kit.result import EvalSet, RunResult
from estimator_kit.tuning import final_test, page, results, search_file
from estimator_kit.tuning.space import trial_config
from estimator_kit.tuning.study import SearchStudy

pytest.importorskip("optuna", reason="the extra tune")

DOCUMENT = {
    "metric": "auc/click", "direction": "max", "trials": 6, "pruner": "none",
    "parameters": {
        "learning_rate": {"range": [0.01, 0.5], "log": True},
        "batch_size": {"choice": [20, 50]},
        "hidden_units": {"choice": [[8], [8, 4]]},
        "clip_norm": {"range": [1, 5], "when": {"batch_size": 20}},
    },
}  # fmt: skip


@pytest.fixture
def config(tmp_path):
    made = ek.ExperimentConfig(
        mode="tune", spec="s.yaml", model_dir=str(tmp_path / "found"), search="search.yaml",
        train_files="t*", eval_files="e*", test_files="x*", epochs=2, eval_days=None, seed=5,
        model_params={"hidden_units": [64], "optimizer": "adagrad"}, report="on",
    )  # fmt: skip
    return made


def study_with(folder, values=(0.5, 0.7, None, 0.6, "pruned")):
    study = SearchStudy(str(folder), search_file.parse(DOCUMENT), {})
    for value in values:
        claim = study.claim()
        if value is None:
            study.finish(claim, "failed", reason="the loss is NaN <at 3>", seconds=2.0)
        elif value == "pruned":
            study.report(claim, rows=10, value=0.4, seconds=1.0)
            study.finish(claim, "pruned", seconds=1.5)
        else:
            study.report(claim, rows=10, value=value - 0.1, seconds=1.0)
            study.report(claim, rows=20, value=value, seconds=2.0)
            study.finish(claim, "done", value=value, seconds=3.0)
    return study


def search():
    return search_file.parse(DOCUMENT)


def test_the_config_of_a_trial(config):
    values = {"learning_rate": 0.1, "batch_size": 20, "hidden_units": [8]}
    made = trial_config(command_of(config), search(), values, "found/trials/0003")
    assert (made.mode, made.model_dir, made.batch_size) == (
        "train_and_evaluate", "found/trials/0003", 20
    )  # fmt: skip
    assert made.model_params == {"hidden_units": [8], "optimizer": "adagrad", "learning_rate": 0.1}
    assert (made.epochs, made.seed, made.eval_files) == (2, 5, ("e*",))
    assert (made.search, made.test_files) == (None, ())
    # Nobody says when to evaluate: once an epoch, until the metric of the search stalls.
    assert (made.early_stopping_metric, made.best_metric) == ("auc/click", "auc/click")
    assert (made.exporters, made.report) == ((), "off")
    # Only the set that judges is read, and nothing is compared.
    changes = {"eval_files": ("e*", "test=t*"), "reference_models": ("linear",)}
    several = trial_config(command_of(config.model_copy(update=changes)), search(), values, "found")
    assert (several.eval_files, several.reference_models) == (("e*",), ())
    command = command_of(config.model_copy(update={"save_checkpoints_steps": 5}))
    assert trial_config(command, search(), values, "found").early_stopping_metric is None


def test_a_model_gets_no_parameter_that_only_the_model_of_the_flags_has(config):
    given = config.model_copy(update={"model_params": {"hidden_units": [64], "clip_norm": 2.0}})
    made = trial_config(command_of(given), search(), {"model": "linear"}, "found")
    assert made.model_params == {"clip_norm": 2.0}
    made = trial_config(command_of(given), search(), {"model": "dnn"}, "found")
    assert made.model_params == {"hidden_units": [64], "clip_norm": 2.0}


def history_of(folder, *values):
    history, meaning = EvaluationHistory(str(folder)), ScoresMeaning("a", "a", {})
    for i, value in enumerate(values):
        history.add(10 * (i + 1), {"auc/click": value}, meaning)


def test_without_test_files_best_is_the_training_of_the_best_trial_with_an_export(config, tmp_path):
    best = study_with(tmp_path / "found").best()
    command = command_of(config.model_copy(update={"test_files": ()}))
    made = results.best_config(command, search(), best, "found/best")
    trial = trial_config(command, search(), best.values, "found/best")
    changed = {"exporters": ("best",), "report": "on"}
    assert made == trial.model_copy(update=changed)
    without = command_of(config.model_copy(update={"test_files": (), "exporters": ()}))
    assert results.best_config(without, search(), best, "found/best").exporters == ()


def test_with_test_files_best_trains_on_all_rows_to_the_step_of_the_best_evaluation(
    config, tmp_path
):
    best = study_with(tmp_path / "found").best()
    history_of(tmp_path / "found" / "trials" / "0001", 0.5, None, 0.7, 0.7, 0.6)
    made = results.best_config(command_of(config), search(), best, "found/best")
    assert (made.train_files, made.eval_files) == (("t*", "e*"), ("x*",))
    assert (made.max_steps, made.epochs, made.early_stopping_metric) == (30, None, None)
    assert (made.save_checkpoints_steps, made.exporters) == (30, ("final",))
    assert made.batch_size == best.values["batch_size"]
    assert made.model_params["learning_rate"] == best.values["learning_rate"]  # To the last bit.
    made = results.best_config(
        command_of(config.model_copy(update={"train_files": (), "train_mix": ("t*=1", "u*=2")})),
        search(), best, "found/best",
    )  # fmt: skip
    assert (made.train_files, made.train_mix) == ((), ("t*=1", "u*=2"))


def test_the_set_test_of_the_evaluation_files_is_the_test_without_test_files(config, tmp_path):
    best = study_with(tmp_path / "found").best()
    history_of(tmp_path / "found" / "trials" / "0001", 0.5, None, 0.7, 0.7, 0.6)
    changes = {
        "test_files": (), "eval_files": ("e*", "test=x*", "new=n*"), "exporters": ("best",),
        "reference_models": ("linear",),
    }  # fmt: skip
    command = command_of(config.model_copy(update=changes))
    made = results.best_config(command, search(), best, "found/best")
    assert (made.train_files, made.eval_files) == (("t*", "e*"), ("x*", "new=n*"))
    assert (made.max_steps, made.exporters) == (30, ("final",))
    assert made.reference_models == ("linear",)
    assert final_test.name(command) == "the set test of --eval_files"
    # Other names only measure: the best trial is trained again.
    changes = {**changes, "eval_files": ("e*", "new=n*")}
    command = command_of(config.model_copy(update=changes))
    made = results.best_config(command, search(), best, "found/best")
    assert (made.train_files, made.eval_files) == (("t*",), ("e*", "new=n*"))
    assert made.exporters == ("best",) and final_test.patterns(command) == ()


def test_the_given_settings_are_scored_at_their_best_evaluation(config, tmp_path):
    command = command_of(config)
    first = final_test.with_test(command, trial_config(command, search(), {}, "found"))
    assert first.eval_files == ("e*", "test=x*")
    assert final_test.of_first(command, search()) is None
    history, meaning = EvaluationHistory(f"{tmp_path}/found/trials/0000"), ScoresMeaning("", "", {})
    for step, judged, tested in ((10, 0.5, 0.9), (20, 0.7, 0.65), (30, 0.7, 0.6), (40, None, 0.8)):
        sets = {"test": EvalSet(rows=5, metrics={"auc/click": tested})}
        history.add(step, {"auc/click": judged}, meaning, eval_sets=sets)
    best = study_with(tmp_path / "found").best()
    result = RunResult(mode="tune", metrics={"auc/click": 0.68})
    score = results.score_of(command, search(), best, result)
    assert (score.value, score.given, score.files) == (0.68, 0.65, ["x*"])


def test_search_json(tmp_path):
    study = study_with(tmp_path)
    made = results.write(str(tmp_path), study, None, None, is_done=True)
    assert results.read(str(tmp_path)) == made
    assert (made.metric, made.direction, made.status) == ("auc/click", "max", "done")
    assert made.best.trial == "0001" and made.best.value == 0.7
    assert [(t.state, t.value, t.seconds, t.reason) for t in made.trials] == [
        ("done", 0.5, 3.0, None), ("done", 0.7, 3.0, None),
        ("failed", None, 2.0, "the loss is NaN <at 3>"), ("done", 0.6, 3.0, None),
        ("pruned", 0.4, 1.5, None),
    ]  # fmt: skip
    assert made.trials[4].model_dir == f"{tmp_path}/trials/0004"
    open_trial = study.claim()
    assert results.write(str(tmp_path), study, None, None, is_done=False).status == "running"
    study.release(open_trial)


def test_a_metric_in_text():
    assert [results.shown(0.84501), results.shown(None)] == ["0.84501", "undefined"]


def test_the_page_has_each_trial_and_optunas_figures(tmp_path):
    study = study_with(tmp_path)
    test = results.Score(trial="0001", files=["x*"], value=0.65432, given=0.64)
    path = page.write(str(tmp_path), study, test, "--batch_size=20\n")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = text[text.index("<body>") :]
    assert re.findall(r"<h2>(.*?)</h2>", text) == [
        "Outcome", "History", "Importance", "Slices", "Parallel coordinates",
        "Trials", "Flags of the best trial",
    ]  # fmt: skip
    assert (
        "6 trials" not in text
        and "search for auc/click: 5 trials, 3 done, 1 failed, 1 pruned" in text
    )
    assert "<td>auc/click on the test files</td><td>0.6543</td>" in text
    assert "<td>auc/click of the given settings on the test files</td><td>0.6400</td>" in text
    assert "the loss is NaN &lt;at 3&gt;" in text  # Escaped.
    # Two of the history, one of the importance, one slice a parameter. Only a trial that failed
    # has drawn clip_norm.
    drawn = {name for t in study.trials() if t.state != "failed" for name in t.values}
    assert text.count('class="plotly-graph-div"') == 4 + len(drawn)
    assert text.count('<div class="charts wide">') == 1  # Parallel coordinates.
    assert "https://" not in text.replace("https://plot.ly", "")


def test_a_slice_shows_finished_and_pruned_trials_in_the_width_of_the_page(tmp_path):
    study = study_with(tmp_path)
    figure = page.slice_of(study, "learning_rate")
    shown = {t.name: list(zip(t.x, t.y, t.text)) for t in figure.data}
    values = [trial.values["learning_rate"] for trial in study.trials()]
    assert shown == {
        "done": [(values[i], y, f"trial 000{i}") for i, y in ((0, 0.5), (1, 0.7), (3, 0.6))],
        "pruned": [(values[4], 0.4, "trial 0004")],
    }
    assert figure.layout.xaxis.type == "log" and figure.layout.width is None
    choices = page.slice_of(study, "hidden_units")
    assert choices.layout.xaxis.type == "category"
    assert {x for trace in choices.data for x in trace.x} <= {"[8]", "[8, 4]"}


def test_the_history_shows_pruned_and_failed_trials_where_they_ended(tmp_path):
    figure = page._history(study_with(tmp_path))
    shown = {trace.name: list(zip(trace.x, trace.y)) for trace in figure.data}
    assert shown == {
        "done": [(0, 0.5), (1, 0.7), (3, 0.6)],
        "pruned": [(4, 0.4)],
        "failed": [(2, 0.4)],  # It has no evaluation: at the bottom.
        "best so far": [(0, 0.5), (1, 0.7), (3, 0.7)],
    }


def test_the_page_of_a_search_without_a_result(tmp_path):
    study = study_with(tmp_path, values=(None,))
    page.write(str(tmp_path), study, None, "")
    study = study_with(tmp_path / "one", values=(0.5,))
    page.write(str(tmp_path / "one"), study, None, "")
    text = (tmp_path / "one" / "search.html").read_text()
    assert "<h2>History</h2>" in text and "<h2>Importance</h2>" not in text


def test_the_columns_of_hparams():
    search = search_file.parse(DOCUMENT)
    found = page.columns(search)
    assert list(found) == [
        "model_params/learning_rate", "batch_size", "model_params/hidden_units",
        "model_params/clip_norm",
    ]  # fmt: skip
    assert found["batch_size"] in (20, 50)
    assert json.loads(found["model_params/hidden_units"]) in ([8], [8, 4])
