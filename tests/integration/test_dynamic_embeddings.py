"""Runs with dynamic embeddings: train, resume, score, export and query, also with ps."""

from __future__ import annotations

import json
import math
import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.result import read_result
from estimator_kit.serving.loaded_model import LoadedModel
from tests import rounding
from tests.conftest import needs_dynamic_embeddings, small_run, variables
from tests.integration.clusters import Cluster

needs_dynamic_embeddings()

USERS = 60
DOCUMENT = {
    "features": {
        "user": {"dtype": "string", "default": ""},
        "tags": {"dtype": "int64", "shape": "variable"},
        "price": {"dtype": "float32"},
    },
    "columns": {
        "user_emb": {
            "dynamic_embedding": "user", "dimension": 3, "initializer": "zeros", "min_count": 2,
            "max_rows": 40, "evict": "rarest", "evict_every": 10, "shards": 2,
        },
        "tag_emb": {
            "dynamic_embedding": "tags", "dimension": 2, "initializer": "zeros", "combiner": "sum",
        },
        "price": {"numeric": "price"},
    },
    "groups": {"deep": ["user_emb", "tag_emb", "price"]},
    "labels": {"click": {"dtype": "int64"}},
    "objectives": {"click": {"head": "binary"}},
}  # fmt: skip
MODEL = {"optimizer": "adagrad", "learning_rate": 0.1, "hidden_units": [8]}


