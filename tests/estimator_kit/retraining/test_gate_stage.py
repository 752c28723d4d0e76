"""The gate stage: models with other objectives, and models that were trained on the rows."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from estimator_kit.retraining import gate_stage
from estimator_kit.retraining.promotion import Version
from feature_specs.parser import parser
from tests.conftest import DOCUMENT

LIVE = Version(3, "/serving/3", cycle="0002")
CLICK = np.array([0.2, 0.8, 0.3, 0.7])


class FakeRows:
    """Four rows. `answers` gives the predictions of each model by its folder."""

    def __init__(self, spec, paths, *, features, batch_size):
        pass

    def __len__(self):
        return 4

    def labels(self, objective):
        return np.array([0, 1, 0, 1])

    def weights(self, objective):
        return np.ones(4)

    def predictions(self, export, objectives, *, all_of_them=True):
        found = {k: v for k, v in self.answers[export].items() if k in objectives}
        assert not all_of_them or set(found) == set(objectives)
        return found


@pytest.fixture
def judged(monkeypatch, tmp_path):
    monkeypatch.setattr(gate_stage, "EvalRows", FakeRows)

    def run(candidate, live, **more):
        document = copy.deepcopy(DOCUMENT)
        document["retraining"] = {
            "gate": {
                "bootstrap": {"samples": 10},
                "conditions": [
                    {"metric": f"log_loss/{name}", "max_loss": 5} for name in ("click", "buy")
                ],
            }
        }
        spec = parser.parse(document)
        everything = dict.fromkeys(spec.objectives, CLICK)
        monkeypatch.setattr(
            FakeRows, "answers", {str(tmp_path): {**everything, **candidate}, LIVE.path: live},
            raising=False,
        )  # fmt: skip
        return gate_stage.run(spec, str(tmp_path), LIVE, ["rows"], batch_size=4, **more)

    return run


def test_an_objective_that_the_live_model_does_not_predict_is_not_judged(judged):
    found = judged({}, {"click": CLICK})
    assert [entry["passed"] for entry in found["findings"]] == [True, None]
    assert found["findings"][1]["note"] == (
        "the live model does not predict this objective, or has other classes"
    )
    assert found["passed"]


def test_other_classes_of_the_live_model_are_not_compared(judged):
    found = judged({}, {"click": CLICK, "buy": np.stack([CLICK, CLICK], axis=1)})
    assert [entry["passed"] for entry in found["findings"]] == [True, None]


def test_an_evaluation_on_days_that_were_trained_on_refuses(judged):
    found = judged({}, {"click": CLICK, "buy": CLICK}, known_days=["2026-01-03"])
    assert not found["passed"]
    assert found["findings"][-1]["sentence"] == (
        "REFUSED: evaluation on days that no model was trained on; the live model, or the model "
        "that training started from, was trained on 2026-01-03 or later days. Wait for a new day."
    )
