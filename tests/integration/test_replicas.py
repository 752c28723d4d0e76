"""What `logits` reads and adds in the replicas of a mirrored strategy, which share one graph."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.model import own_losses
from tests.conftest import DOCUMENT, make_rows, small_run, variables

pytestmark = pytest.mark.nightly


class Adds(ek.ModelFn):
    """It adds outputs and losses, and adds up the keys of the rows that it trains on."""

    def logits(self, features, mode):
        self.add_output("row", self.raw("row"))
        zeros, variable = tf.compat.v1.zeros_initializer(), tf.compat.v1.get_variable
        keys = variable("keys", [], tf.int64, zeros, trainable=False,
                        aggregation=tf.VariableAggregation.SUM)  # fmt: skip
        if mode == tf.estimator.ModeKeys.TRAIN:
            added = keys.assign_add(tf.reduce_sum(self.raw("row")))
            tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.UPDATE_OPS, added)
        # The gradient of each is 1.
        of_rows, of_batch = (variable(name, [], tf.float32, zeros) for name in ("rows", "batch"))
        self.add_loss("of_rows", of_rows * tf.ones_like(features["price"][:, 0]))
        tf.compat.v1.losses.add_loss(of_batch * 1.0)
        return ek.dense_layer(self.dense_input(features, "deep"), self.logits_dimension, "logits")


@pytest.mark.filterwarnings("ignore:To make it possible to preserve tf.data options")
def test_each_replica_has_its_own_outputs_and_losses(ads, tmp_path, monkeypatch):
    of_logits, counts = own_losses.of_logits, []

    def counted(*arguments):
        added = of_logits(*arguments)
        counts.append((len(added.of_rows), len(added.of_batch)))
        return added

    monkeypatch.setattr(own_losses, "of_logits", counted)
    document = {**DOCUMENT, "features": {**DOCUMENT["features"], "row": {"dtype": "int64"}}}
    # All rows have the same weight.
    document["labels"], document["objectives"] = (
        {"click": DOCUMENT[section]["click"]} for section in ("labels", "objectives")
    )
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({**document, "raw": ["row"]}))
    given = {"spec": str(spec), "model": f"{__name__}:Adds", "epochs": 1,
             "model_params": {"optimizer": "sgd", "learning_rate": 1.0}}  # fmt: skip
    rows = [row for i, count in enumerate((150, 130, 90, 30)) for row in make_rows(count, seed=i)]
    for folder, replicas in (("one", {}), ("two", {"strategy": "mirrored", "mirrored_devices": 2})):
        result = ek.run(small_run(ads, tmp_path / folder, **given, **replicas)())
        found = variables(tmp_path / folder)
        assert result.rows_a_step == (100 if replicas else 50)
        assert found["keys"] == sum(row["row"] for row in rows), folder
        steps = int(found["global_step"])
        assert [found["rows"], found["batch"]] == pytest.approx([-steps] * 2, rel=1e-5), folder
        assert result.rows_trained == 400, folder
    # In the gradient, a loss of another replica counts for nothing. In the loss it would.
    assert set(counts) == {(1, 1)}
