"""The events of a whole training, read back and compared with its result and with scikit-learn."""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import json
import re
import subprocess
import sys
import threading
import time
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics as sk

import estimator_kit as ek
from estimator_kit.observing.measured_export import (
    ObjectiveSlices,
    Overall,
    Slice,
    Slices,
    path_of,
)  # fmt: skip
from estimator_kit.observing.tensorboard import ending, plugin_data, summaries
from input_pipelines.record_files.framing import message
from tests.conftest import DOCUMENT, small_run

# TensorBoard's own reader takes long. `test_plugin_data` is fast.
pytestmark = pytest.mark.ci

STEPS, EVERY = 40, 20


@pytest.fixture(scope="module")
def run(ads, once):
    """The model directory and `result.json` of a training with two evaluations."""

    def make(folder):
        config = small_run(
            ads, folder / "model", batch_size=10, max_steps=STEPS, epochs=None,
            save_checkpoints_steps=EVERY, summary_steps=10, histograms=True, eval_batch_size=64,
            exporters=("final",), slices=("city",),
            model_params={"hidden_units": [4], "clip_norm": 0.5},
        )  # fmt: skip
        ek.run(config())

    folder = once("tensorboard_run", make) / "model"
    return folder, json.loads((folder / "result.json").read_text())


def events(folder):
    """`{tag: [(step, value)]}` of the event files of a folder, in the order of their names."""
    found = collections.defaultdict(list)
    for path in sorted(map(str, folder.glob("events*"))):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                found[value.tag].append((event.step, value))
    return found


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def scalars(found, tag):
    return {step: value.simple_value for step, value in found[tag]}


def test_evaluations_have_the_numbers_of_the_result(run):
    folder, result = run
    found = events(folder / "eval")
    assert "total_loss" not in found
    history = lines_of(folder / "eval_history.jsonl")
    assert [entry["global_step"] for entry in history] == [EVERY, STEPS]
    for tag in ("loss", "loss/click", "auc/click", "prediction_mean/buy"):
        expected = {entry["global_step"]: entry["metrics"][tag] for entry in history}
        assert scalars(found, tag) == pytest.approx(expected, rel=1e-6)
        assert result["metrics"][tag] == pytest.approx(expected[STEPS], rel=1e-6)
    # The last batch has 8 rows instead of 64, so that a mean of batches would be another number.
    click, buy = result["metrics"]["loss/click"], result["metrics"]["loss/buy"]
    assert result["metrics"]["loss"] == pytest.approx(click + 0.5 * buy, rel=1e-6)


def test_training_has_rates_norms_and_means(run):
    found = events(run[0])
    steps = [1, 11, 21, 31]
    for tag in ("learning_rate", "gradient_norm", "prediction_mean/buy", "loss", "loss/click"):
        assert list(scalars(found, tag)) == steps, tag
    assert list(scalars(found, "learning_rate").values()) == pytest.approx([0.05] * 4)
    logged = lines_of(run[0] / "observed" / "training.jsonl")
    assert logged[0]["step"] == steps[0]  # One batch has one step in both.
    norms, losses = scalars(found, "gradient_norm"), scalars(found, "loss")
    assert norms[1] == pytest.approx(logged[0]["gradient_norm"], rel=1e-5)
    assert losses[1] == pytest.approx(logged[0]["loss"], rel=1e-5)
    # Ten rows a batch.
    for mean in scalars(found, "label_mean/click").values():
        assert mean * 10 == pytest.approx(round(mean * 10), abs=1e-5)
    rates = scalars(found, "examples_per_second")
    assert list(rates) == steps[1:] and min(rates.values()) > 0
    # With --histograms; the names of the tags are the names of the variables.
    (first, *_) = found["dnn/hiddenlayer_0/kernel"]
    shape = tf.train.load_variable(str(run[0]), "dnn/hiddenlayer_0/kernel").shape
    assert first[1].histo.num == np.prod(shape)


def test_precision_and_recall_at_each_threshold(run):
    folder, result = run
    (first, last) = events(folder / "eval")["pr_curve/click"]
    assert (first[0], last[0]) == (EVERY, STEPS)
    plugin = first[1].metadata.plugin_data
    assert (plugin.plugin_name, plugin.content) == ("pr_curves", plugin_data.pr_curve(1001))
    tp, fp, tn, fn, precision, recall = tf.make_ndarray(last[1].tensor)
    assert tp.shape == (1001,)
    metrics = result["metrics"]
    assert (tp + fp + tn + fn).tolist() == [200] * 1001
    assert (tp[0], fn[0], tn[0], recall[0]) == (200 * metrics["label_mean/click"], 0, 0, 1)
    # Threshold 0.5.
    assert precision[500] == pytest.approx(metrics["precision/click"], abs=1e-6)
    assert recall[500] == pytest.approx(metrics["recall/click"], abs=1e-6)


