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
        (["--model=linear", "--best_metric=auc/clic", "--best_direction=max"],
         "--best_metric=auc/clic: the model has no such metric. Did you mean 'auc/click'?"),
        (["--early_stopping_metric=auk/buy", "--early_stopping_direction=max"],
         "--early_stopping_metric=auk/buy: the model has no such metric. Did you mean 'auc/buy'?"),
    ],
)  # fmt: skip
def test_what_training_would_refuse_is_refused(validate, arguments, message):
    code, out, err = validate(*arguments)
    assert (code, out) == (2, "") and message in err


def test_a_model_that_is_right_is_said_to_be(validate):
    code, out, _ = validate("--model=linear", "--best_metric=auc/click", "--best_direction=max")
    assert code == 0
    assert (
        "  model linear: accepts its parameters and the spec, and has the metrics that flags name"
        in out.splitlines()
    )
