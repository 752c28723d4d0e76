"""Trainings with growing columns: killed, continued, in a cluster, started warm, exported."""

from __future__ import annotations

import copy
import glob
import json

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.commands import inspect
from estimator_kit.config.modes import command_of
from tests.conftest import DOCUMENT, make_rows
from tests.integration.clusters import Cluster

STATE = "growing/{}/{}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A spec whose users and cities grow, four files of 500 rows, and one to score."""
    folder = tmp_path_factory.mktemp("growing")
    document = copy.deepcopy(DOCUMENT)
    document["features"]["user_id"] = {"dtype": "int64"}
    document["columns"]["user_id"] = {
        "growing": "user_id", "rows": 40, "buckets": 7, "min_count": 2, "admit_every": 3,
        "evict_every": 6,
    }  # fmt: skip
    document["columns"]["user_id_emb"] = {"embedding": "user_id", "dimension": 3}
    document["groups"]["deep"].append("user_id_emb")
    document["groups"]["wide"].append("user_id")
    (folder / "spec.json").write_text(json.dumps(document))
    random = np.random.default_rng(5)
    for i in range(5):
        # Users come and go: the numbers grow from file to file.
        users = 30 * i + random.integers(0, 60, 500)
        rows = [{**row, "user_id": int(u)} for row, u in zip(make_rows(500, seed=i), users)]
        ek.write_examples(f"{folder}/{'eval' if i == 4 else f'train-{i}'}.tfrecord", rows)
    return folder


def run(folder, model_dir, **changes):
    fields = {
        "mode": "train_and_evaluate", "spec": f"{folder}/spec.json", "model": "wide_deep",
        "train_files": (f"{folder}/train-*",), "eval_files": (f"{folder}/eval.tfrecord",),
        "model_dir": str(model_dir), "batch_size": 50, "deterministic": True,
        "shuffle": False, "model_params": {"hidden_units": [8]}, **changes,
    }  # fmt: skip
    return ek.run(ek.ExperimentConfig(**fields))


def variables(model_dir):
    path = tf.train.latest_checkpoint(str(model_dir))
    return {name: tf.train.load_variable(path, name) for name, _ in tf.train.list_variables(path)}


def inspected(model_dir):
    config = ek.ExperimentConfig(mode="inspect", model_dir=model_dir)
    return inspect.inspect(command_of(config))


def check_ids(found):
    """Each used row has one key, and each key one row."""
    keys = found[STATE.format("user_id", "keys")]
    used = keys[keys != -1]
    assert len(set(used)) == len(used) == (keys != -1).sum()
    last = found[STATE.format("user_id", "last")][:-1]
    assert (last[keys != -1] > 0).all() and (last[keys == -1] == 0).all()
    return used


def test_a_training_that_stops_and_goes_on_ends_as_an_undisturbed_one(folder, tmp_path):
    whole = run(folder, tmp_path / "whole", epochs=1)
    for step in (7, 20, 33):
        run(folder, tmp_path / "parts", epochs=1, max_steps=step)
    parts = run(folder, tmp_path / "parts", epochs=1)
    assert whole.metrics == pytest.approx(parts.metrics, nan_ok=True)
    expected, found = variables(tmp_path / "whole"), variables(tmp_path / "parts")
    assert expected.keys() == found.keys()
    used = check_ids(found)
    assert len(used) == 40 and used.max() > 120  # The newest users have rows.
    for name, value in expected.items():
        if "candidates" in name:  # In any order.
            value, found[name] = np.sort(value), np.sort(found[name])
        np.testing.assert_array_equal(value, found[name], name)

    told = inspected(str(tmp_path / "whole"))
    waiting = len(expected[STATE.format("user_id", "candidates-keys")])
    assert (
        f"growing ids user_id: 40 of 40 rows have a value, {waiting} other values are counted"
        in told
    )
    tags = {
        value.tag: tf.make_ndarray(value.tensor) if value.HasField("tensor") else value.simple_value
        for path in glob.glob(f"{tmp_path}/whole/events*")
        for event in tf.compat.v1.train.summary_iterator(path)
        for value in event.summary.value
    }
    assert tags["growing/user_id/rows_used"] == 0  # At the first step.

    # An export, and a warm start from it and from the checkpoint.
    answers = ek.run(ek.ExperimentConfig(
        mode="predict", spec=f"{folder}/spec.json", export_dir=whole.exports["final"],
        predict_files=(f"{folder}/eval.tfrecord",), predict_dir=str(tmp_path / "predicted"),
    ))  # fmt: skip
    assert answers.status == "done"
    frozen = ek.run(ek.ExperimentConfig(  # It compares the answers of both.
        mode="transform", export_dir=whole.exports["final"], transform="freeze",
        transform_dir=str(tmp_path / "frozen"), predict_files=(f"{folder}/eval.tfrecord",),
    ))  # fmt: skip
    assert frozen.status == "done"
    with pytest.raises(ek.ConfigError, match="column 'user_id' is growing, and TensorFlow Lite"):
        ek.run(ek.ExperimentConfig(
            mode="transform", export_dir=whole.exports["final"], transform="tflite",
            transform_dir=str(tmp_path / "lite"), predict_files=(f"{folder}/eval.tfrecord",),
        ))  # fmt: skip
    for source in (tmp_path / "whole", whole.exports["final"]):
        target = tmp_path / f"warm{len(str(source))}"
        run(folder, target, mode="train", max_steps=1, warm_start_from=str(source))
        warm = variables(target)
        np.testing.assert_array_equal(
            warm[STATE.format("user_id", "keys")], expected[STATE.format("user_id", "keys")]
        )
        # Steps are counted on, so that nightly trainings of a few steps evict and admit.
        assert warm["growing/steps_before"] == 40
        last = warm[STATE.format("user_id", "last")][:-1]
        if source == tmp_path / "whole":
            was = expected[STATE.format("user_id", "last")][:-1]
            np.testing.assert_array_equal(last[last != 41], was[last != 41])
            waits = STATE.format("user_id", "candidates-keys")
            assert {*expected[waits]} <= {*warm[waits]}
        else:  # An export has no readings.
            assert {*last} <= {0, 41}