def test_precision_and_recall_of_scikit_learn():
    random = np.random.default_rng(3)
    logits = random.normal(-2, 2, 3000)
    labels = random.random(3000) < 1 / (1 + np.exp(-logits))
    weights = random.integers(0, 3, 3000).astype(float)
    table = np.stack([logits, weights * labels, weights * (1 - labels)])[:, np.argsort(logits)]
    value = summaries.pr_curve("pr_curve/y", table)
    tp, _, _, _, precision, recall = tf.make_ndarray(value.tensor)
    probability = 1 / (1 + np.exp(-logits))
    for k in (1, 10, 100, 250, 700):
        above = probability >= k / 1000
        options = {"sample_weight": weights, "zero_division": 0}
        assert precision[k] == pytest.approx(sk.precision_score(labels, above, **options), abs=1e-6)
        assert recall[k] == pytest.approx(sk.recall_score(labels, above, **options), abs=1e-6)
    assert (tp[1000], precision[1000], recall[1000]) == (0, 0, 0)


def test_once_hyperparameters_charts_and_the_spec(run):
    training, evaluation = events(run[0]), events(run[0] / "eval")
    ((step, text),) = training["spec"]
    assert step == 0 and text.metadata.plugin_data.plugin_name == "text"
    (markdown,) = tf.make_ndarray(text.tensor).tolist()
    lines = markdown.decode().splitlines()
    assert lines[0] == "    features:" and all(line.startswith("    ") for line in lines)
    ((_, layout),) = training["custom_scalars__config__"]
    charts = {
        "auc": ["^auc/click$", "^auc/buy$"],
        "auc_precision_recall": ["^auc_precision_recall/click$", "^auc_precision_recall/buy$"],
        "calibration": ["^calibration/click$", "^calibration/buy$"],
        "loss": ["^loss/click$", "^loss/buy$"],
    }
    expected = plugin_data.layout({"Evaluation": charts})
    assert tf.make_ndarray(layout.tensor).item().startswith(expected)
    for tag in re.findall(r"\^([^$]+)\$", tf.make_ndarray(layout.tensor).item().decode("latin1")):
        assert tag in training or tag in evaluation
    ((_, start),) = evaluation["_hparams_/session_start_info"]
    content = start.metadata.plugin_data.content
    for name, value in {
        "batch_size": 10, "max_steps": STEPS, "model": "wide_deep", "slices": "city",
        "model_params/hidden_units": "[4]", "model_params/clip_norm": 0.5,
    }.items():  # fmt: skip
        entry = message([(1, name), (2, plugin_data._value(value))])
        assert message([(1, entry)]) in content, name
    assert b"model_dir" not in content
    ((_, experiment),) = evaluation["_hparams_/experiment"]
    content = experiment.metadata.plugin_data.content
    assert b"batch_size" in content and b"clip_norm" in content and b"\x12\x09auc/click" in content
    assert b"exit_code_style" not in content
    ((step, _),) = evaluation["_hparams_/session_end_info"]
    assert step == STEPS


def test_slices(run):
    folder, _ = run
    found = events(folder / "eval")
    measured = Slices.load(path_of(str(folder), "slices.json"))
    for name, of in measured.objectives.items():
        for entry in of.slices:
            tag = f"slices/auc/{name}/city={entry.value}"
            # The metric of a slice without positives or without negatives is undefined.
            expected = {} if entry.metric is None else {STEPS: pytest.approx(entry.metric)}
            assert scalars(found, tag) == expected
    assert sum(tag.startswith("slices/auc/click/city=") for tag in found) == 3


def test_undefined_slices_are_left_out():
    parts = [Slice(feature="c", value="a", rows=9, metric=m, low=m, high=m) for m in (None, 0.5)]
    overall = Overall(value=0.5, rows=18)
    y = ObjectiveSlices(metric="auc", overall=overall, slices=parts, left_out={})
    assert ending.slice_values(Slices(objectives={"y": y})) == [
        summaries.scalar("slices/auc/y/c=a", 0.5)
    ]


def test_files_are_read_in_their_order(run):
    """TensorBoard reads the files of a folder by name and goes back to none."""
    names = sorted(path.name for path in (run[0] / "eval").glob("events*"))
    assert names[0].endswith(".first") and names[-1].endswith(".last") and len(names) == 3


