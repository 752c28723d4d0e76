"""The gate compares the classes of two models by their words, not by their places."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.checkpoints import run_record
from estimator_kit.config.modes import command_of
from estimator_kit.exporters import saved_model
from estimator_kit.models import MODELS
from estimator_kit.retraining import gate_stage
from estimator_kit.retraining.promotion import Version
from estimator_kit.scoring.eval_rows import as_now
from input_pipelines.record_files import writing
from tests.estimator_kit.small_training import batch_of

WORDS = {"level": ["low", "mid", "high"], "rank": ["low", "mid", "high"], "bought": ["no", "yes"]}
MOVED = {"level": ["high", "low", "mid"], "rank": ["mid", "high", "low"], "bought": ["yes", "no"]}


def document(words, **changes):
    conditions = [
        {"metric": metric, "max_loss": 0.02, "by": "estimate"}
        for metric in ("accuracy/level", "log_loss/rank", "auc/bought", "concordance/days")
    ]
    return {
        "features": {"x": {"dtype": "string"}, "ended": {"dtype": "int64"}},
        "columns": {"x": {"vocabulary": "x", "list": ["a", "b", "c"]}},
        "groups": {"wide": ["x"]},
        "labels": {
            **{name: {"dtype": "string", "vocabulary": list(w)} for name, w in words.items()},
            "days": {"dtype": "float32"},
        },
        "objectives": {
            "level": {"head": "multi_class", "num_classes": 3},
            "rank": {"head": "ordinal", "num_classes": 3},
            "bought": {"head": "binary"},
            "days": {"head": "survival", "event": "ended", "boundaries": [7, 30, 90]},
            **changes,
        },
        "retraining": {"gate": {"bootstrap": {"samples": 20}, "conditions": conditions}},
    }  # fmt: skip


def spec_of(words=WORDS, **changes):
    return feature_specs.parse(document({**WORDS, **words}, **changes))


def test_columns_follow_their_words():
    older, spec = spec_of(), spec_of(MOVED)
    values = np.array([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]])  # low, mid, high
    np.testing.assert_array_equal(
        as_now(older, spec, "level", values), [[0.7, 0.1, 0.2], [0.1, 0.5, 0.4]]
    )
    np.testing.assert_array_equal(
        as_now(older, spec, "rank", values), [[0.2, 0.7, 0.1], [0.4, 0.1, 0.5]]
    )
    logits = np.array([2.0, -1.0])  # Of "yes"; now of "no".
    np.testing.assert_array_equal(as_now(older, spec, "bought", logits), [-2.0, 1.0])
    for name in ("level", "rank"):
        assert as_now(older, older, name, values) is values
    assert as_now(older, spec, "days", values) is values


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("level", spec_of({"level": ["low", "mid", "top"]})),
        ("bought", spec_of({"bought": ["no", "maybe"]})),
        ("rank", spec_of(rank={"head": "multi_class", "num_classes": 3})),
        ("rank", spec_of(rank={"head": "ordinal", "num_classes": 3, "label": "level"},
                         level={"head": "ordinal", "num_classes": 3, "label": "rank"})),
        ("days", spec_of(days={"head": "survival", "event": "ended", "boundaries": [7, 30, 60]})),
    ],
)  # fmt: skip
def test_outputs_that_mean_something_else_are_none(name, spec):
    assert as_now(spec_of(), spec, name, np.zeros([2, 3])) is None


def trained(folder, words, rows, steps):
    spec = feature_specs.parse(document(words))
    config = tf.estimator.RunConfig(
        model_dir=f"{folder}/model", tf_random_seed=1, save_summary_steps=None
    )
    made = tf.estimator.Estimator(
        MODELS["linear"](spec, {"optimizer": "sgd", "learning_rate": 1.0}), config=config
    )
    made.train(batch_of(spec, rows), steps=steps)
    fields = {"spec": "s", "model_dir": config.model_dir, "train_files": ("t",), "max_steps": 1}
    run_record.write_record(command_of(ek.ExperimentConfig(mode="train", **fields)), spec)
    return spec, saved_model.export_saved_model(made, spec, f"{folder}/export")


def test_a_worse_candidate_whose_words_have_moved_is_refused(tmp_path):
    """The live model predicts each row, and the candidate has hardly learned."""
    rows = [
        {"x": "abc"[i % 3], "level": WORDS["level"][i % 3], "rank": WORDS["rank"][i % 3],
         "bought": WORDS["bought"][i % 3 > 1], "days": [3.0, 20.0, 80.0][i % 3], "ended": 1}
        for i in range(60)
    ]  # fmt: skip
    path = f"{tmp_path}/rows.tfrecord"
    writing.write_examples(path, rows)
    spec, live = trained(tmp_path / "live", WORDS, rows, steps=60)
    alone, _ = gate_stage.run(spec, live, None, [path], batch_size=20)
    expected = {name: found.candidate for name, found in alone.metrics.items()}
    assert expected["accuracy/level"] == expected["auc/bought"] == 1.0
    # As after other days: the classes of rows are shifted, so what it learns is wrong.
    wrong = [{**row, "x": "abc"[(i + 1) % 3]} for i, row in enumerate(rows)]
    moved, candidate = trained(tmp_path / "candidate", MOVED, wrong, steps=60)
    version = Version(number=1, path=live, cycle="0001")
    found, _ = gate_stage.run(moved, candidate, version, [path], batch_size=20)
    for name in ("accuracy/level", "log_loss/level", "log_loss/rank", "auc/bought",
                 "log_loss/bought", "concordance/days"):  # fmt: skip
        assert found.metrics[name].live == pytest.approx(expected[name], rel=1e-6), name
    assert found.metrics["accuracy/level"].candidate < 0.1
    assert [finding.passed for finding in found.findings] == [False] * 4
