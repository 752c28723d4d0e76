"""results and page: search.json, best.flags and search.html of a search with known trials."""

from __future__ import annotations

import json
import re

import pytest

import estimator_kit as ek
from estimator_kit.config.flags import config_from_flagfile
from estimator_kit.config.modes import command_of
from estimator_kit.tuning import page, results, search_file
from estimator_kit.tuning.space import evaluation_config, trial_config
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


def test_the_config_of_a_trial(config):
    values = {"learning_rate": 0.1, "batch_size": 20, "hidden_units": [8]}
    made = trial_config(command_of(config), values, "found/trials/0003")
    assert (made.mode, made.model_dir, made.batch_size) == (
        "train_and_evaluate", "found/trials/0003", 20
    )  # fmt: skip
    assert made.model_params == {"hidden_units": [8], "optimizer": "adagrad", "learning_rate": 0.1}
    assert (made.epochs, made.seed, made.eval_files) == (2, 5, ("e*",))
    assert (made.search, made.test_files) == (None, ())
    scored = evaluation_config(made, ("x*",), "test")
    assert (scored.mode, scored.eval_files, scored.eval_name) == ("evaluate", ("x*",), "test")
    assert scored.model_params == made.model_params


def test_the_best_flags_train_the_best_trial_again(config, tmp_path):
    best = study_with(tmp_path / "found").best()
    path = results.write_best(command_of(config), best)
    made = config_from_flagfile(path)
    assert (made.mode, made.model_dir) == ("train_and_evaluate", f"{tmp_path}/found/best")
    assert made.batch_size == best.values["batch_size"]
    assert made.model_params["learning_rate"] == best.values["learning_rate"]  # To the last bit.
    assert made.model_params["optimizer"] == "adagrad"
    assert made.report == "on"


def test_search_json(tmp_path):
    study = study_with(tmp_path)
    made = results.write(str(tmp_path), study, None, is_done=True)
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
    assert results.write(str(tmp_path), study, None, is_done=False).status == "running"
    study.release(open_trial)


def test_a_metric_in_text():
    assert [results.shown(0.84501), results.shown(None)] == ["0.84501", "undefined"]


def test_the_score_of_another_trial_or_of_other_files_does_not_count(config, tmp_path):
    best = study_with(tmp_path).best()
    test = results.Score(trial="0001", files=["x*"], value=0.6)
    assert results.is_scored(test, best, config)
    for change in ({"trial": "0000"}, {"files": ["y*"]}):
        assert not results.is_scored(test.model_copy(update=change), best, config)
    assert not results.is_scored(None, best, config)


def test_the_page_has_each_trial_and_optunas_figures(tmp_path):
    study = study_with(tmp_path)
    test = results.Score(trial="0001", files=["x*"], value=0.65432)
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