def test_the_command(monkeypatch, run):
    folder = str(run[0])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert ending.command("runs/my ads") == (
        "TensorBoard: pip install 'estimator-kit[tensorboard]', then "
        "tensorboard --logdir='runs/my ads'"
    )
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert ending.command(folder) == f"TensorBoard: tensorboard --logdir={folder}"


def test_an_error_becomes_a_text(monkeypatch, run):
    monkeypatch.setattr(ending, "write_projector", lambda *_: 1 / 0)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert ending.finish("m", None, 1) == (
        "TensorBoard lacks embedding tables or slices: division by zero. "
        "TensorBoard: tensorboard --logdir=m"
    )


def test_operations_are_in_scopes(run):
    """At the top of the graph are scopes; single operations would hide them."""
    paths = map(str, run[0].glob("events.out.tfevents.*"))
    events = [event for path in paths for event in tf.compat.v1.train.summary_iterator(path)]
    # It is written once; the writer begins with an empty graph.
    assert max(len(event.meta_graph_def) for event in events) < 1000
    (graph,) = (e.graph_def for e in events if len(e.graph_def) > 1000)
    graph = tf.compat.v1.GraphDef.FromString(graph)
    scopes = {node.name.partition("/")[0] for node in graph.node if "/" in node.name}
    assert {"dnn", "linear", "labels", "logits", "objectives", "checks"} <= scopes
    objectives = {tuple(n.name.split("/")[1:3]) for n in graph.node if n.name[:6] == "object"}
    together = "_and_".join(DOCUMENT["objectives"])  # Their heads have the same settings.
    assert objectives == {(together, what) for what in ("loss", "means")}
    assert {
        "dnn/input_from_feature_columns/input_layer/lookups",
        "dnn/input_from_feature_columns/input_layer/one_hot",
        "dnn/input_from_feature_columns/input_layer/tag_emb",
    } <= {"/".join(node.name.split("/")[:4]) for node in graph.node}


@pytest.mark.nightly
def test_a_real_tensorboard_shows_every_page(run):
    pytest.importorskip("tensorboard")
    with served(run[0]) as read:
        wanted = {
            "scalars", "pr_curves", "hparams", "custom_scalars", "projector", "text", "graphs",
            "histograms",
        }  # fmt: skip
        active = wait_until(
            lambda: {n for n, entry in read("plugins_listing").items() if entry["enabled"]},
            lambda found: wanted <= found,
        )
        assert wanted <= active
        assert read("runs") == [".", "eval"]
        info = read("plugin/projector/info?run=.")
        names = [entry["tensorName"].split("/")[-2] for entry in info["embeddings"]]
        assert names == ["tags_embedding", "user_embedding"]
        assert read("plugin/projector/runs") == ["."]
        (group,) = read(
            "plugin/hparams/session_groups",
            {"startIndex": 0, "sliceSize": 10, "allowedStatuses": ["STATUS_SUCCESS"]},
        )["sessionGroups"]
        assert group["hparams"]["batch_size"] == 10
        metrics = {entry["name"]["tag"]: entry["value"] for entry in group["metricValues"]}
        assert metrics["auc/click"] == pytest.approx(run[1]["metrics"]["auc/click"], rel=1e-6)
        assert metrics["loss"] == pytest.approx(run[1]["metrics"]["loss"], rel=1e-6)
        (curve, _) = read("plugin/pr_curves/pr_curves?tag=pr_curve/click&run=eval")["eval"]
        assert curve["recall"][0] == 1 and curve["thresholds"][500] == 0.5


@contextlib.contextmanager
def served(folder):
    """Starts TensorBoard on a port that it chooses; yields a function that reads a path."""
    command = [
        sys.executable, "-m", "tensorboard.main", f"--logdir={folder}", "--port=0",
        "--host=127.0.0.1", "--load_fast=false",
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    found, lines, told = [], [], threading.Event()

    def look():
        for line in process.stderr:
            lines.append(line)
            found.extend(re.findall(r"http://127\.0\.0\.1:\d+/", line))
            if found:
                told.set()
        told.set()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()

    def read(path, body=None):
        data = None if body is None else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{found[0]}data/{path}", data=data, headers=kind)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    try:
        told.wait(300)
        assert found, "".join(lines)
        yield read
    finally:
        process.terminate()
        process.wait()
        thread.join()
        process.stderr.close()
        process.stdout.close()


def wait_until(ask, done):
    """The answer once it is done, or the last one after two minutes."""
    end = time.monotonic() + 120
    while not done(answer := ask()) and time.monotonic() < end:
        threading.Event().wait(0.5)
    return answer
