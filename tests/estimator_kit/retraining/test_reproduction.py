"""The comparison of a cycle with its second training; tests/integration runs a whole one."""

from __future__ import annotations

import json

import pytest

from estimator_kit.checkpoints import run_record
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError
from estimator_kit.retraining import cycle_files, modes
from estimator_kit.retraining.lineage import Data, Lineage, Parent, Spec
from feature_specs.parser import parser
from tests.estimator_kit.retraining import reports


def kept(**fields):
    """The lineage of cycle 7."""
    given = {
        "cycle": "0007", "parent": Parent(source=None), "data": Data(train=[], evaluate=[]),
        "spec": Spec(path="", fingerprint=""), "code": "abc", "versions": {}, "flags": [],
        "metrics": {}, **fields,
    }  # fmt: skip
    return Lineage(**given)


def test_metrics_side_by_side():
    then = kept(
        metrics={"auc/click": 0.75, "loss": 0.5, "ndcg/click": None, "old": 2.0},
        versions={**run_record.versions(), "numpy": "1.0"},
    )
    now = {"auc/click": 0.5, "loss": 0.625, "ndcg/click": float("nan"), "new": 1.0}
    lines = modes.compared(then, now, code="abc").splitlines()
    assert lines == [
        "cycle 0007, trained again:",
        f"  numpy was 1.0, is {run_record.versions()['numpy']}",
        "  metric      then       now        difference",
        "  auc/click   0.75       0.5        -0.25",
        "  loss        0.5        0.625      +0.125",
        "  ndcg/click  undefined  undefined",
        "  new         undefined  1",
        "  old         2          undefined",
        "defined in only one of the two: new, old",
        "the largest difference is 0.25",
    ]


def test_a_metric_that_became_undefined_is_no_reproduction():
    then = kept(metrics={"loss": 0.5})
    lines = modes.compared(then, {"loss": float("nan")}, code="other").splitlines()
    assert lines[1] == "  the code of the kit or of the model has changed"
    assert lines[-2] == "defined in only one of the two: loss"


def test_a_cycle_without_a_lineage_or_a_training_is_named(tmp_path, document):
    model_dir = str(tmp_path / "model")
    folder = cycle_files.new(model_dir)
    folder.save(reports.window())
    config = ExperimentConfig(mode="retrain", model_dir=model_dir, cycle="1")
    with pytest.raises(ConfigError) as error:
        modes.reproduce(config, config)
    assert str(error.value) == (
        "--cycle=1: cycle 0001 has no lineage.json yet. Choose a cycle that has ended."
    )
    spec = tmp_path / "spec.yaml"
    spec.write_text(json.dumps(document))
    fingerprint = parser.load(str(spec)).fingerprint()
    folder.save(kept(spec=Spec(path=str(spec), fingerprint=fingerprint)))
    with pytest.raises(ConfigError) as error:
        modes.reproduce(config, config)
    assert str(error.value) == (
        f"{folder.train_dir}/flags.txt no longer exists, because retention removed the training "
        "of cycle 0001. Choose another --cycle."
    )
