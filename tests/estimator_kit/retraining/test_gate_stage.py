"""The gate stage: models with other objectives, and models that were trained on the rows."""

from __future__ import annotations

import collections
import copy
from typing import ClassVar

import numpy as np
import pytest

from estimator_kit.errors import ConfigError
from estimator_kit.retraining import gate_stage
from estimator_kit.retraining.gate import Scored
from estimator_kit.retraining.promotion import Version
from feature_specs.parser import parser
from feature_specs.sections.retraining import Gate
from input_pipelines.record_files import writing
from tests.conftest import DOCUMENT

Signature = collections.namedtuple("Signature", "inputs outputs")

LIVE = Version(number=3, path="/serving/3", cycle="0002")
SPEC = parser.parse(copy.deepcopy(DOCUMENT))
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

    def predictions(self, export, objectives, *, all_of_them=True, model=None):
        found = {k: v for k, v in self.answers[export].items() if k in objectives}
        assert not all_of_them or set(found) == set(objectives)
        return found


class FakeModel:
    """A SavedModel that answers each record with its number of bytes."""

    opened: ClassVar[list[str]] = []
    closed: ClassVar[list[str]] = []
    signatures: ClassVar[dict[str, Signature]] = {
        "serving_default": Signature({"examples": None}, {"click/logistic": None})
    }

    def __init__(self, path, version, **options):
        self.path = path
        FakeModel.opened.append(path)

    def run(self, signature, inputs, outputs):
        lengths = np.array([[float(len(record))] for record in inputs["examples"]])
        return dict.fromkeys(outputs, lengths)

    def close(self):
        FakeModel.closed.append(self.path)


@pytest.fixture
def judged(monkeypatch, tmp_path):
    monkeypatch.setattr(gate_stage, "EvalRows", FakeRows)
    monkeypatch.setattr(gate_stage, "LoadedModel", FakeModel)
    FakeModel.opened.clear()
    FakeModel.closed.clear()
    writing.write_examples(str(tmp_path / "rows.tfrecord"), [{"x": 1}, {"x": 2, "more": 3}])

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
        paths = [str(tmp_path / "rows.tfrecord")]
        found, answers = gate_stage.run(spec, str(tmp_path), LIVE, paths, batch_size=4, **more)
        assert FakeModel.opened == FakeModel.closed == [str(tmp_path)]  # Once for all questions.
        return found, answers, paths

    return run


def test_an_objective_that_the_live_model_does_not_predict_is_not_judged(judged):
    found, _, _ = judged({}, {"click": CLICK})
    assert [entry.passed for entry in found.findings] == [True, None]
    assert found.findings[1].note == (
        "the live model does not predict this objective, or has another head or label, or other "
        "classes or boundaries"
    )
    assert found.passed


def test_other_classes_of_the_live_model_are_not_compared(judged):
    found, _, _ = judged({}, {"click": CLICK, "buy": np.stack([CLICK, CLICK], axis=1)})
    assert [entry.passed for entry in found.findings] == [True, None]


def test_an_evaluation_on_days_that_were_trained_on_refuses(judged):
    found, _, _ = judged({}, {"click": CLICK, "buy": CLICK}, known_periods=["2026-01-03"])
    assert not found.passed
    assert found.findings[-1].sentence == (
        "REFUSED: evaluation on periods that no model was trained on; the live model, or the model "
        "that training started from, was trained on 2026-01-03 or later periods. Wait for a new "
        "one."
    )


def test_a_copy_is_compared_with_the_answers_of_the_judged_candidate(judged, tmp_path):
    """The copy is loaded and asked. The candidate is not loaded again."""
    _, answers, paths = judged({}, {"click": CLICK})
    assert answers["click/logistic"].shape == (2, 1)
    check = gate_stage.verify(SPEC, str(tmp_path), paths, answers)
    check("/serving/.staging-4")
    assert FakeModel.opened == FakeModel.closed == [str(tmp_path), "/serving/.staging-4"]
    other = {"click/logistic": answers["click/logistic"] + 0.01}
    with pytest.raises(ConfigError) as error:
        gate_stage.verify(SPEC, str(tmp_path), paths, other)("/serving/.staging-4")
    assert str(error.value) == (
        "/serving/.staging-4: in a real request, click/logistic differs from the candidate's"
    )
    more = {**answers, "buy/logistic": answers["click/logistic"]}
    with pytest.raises(ConfigError) as error:
        gate_stage.verify(SPEC, str(tmp_path), paths, more)("/serving/.staging-4")
    assert str(error.value) == "/serving/.staging-4: its answer has no output 'buy/logistic'"
    # If another process ran the gate, the candidate is asked again.
    FakeModel.opened.clear()
    gate_stage.verify(SPEC, str(tmp_path), paths)("/serving/.staging-4")
    assert FakeModel.opened == [str(tmp_path), "/serving/.staging-4"]


def test_a_model_that_takes_no_records_is_refused(judged, tmp_path, monkeypatch):
    monkeypatch.setattr(FakeModel, "signatures", {"predict_raw": Signature({"x": None}, {})})
    with pytest.raises(ConfigError) as error:
        judged({}, {})
    assert str(error.value) == (
        f"{tmp_path}: expected a signature serving_default or predict_examples that takes "
        "serialized records as 'examples', got predict_raw. Export the model again."
    )


def test_the_interval_of_a_mean_is_that_of_its_standard_error():
    """The squared error of 400 rows is 1 or 0, so its standard error is 0.5 / 20 = 0.025."""
    labels = np.tile([0.0, 1.0], 200)
    rows = Scored("regression", labels, np.ones(400), np.zeros(400), np.ones(400) * np.nan)
    gate = Gate(conditions=[{"metric": "mean_squared_error/price", "max": 1}])
    found = gate_stage.metric_intervals(gate, {"price": rows}, {})
    (low, high) = found["mean_squared_error/price"]["candidate"]
    assert low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.015)
    assert high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.015)
    assert "live" not in found["mean_squared_error/price"]  # Its predictions are NaN.


def test_rows_of_one_group_are_drawn_together():
    """All rows of a group are equal, so 4 groups vary as 4 rows do."""
    labels = np.repeat([0.0, 0.0, 1.0, 1.0], 100)
    rows = Scored("regression", labels, np.ones(400), np.zeros(400))
    gate = Gate(
        bootstrap={"group_by": "user"},
        conditions=[
            {"metric": "mean_squared_error/price", "max": 1},
            {"metric": "size_mib", "max": 9},
        ],
    )
    users = np.repeat(["a", "b", "c", "d"], 100)
    found = gate_stage.metric_intervals(gate, {"price": rows}, {"user": users})
    (low, high) = found.pop("mean_squared_error/price")["candidate"]
    assert low == 0.0 and high > 0.85  # Single rows would give 0.45 to 0.55.
    assert not found  # The size of a model has no rows to draw.
