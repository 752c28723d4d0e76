"""What the console and the first line of the report say about reference models."""

from __future__ import annotations

import pytest

from estimator_kit.config.areas.exports import REFERENCE_MODELS
from estimator_kit.observing import standing
from estimator_kit.result import ComparedObjective, ReferenceModel, ReferenceModels, RunResult
from estimator_kit.scoring.references.models import MODELS

MODEL = {"auc": 0.826, "log_loss": 0.4}


def reference(auc, verdict, low=None, high=None):
    difference = auc - MODEL["auc"]
    return ReferenceModel(
        metrics={"auc": auc}, difference=difference, low=low, high=high, verdict=verdict
    )


TREES = reference(0.846, "reference", 0.012, 0.027)
LINEAR = reference(0.8, "model", -0.03, -0.02)


def result_of(references, *, stop_reason="input_exhausted", eval_rows_of=8378, **entry):
    objective = ComparedObjective(metric="auc", model=MODEL, references=references, **entry)
    compared = ReferenceModels(
        export="e", train_rows=1000, train_rows_of=5000, eval_rows=8378, eval_rows_of=eval_rows_of,
        seconds=2.5, objectives={"click": objective},
    )  # fmt: skip
    return RunResult(mode="train_and_evaluate", stop_reason=stop_reason, reference_models=compared)


def test_each_reference_model_has_a_name_in_sentences():
    assert set(standing._NAMES) == set(MODELS) == set(REFERENCE_MODELS)


def test_the_best_reference_model_is_in_the_first_line():
    assert standing.headline(result_of({"linear": LINEAR, "boosted_trees": TREES})) == (
        "auc/click is 0.8260 on 8,378 rows of --eval_files; gradient-boosted trees on the same "
        "rows: 0.8460 (reference minus model: +0.0200, 95 % interval +0.0120 to +0.0270): the "
        "trees are better. Try "
        "`estimator-kit tune --search=auto`, more --epochs, another --model, or use trees for this "
        "table."
    )


def test_a_reference_model_that_is_better_comes_before_one_that_may_be():
    unsure = reference(0.85, "none", -0.002, 0.05)
    text = standing.headline(result_of({"linear": TREES, "boosted_trees": unsure}))
    assert (
        "a linear model on the same rows: 0.8460" in text and "the linear model is better" in text
    )


def test_more_epochs_do_not_help_a_training_that_stopped_early():
    text = standing.headline(result_of({"boosted_trees": TREES}, stop_reason="early_stopped"))
    assert "--search=auto`, another --model, or use trees" in text
    text = standing.headline(result_of({"boosted_trees": TREES}), searched=True)
    assert text.endswith("the trees are better. Try a longer search, or use trees for this table.")


@pytest.mark.parametrize(
    ("name", "of", "end"),
    [
        ("linear", LINEAR, "a linear model on the same rows: 0.8000 (reference minus model: "
         "-0.0260, 95 % interval -0.0300 to -0.0200): your model is better."),
        ("linear", reference(0.83, "none", -0.01, 0.02), "0.8300, no difference to see "
         "(reference minus model: +0.0040, 95 % interval -0.0100 to +0.0200)."),
        ("linear", reference(0.83, "undefined"), "0.8300. The rows are too few to compare them."),
        ("constant", reference(0.9, "reference", 0.01, 0.02), "the constant is better. The model "
         "has learned nothing that helps on these rows. Check the labels, and that training and "
         "evaluation rows are alike; then try a smaller learning_rate."),
    ],
)  # fmt: skip
def test_verdicts(name, of, end):
    assert standing.headline(result_of({name: of})).endswith(end)


def test_smaller_errors_are_better():
    references = {
        "linear": ReferenceModel(metrics={"rmse": 3.0}, difference=1.0, low=0.5, high=2.0,
                                 verdict="model"),
        "constant": ReferenceModel(metrics={"rmse": 5000.0}, difference=4998.0, low=4000.0,
                                   high=6000.0, verdict="model"),
    }  # fmt: skip
    objective = ComparedObjective(
        metric="rmse", larger_is_better=False, model={"rmse": 2.0}, references=references
    )
    compared = ReferenceModels(eval_rows=3, eval_rows_of=9, objectives={"price": objective})
    result = RunResult(mode="train_and_evaluate", reference_models=compared)
    assert standing.headline(result).startswith(
        "rmse/price is 2.0000 on 3 of the 9 rows of --eval_files; a linear model on the same rows: "
        "3.0000 (reference minus model: +1.0000, "
    )
    assert standing.table(compared)[-1] == [
        "price", "constant", "rmse", "5,000", "+4,998", "+4,000 to +6,000",
        "your model is better",
    ]  # fmt: skip


def test_lines_of_the_console():
    result = result_of({"constant": ReferenceModel(error="no memory"), "boosted_trees": TREES})
    assert standing.lines(result)[1:] == [
        "  click, constant: no memory",
        "  click, boosted_trees: auc 0.8460 (the reference is better)",
        "  The reference models learned from 1,000 of the 5,000 rows of --train_files. All of it "
        "took 2.5 s.",
    ]
    assert standing.lines(RunResult(mode="train_and_evaluate")) == []


def test_why_nothing_was_compared():
    assert standing.headline(result_of({"linear": ReferenceModel(error="no memory")})) == (
        "click: no reference models. no memory"
    )
    result = RunResult(mode="m", reference_models=ReferenceModels(error="OSError: full"))
    assert standing.headline(result) == "No reference models: OSError: full"
    objective = ComparedObjective(error="The head next_item has no reference models.")
    result = RunResult(mode="m", reference_models=ReferenceModels(objectives={"next": objective}))
    assert standing.headline(result) == (
        "next: no reference models. The head next_item has no reference models."
    )