@pytest.mark.ci
@pytest.mark.parametrize("strategy", ["parameter_server", "sync_replicas"])
def test_in_a_cluster_the_chief_gives_the_ids(folder, tmp_path, strategy):
    model_dir = tmp_path / "model"
    cluster = Cluster(
        tmp_path / "logs", f"--spec={folder}/spec.json", "--model=wide_deep",
        f"--train_files={folder}/train-*", f"--eval_files={folder}/eval.tfrecord",
        f"--model_dir={model_dir}", "--batch_size=50", "--epochs=2", "--cluster_timeout_secs=90",
        "--partition_mib=0.0003", f"--strategy={strategy}", "--model_params=hidden_units=[8]",
        workers=1, ps=2,
    )  # fmt: skip
    try:
        cluster.start("ps:0", "ps:1", "worker:0", "evaluator:0", "chief:0")
        assert set(cluster.codes().values()) == {0}, cluster.log("chief:0").read_text()[-3000:]
    finally:
        cluster.close()
    found = variables(model_dir)
    used = check_ids(found)
    assert len(used) == 40
    # One process reads it, too, and goes on.
    alone = run(folder, model_dir, mode="evaluate", epochs=None)
    assert alone.rows_evaluated == 500


@pytest.mark.parametrize("strategy", ["mirrored", "multi_worker_mirrored"])
def test_strategies_with_replicas_are_refused(folder, tmp_path, strategy):
    from estimator_kit.embeddings import growing_ids

    spec = ek.load_spec(f"{folder}/spec.json")
    with pytest.raises(ek.ConfigError, match=f"--strategy={strategy} cannot train the growing"):
        growing_ids.check_strategy(spec, strategy)


def towers(folder, **groups):
    ids = {"rows": 30, "buckets": 5, "admit_every": 2}
    document = {
        "features": {
            "user": {"dtype": "string"}, "item": {"dtype": "string"},
            "seen": {"dtype": "string", "shape": "variable"},
        },
        "embedding_tables": {"items": {"dimension": 4}},
        "columns": {
            "user": {"growing": "user", **ids}, "item": {"growing": "item", **ids},
            "seen": {"growing": "seen", "ids_of": "item"},
            "item_key": {"hash_bucket": "item", "size": 1000},
            "user_emb": {"embedding": "user", "dimension": 4},
            "item_emb": {"embedding": "item", "table": "items"},
            "seen_emb": {"embedding": "seen", "table": "items"},
        },
        "groups": {"user": ["user_emb", "seen_emb"], "item": ["item_emb"], **groups},
        "labels": {"y": {"dtype": "int64"}},
        "objectives": {"y": {"head": "binary"}},
    }  # fmt: skip
    (folder / "towers.json").write_text(json.dumps(document))
    random = np.random.default_rng(3)
    rows = [
        {"user": f"u{u}", "item": f"i{u % 20}", "seen": [f"i{(u + 1) % 20}"] * (u % 3), "y": 1}
        for u in random.integers(0, 40, 600)
    ]
    for name, part in (("train", rows[:500]), ("eval", rows[500:])):
        ek.write_examples(f"{folder}/towers-{name}.tfrecord", part)


def test_two_towers_rank_items_with_growing_ids(folder, tmp_path):
    """The catalogue of the evaluation has keys, from which the graph makes ids."""
    fields = {
        "spec": f"{folder}/towers.json", "model": "two_tower", "epochs": 20,
        "train_files": (f"{folder}/towers-train.tfrecord",),
        "eval_files": (f"{folder}/towers-eval.tfrecord",),
        "model_params": {"item_id": "item_key", "dimension": 4, "learning_rate": 0.05},
    }  # fmt: skip
    towers(folder, ids=["item_key"])
    found = run(folder, tmp_path / "model", **fields)
    # Each user takes one item of 20.
    assert found.metrics["recall_at_10/y"] > 0.9
    fields["model_params"] = {"item_id": "item"}
    with pytest.raises(ek.ConfigError, match="item_id: column 'item' is growing, so its ids chang"):
        run(folder, tmp_path / "other", **fields)


def test_no_answer_can_name_an_item_of_a_growing_column(folder):
    towers(folder)
    document = json.loads((folder / "towers.json").read_text())
    document["columns"]["seen"] = {"growing": "seen", "rows": 30, "sequence": True}
    document["columns"]["seen_emb"] = {"embedding": "seen", "dimension": 4}
    document["labels"]["y"] = {"dtype": "string", "shape": "variable"}
    document["objectives"]["y"] = {"head": "next_item", "items": "seen"}
    with pytest.raises(ek.SpecError, match="'seen' is growing, which keeps no words, so no answer"):
        ek.parse_spec(document)
