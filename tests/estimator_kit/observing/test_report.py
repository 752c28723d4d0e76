"""The text that a run prints at its end."""

from __future__ import annotations

import pytest

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.observing import report
from estimator_kit.observing.outcome import first_lines
from estimator_kit.observing.report import metrics_table
from estimator_kit.result import BestEvaluation, EvalSet, RunResult, read_result, result_path
from estimator_kit.scoring import prediction


def test_the_table_has_a_column_an_objective():
    metrics = {
        "auc/click": 0.75, "bayes_auc/click": 0.8, "loss/click": 0.123456, "auc/buy": float("nan"),
        "weight_sum/click": 20000.0, "loss": 1.0, "global_step": 3.0, "aaa/buy": 1.0,
    }  # fmt: skip
    assert metrics_table(metrics, ["click", "buy"]).splitlines() == [
        "metric       click        buy",
        "----------  ------  ---------",
        "auc         0.7500  undefined",
        "bayes_auc   0.8000           ",
        "loss        0.1235           ",
        "aaa                    1.0000",
        "weight_sum  20,000           ",
    ]


def test_the_table_has_a_column_more_for_each_other_set():
    metrics, other = {"auc/y": 0.75, "loss": 1.0}, {"auc/y": 0.5, "accuracy/y": 1.0, "rows": 2.0}
    sets = {"test": EvalSet.of(other)}
    assert metrics_table({**metrics, "mae": 2.0}, ["y"], sets).splitlines() == [
        "metric       y  y (test)",
        "------  ------  --------",
        "auc     0.7500    0.5000",
        "",
        "mae  2.0000",
    ]


AUC = {"auc/y": 0.75, "rows": 9.0}


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        ({}, []),
        ({"best": (5, 0.75), "global_step": 5, "exports": {"best": "b", "final": "f"}},
         ["best evaluation: auc/y 0.7500 (test 0.5000) at step 5, the last one, SavedModels best "
          "and final"]),
        ({"best": (5, 0.75), "global_step": 1200, "exports": {"best": "b", "final": "f"}},
         ["best evaluation: auc/y 0.7500 (test 0.5000) at step 5, SavedModel best",
          "last evaluation: auc/y 0.7250 (test 0.2500) at step 1,200, SavedModel final"]),
        # After an early stop `metrics` are of the best evaluation.
        ({"best": (5, 0.75), "global_step": 8, "early": True, "exports": {"final": "f"}},
         ["best evaluation: auc/y 0.7500 (test 0.5000) at step 5",
          "last step: 8, SavedModel final"]),
        ({"best": (5, 0.75), "global_step": 8, "early": True},
         ["best evaluation: auc/y 0.7500 (test 0.5000) at step 5"]),
    ],
)  # fmt: skip
def test_the_first_lines_say_which_model_is_how_good(values, lines):
    def sets(value):
        return {"test": EvalSet.of({"auc/y": value, "rows": 3.0})}

    result = RunResult(mode="train_and_evaluate")
    if values:
        step, last = values["best"][0], values["global_step"]
        best = BestEvaluation(metric="auc/y", global_step=step, metrics=AUC, eval_sets=sets(0.5))
        latest = {"auc/y": 0.725, "global_step": float(last)}
        of_result = {**AUC, "global_step": float(step)} if values.get("early") else latest
        result = RunResult(
            mode="train_and_evaluate", best=best, metrics=of_result, global_step=last,
            eval_sets=sets(0.25), exports=values.get("exports", {}),
        )  # fmt: skip
    assert first_lines(result) == lines


def test_an_infinite_metric_is_told():
    """As a squared error of a Poisson rate beyond float32."""
    metrics = {"mean_squared_error/y": float("inf"), "loss/y": 1e30, "loss": 1.0}
    lines = metrics_table(metrics, ["y"]).splitlines()
    assert lines[-1].split() == ["mean_squared_error", "infinite"]


def test_metrics_of_the_model_follow_the_table():
    metrics = {"auc/y": 0.5, "loss": 1.0, "global_step": 3.0, "missed": 0.25, "mae": 2.0,
               "added_loss/size": 3.0, "by_class/0": 4.0}  # fmt: skip
    assert metrics_table(metrics, ["y"]).splitlines() == [
        "metric       y",
        "------  ------",
        "auc     0.5000",
        "",
        "added_loss/size  3.0000",
        "by_class/0       4.0000",
        "mae              2.0000",
        "missed           0.2500",
    ]


@pytest.mark.parametrize(
    ("exports", "path"),
    [
        ({"latest": "l", "best": "b", "final": "f"}, "f"),
        ({"latest": "l", "best": "b"}, "b"),
        ({"latest": "l"}, "l"),
        ({}, None),
    ],
)
def test_the_export_to_serve(exports, path):
    assert RunResult(mode="train", exports=exports).export_path == path


def test_a_result_is_kept_with_null_for_what_json_lacks(tmp_path):
    model_dir = str(tmp_path / "new")
    assert read_result(model_dir) is None
    result = RunResult(mode="train", metrics={"auc/y": float("nan"), "loss": 2.0})
    result.save(result_path(model_dir))
    assert read_result(model_dir).as_json() == {
        "mode": "train", "status": "done", "stop_reason": None, "global_step": None,
        "metrics": {"auc/y": None, "loss": 2.0}, "exports": {}, "export_path": None,
        "examples_per_second": None, "rows_a_step": None, "rows_trained": 0,
        "rows_evaluated": 0, "bad_data": {}, "error": None, "rows_selected": {},
        "rows_lost": 0, "steps_planned": None,
        "input_cache": {}, "metrics_left_out": {}, "input_profile": {}, "profile": {}, "task": None,
        "scores": None, "eval_sets": {}, "best": None, "reference_models": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "changes", "line"),
    [
        ("input_exhausted", {"epochs": 4}, "finished: all 4 epochs are done (step 1404)"),
        ("input_exhausted", {"epochs": 1}, "finished: the epoch is done (step 1404)"),
        ("max_steps", {"max_steps": 1404}, "finished: --max_steps=1404 is reached (step 1404)"),
        ("early_stopped", {"max_steps": 9000, "early_stopping_metric": "loss"},
         "stopped early: loss did not improve in 3 evaluations (step 1404); the metrics are of the "
         "best one"),
    ],
)  # fmt: skip
def test_the_end_is_told_in_words(reason, changes, line):
    config = ExperimentConfig(
        spec="s.yaml", model_dir="m", train_files=("a",), eval_files=("b",), **changes
    )
    result = RunResult(mode="train", stop_reason=reason, global_step=1404)
    assert report.summary(config, config, None, result, config).splitlines() == [line]


def test_a_query_of_an_export_without_files_names_what_to_replace():
    config = ExperimentConfig(mode="export", spec="s.yaml", model_dir="m")
    lines = report.summary(config, config, None, RunResult(mode="export", exports={"final": "f"}))
    assert "--export_dir=f --predict_files=YOUR_RECORDS --predict_limit=3" in lines


def test_predictions_of_an_objective_are_together():
    batch = {"click/p": [1, 2], "buy/p": [3, 4], "click/logits": [5, 6], "buy/logits": [7, 8]}
    found = [list(row.items()) for row in prediction.rows(prediction.chosen(iter([batch]), ()), 1)]
    assert found == [[("buy/logits", 7), ("buy/p", 3), ("click/logits", 5), ("click/p", 1)]]
