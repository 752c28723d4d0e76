"""--mode=validate with a model: its parameters, its groups and the metrics that flags name."""

from __future__ import annotations

import json

import pytest

from estimator_kit import main
from tests.conftest import DOCUMENT


@pytest.fixture
def validate(tmp_path, capsys):
    (tmp_path / "spec.yaml").write_text(json.dumps(DOCUMENT))

    def run(*arguments):
        code = main.main(["run.py", "--mode=validate", f"--spec={tmp_path}/spec.yaml", *arguments])
        return code, *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model=deepfmm"], "unknown model 'deepfmm'. Did you mean 'deepfm'?"),
        (["--model_params=hiden_units=[4]"],
         "unknown parameter 'hiden_units'. Did you mean 'hidden_units'?"),
        (["--model=dnn", "--model_params=group=seep"], "'seep'"),
        (["--model=linear", "--best_metric=auc/clic"],
         "--best_metric=auc/clic: the model has no such metric. Did you mean 'auc/click'?"),
        (["--early_stopping_metric=max:auk/buy"],
         "--early_stopping_metric=max:auk/buy: the model has no such metric. Did you mean "
         "'auc/buy'?"),
    ],
)  # fmt: skip
def test_what_training_would_refuse_is_refused(validate, arguments, message):
    code, out, err = validate(*arguments)
    assert (code, out) == (2, "") and message in err


def test_a_model_that_is_right_is_said_to_be(validate):
    code, out, _ = validate("--model=linear", "--best_metric=auc/click")
    assert code == 0
    assert (
        "  model linear: accepts its parameters and the spec, and has the metrics that flags name"
        in out.splitlines()
    )


def test_a_search_is_checked_with_its_model(tmp_path, ads, capsys):
    search = tmp_path / "search.yaml"
    text = (
        "metric: auc/click\ndirection: max\ntrials: 3\npruner: none\n"
        "parameters:\n  learning_rate: {range: [0.01, 0.1]}\n  batch_size: {choice: [5, 9]}\n"
    )
    flags = [
        "run.py", "validate", f"--spec={ads}/spec.yaml", "--max_steps=10", f"--search={search}",
        f"--train_files={ads}/train-*", f"--eval_files={ads}/eval.tfrecord",
    ]  # fmt: skip
    search.write_text(text)
    assert main.main(flags) == 0
    line = "  --search: 2 parameters; the model has them and the metric auc/click"
    assert line in capsys.readouterr().out.splitlines()
    search.write_text(text.replace("learning_rate", "learning_rat"))
    assert main.main(flags) == 2
    assert capsys.readouterr().err == (
        f"error: {search}:6: parameters.learning_rat: unknown flag or parameter of the model. Did "
        "you mean 'learning_rate'?\n"
    )
