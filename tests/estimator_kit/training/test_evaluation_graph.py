"""evaluation_graph: evaluations that share a graph and a session give the same numbers."""

from __future__ import annotations

import pytest
import tensorflow as tf
import yaml

from estimator_kit import run as run_command
from estimator_kit.models import MODELS
from estimator_kit.observing.histories import EvaluationHistory
from estimator_kit.training import evaluation_graph
from input_pipelines.record_files import writing
from tests.conftest import make_rows, small_run

STEPS = [10, 20, 30]


class Noisy(MODELS["linear"]):
    """Adds noise to its scores in every mode."""

    def logits(self, features, mode):
        logits = super().logits(features, mode)
        return logits + tf.random.normal(tf.shape(logits), seed=3)


def written(model_dir):
    """The metrics of all sets, the curves, and the events of all evaluations of a training."""
    entries = EvaluationHistory(str(model_dir)).read()
    events: dict[str, list[str]] = {}
    for path in model_dir.glob("eval*/events*"):
        events.setdefault(path.parent.name, []).extend(
            repr((event.step, value.tag, value.simple_value, value.tensor.tensor_content))
            for event in tf.compat.v1.train.summary_iterator(str(path))
            for value in event.summary.value
            if "checkpoint_path" not in value.tag and "_hparams_" not in value.tag
        )
    files = {path.name: path.read_text() for path in model_dir.glob("observed/curves/*")}
    metrics = [
        {"": e.metrics, **{n: each.metrics for n, each in e.eval_sets.items()}} for e in entries
    ]
    return metrics, files, events


@pytest.mark.parametrize(
    "model, params, sessions",
    [
        ("dnn", {"hidden_units": [4]}, 1),
        ("two_tower", {"item_id": "user", "user_id": "city", "hidden_units": [4]}, 1),
        (Noisy, {}, 3),
    ],
    ids=["dnn", "catalogue", "random"],
)
def test_evaluations_of_one_graph_have_the_results_of_new_graphs(
    model, params, sessions, ads, document, tmp_path, monkeypatch
):
    document["groups"] |= {"user": ["price", "city_hot"], "item": ["user_emb", "tag_emb"]}
    document["objectives"]["click"] |= {"metrics": ["gauc"], "group_by": "city"}
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(document))
    writing.write_examples(f"{tmp_path}/test.tfrecord", make_rows(90, seed=20))
    config = small_run(
        ads, "", mode="train_and_evaluate", spec=f"{tmp_path}/spec.yaml", max_steps=30,
        save_checkpoints_steps=10, deterministic=True, report="off", model=model,
        model_params=params, best_metric="loss", eval_batch_size=70,
        eval_files=(f"{ads}/eval.tfrecord", f"test={tmp_path}/test.tfrecord"),
    )  # fmt: skip
    made, built = [], []
    creator = tf.compat.v1.Session.__init__
    build = tf.estimator.Estimator._call_model_fn_eval
    monkeypatch.setattr(
        tf.estimator.Estimator, "_call_model_fn_eval",
        lambda *arguments: built.append(1) or build(*arguments),
    )  # fmt: skip
    monkeypatch.setattr(
        evaluation_graph._Session, "__init__",
        lambda *arguments, **more: made.append(1) or creator(*arguments, **more),
    )  # fmt: skip
    run_command(config(model_dir=str(tmp_path / "shared")))
    assert (len(built), len(made)) == (1, 1 if sessions == 1 else 0)
    monkeypatch.setattr(evaluation_graph, "_is_plain", lambda hooks: False)
    monkeypatch.setattr(evaluation_graph, "_draws", lambda *arguments: True)
    run_command(config(model_dir=str(tmp_path / "new")))
    assert (len(built), len(made)) == (4, 1 if sessions == 1 else 0)
    found, expected = written(tmp_path / "shared"), written(tmp_path / "new")
    metrics, curves, events = expected
    assert [each[""]["global_step"] for each in metrics] == STEPS
    assert {"", "test"} == set(metrics[0]) and len(curves) == 6 and len(events) == 2
    assert ("recall_at_10/click" in metrics[0][""]) is (model == "two_tower")
    for each, expected_each in zip(found, expected):
        assert each == expected_each  # NaN is None in the first two, and text in events.