def make_rows(count, seed):
    """Every third user clicks, and a tenth of the labels are wrong."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        user = rng.randrange(USERS)
        rows.append(
            {
                "user": rng.choice(["", *[f"u{user}"] * 20]),
                "tags": [rng.randrange(-5, 50) for _ in range(rng.randrange(4))],
                "price": rng.random(),
                "click": int((user % 3 == 0) != (rng.random() < 0.1)),
            }
        )
    return rows


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("dynamic")
    (folder / "spec.yaml").write_text(json.dumps(DOCUMENT))
    for i in range(4):
        ek.write_examples(f"{folder}/train-{i}.tfrecord", make_rows(750, seed=i))
    ek.write_examples(f"{folder}/eval.tfrecord", make_rows(400, seed=99))
    return folder


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """A run of two epochs, with its evaluation and export."""
    config = small_run(
        data, tmp_path_factory.mktemp("run") / "model", model="dnn", model_params=MODEL, epochs=2,
        exporters=("final",),
    )  # fmt: skip
    return config, ek.run(config(mode="train_and_evaluate"))


def tables(model_dir) -> dict[str, dict[int, list]]:
    """The content of each part of each table in a checkpoint, by key."""
    found = variables(model_dir)
    return {
        name[: -len("-keys")]: dict(
            zip(keys.tolist(), found[name[: -len("-keys")] + "-values"].tolist())
        )
        for name, keys in found.items()
        if name.endswith("-keys")
    }


def logits_in(path) -> list[float]:
    return [json.loads(line)["click/logits"] for line in path.read_text().splitlines()]


def test_a_run_learns_and_leaves_max_rows(trained):
    _, result = trained
    assert (result.status, result.global_step) == ("done", 120)
    assert result.metrics["auc/click"] > 0.7
    found = tables(result.exports["final"] + "/variables/variables")
    users = [len(rows) for name, rows in found.items() if "user_emb_table" in name]
    assert users == [20, 20]
    assert {len(rows) for name, rows in found.items() if "tag_emb_table" in name} == {54}
    assert not [name for name in found if "seen" in name or "accumulator" in name]


def test_the_export_was_asked_by_the_c_loader(trained):
    _, result = trained
    lineage = pathlib.Path(result.exports["final"], "assets.extra", "lineage.json")
    assert json.loads(lineage.read_text())["check"]["largest_difference"] < 1e-5


def test_going_on_equals_an_undisturbed_run(trained, data, tmp_path):
    config, _ = trained
    parts = small_run(data, tmp_path / "parts", model="dnn", model_params=MODEL)
    ek.run(parts(mode="train", epochs=1))
    ek.run(parts(mode="train", epochs=2))
    whole, again = tables(config().model_dir), tables(tmp_path / "parts")
    assert whole == again and len(whole) == 2 * 2 + 1 + 2 + 1  # Rows, counts and accumulators.


def test_evaluation_reads_the_checkpoint(trained):
    config, result = trained
    again = ek.run(config(mode="evaluate", train_files=()))
    assert again.metrics["loss"] == pytest.approx(result.metrics["loss"], rel=1e-6)


def test_all_who_load_the_export_answer_as_the_model(trained, data, tmp_path):
    config, result = trained
    export = result.exports["final"]
    files = (f"{data}/eval.tfrecord",)
    ek.run(config(mode="predict", train_files=(), eval_files=(), predict_files=files,
                  predict_output=str(tmp_path / "model.jsonl")))  # fmt: skip
    expected = logits_in(tmp_path / "model.jsonl")
    assert len(set(expected)) > 300
    # The kit's --mode=predict --export_dir.
    ek.run(config(mode="predict", train_files=(), eval_files=(), predict_files=files,
                  model_dir=None, export_dir=export,
                  predict_output=str(tmp_path / "export.jsonl")))  # fmt: skip
    found = logits_in(tmp_path / "export.jsonl")
    np.testing.assert_allclose(found, expected, **rounding.CLOSE)
    # The requests of --mode=serve.
    records = list(tf.data.TFRecordDataset(files[0]).as_numpy_iterator())
    loaded = LoadedModel(export, 1)
    try:
        found = loaded.run(
            "predict_examples", {"examples": np.array(records, object)}, ["click/logits"]
        )["click/logits"]
    finally:
        loaded.close()
    np.testing.assert_allclose(np.ravel(found), expected, **rounding.CLOSE)
    # A program without the kit that has imported the package.
    program = (
        "import sys, tensorflow as tf, tensorflow_recommenders_addons\n"
        "records = list(tf.data.TFRecordDataset(sys.argv[2]).as_numpy_iterator())\n"
        "ask = tf.saved_model.load(sys.argv[1]).signatures['predict_examples']\n"
        "answer = ask(examples=tf.constant(records))['click/logits'].numpy().ravel().tolist()\n"
        "print('answer', answer)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, export, files[0]], capture_output=True, text=True,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = done.stdout.rpartition("answer ")[2]
    np.testing.assert_allclose(json.loads(answer), expected, **rounding.CLOSE)


def test_a_value_that_training_never_saw_is_as_none(trained, tmp_path):
    config, _ = trained
    rows = [
        {"user": user, "tags": tags, "price": 0.5, "click": 0}
        for user, tags in (("", []), ("nobody", [10**12]), *((f"u{i}", []) for i in range(USERS)))
    ]
    ek.write_examples(str(tmp_path / "new.tfrecord"), rows)
    output = tmp_path / "out.jsonl"
    ek.run(config(mode="predict", train_files=(), eval_files=(), predict_output=str(output),
                  predict_files=(str(tmp_path / "new.tfrecord"),)))  # fmt: skip
    none, unknown, *known = logits_in(output)
    assert unknown == none
    assert sum(logit != none for logit in known) == 40  # All other users lost their rows.


def test_what_cannot_be_is_refused_before_anything_is_written(trained, data, tmp_path):
    config, result = trained
    new = str(tmp_path / "new")
    with pytest.raises(
        ek.ConfigError, match="--strategy=mirrored cannot be combined with the dynamic_em"
    ):
        ek.run(config(mode="train", model_dir=new, strategy="mirrored"))
    with pytest.raises(
        ek.ConfigError, match=r"--transform=freeze cannot be combined with .*, which has"
    ):
        ek.run(ek.ExperimentConfig(
            mode="transform", export_dir=result.exports["final"], transform="freeze",
            transform_dir=new, predict_files=(f"{data}/eval.tfrecord",),
        ))  # fmt: skip
    assert not pathlib.Path(new).exists()


@pytest.mark.parametrize("mode", ["weights", "all_but_step", "all"])
def test_a_warm_start_takes_tables_by_their_keys(trained, tmp_path, mode):
    config, _ = trained
    new = tmp_path / "new"
    # A step with almost no gradient, on a row that is in no table.
    ek.write_examples(str(tmp_path / "one.tfrecord"),
                      [{"user": "", "tags": [], "price": 0.5, "click": 0}])  # fmt: skip
    ek.run(config(
        mode="train", model_dir=str(new), train_files=(str(tmp_path / "one.tfrecord"),),
        eval_files=(), epochs=None, warm_start_from=config().model_dir, warm_start_mode=mode,
        max_steps=121 if mode == "all" else 1,
    ))  # fmt: skip
    old, taken = tables(config().model_dir), tables(new)
    for name, rows in taken.items():
        if "_seen_" in name:
            back = 0 if mode == "all" else 120
            assert rows == {key: [n, step - back] for key, (n, step) in old[name].items()}
        elif "_Adagrad_" in name:
            assert rows == (old[name] if mode.startswith("all") else {})
        else:
            assert rows == old[name] != {}
    report = json.loads((new / "warm_start_report.json").read_text())
    status = {entry["name"]: entry["status"] for entry in report["variables"]}
    assert set(status.values()) == ({"restored"} if mode == "all" else {"restored", "new"})
    assert {status[n] for n in status if "_table_mht_" in n or "_seen_" in n} == {"restored"}


def test_a_warm_start_from_an_export_lacks_counts(trained, tmp_path):
    config, result = trained
    with pytest.raises(ek.CheckpointError) as error:
        ek.run(config(mode="train", model_dir=str(tmp_path / "new"),
                      warm_start_from=result.exports["final"]))  # fmt: skip
    lines = str(error.value).splitlines()
    assert len(lines) == 1 + 4 + 1 and lines[1] == (
        "  user_emb_seen/dnn_input_from_feature_columns_input_layer_user_emb_seen_mht_1of2-keys: "
        "not in the source. An export does not store it, so use a checkpoint."
    )
    assert not (tmp_path / "new").exists()


def test_a_warm_start_of_another_feature_is_refused(trained, tmp_path):
    config, _ = trained
    document = json.loads(json.dumps(DOCUMENT))
    document["features"]["reader"] = document["features"].pop("user")
    document["columns"]["user_emb"]["dynamic_embedding"] = "reader"
    (tmp_path / "spec.yaml").write_text(json.dumps(document))
    with pytest.raises(ek.CheckpointError, match=(
        r"user_emb: its rows mean something else: it reads 'user' \(string\) in the source, and "
        r"'reader' \(string\) in the model"
    )):  # fmt: skip
        ek.run(config(mode="train", model_dir=str(tmp_path / "new"),
                      spec=str(tmp_path / "spec.yaml"),
                      warm_start_from=config().model_dir))  # fmt: skip


def test_a_spec_without_shards_fits_no_longer(trained, tmp_path):
    config, _ = trained
    document = json.loads(json.dumps(DOCUMENT))
    del document["columns"]["user_emb"]["shards"]
    (tmp_path / "spec.yaml").write_text(json.dumps(document))
    with pytest.raises(ek.ConfigError, match="user_emb"):
        ek.run(config(mode="evaluate", train_files=(), spec=str(tmp_path / "spec.yaml")))


@pytest.mark.ci
def test_on_parameter_servers_it_learns_as_in_one_process(trained, data, tmp_path):
    _, alone = trained
    model_dir = tmp_path / "model"

    def train(epochs: int, ps: int) -> dict:
        cluster = Cluster(
            tmp_path / f"logs-{ps}", f"--spec={data}/spec.yaml", "--model=dnn",
            *(f"--model_params={name}={value}" for name, value in MODEL.items()),
            f"--train_files={data}/train-*", f"--eval_files={data}/eval.tfrecord",
            f"--model_dir={model_dir}", "--batch_size=50", f"--epochs={epochs}",
            "--cluster_timeout_secs=90", ps=ps,
        )  # fmt: skip
        try:
            cluster.start(*(f"ps:{i}" for i in range(ps)), "worker:0", "chief:0")
            codes = cluster.codes()
            assert set(codes.values()) == {0}, cluster.log("chief:0").read_text()
        finally:
            cluster.close()
        return read_result(model_dir)

    first = train(2, ps=2)
    assert first.global_step == 120
    assert math.isfinite(first.metrics["loss"])
    assert first.metrics["auc/click"] == pytest.approx(alone.metrics["auc/click"], abs=0.1)
    # Two shards, each with its accumulators.
    users = [len(r) for name, r in tables(model_dir).items() if "user_emb_table" in name]
    assert len(users) == 4 and max(users) < 30
    # With another number of servers, from the checkpoint.
    second = train(3, ps=3)
    assert second.global_step == 180 and second.rows_trained < first.rows_trained
    assert second.metrics["auc/click"] > first.metrics["auc/click"] - 0.05
    # In one process.
    config = small_run(data, model_dir, model="dnn", model_params=MODEL)
    local = ek.run(config(mode="evaluate", train_files=()))
    assert local.metrics["loss"] == pytest.approx(second.metrics["loss"], rel=1e-6)
