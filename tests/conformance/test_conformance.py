"""Every built-in model, with every head: trains, evaluates, and answers the same once exported.

The exports are loaded in a process that has TensorFlow alone.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.exporters import saved_model
from estimator_kit.model_fn import read_metrics
from estimator_kit.models import MODELS
from feature_specs.objectives import HEADS
from input_pipelines import tfrecords
from input_pipelines.transforms import Transform
from tests.conformance import table

_READER = """
import base64, json, sys
import tensorflow as tf
for line in sys.stdin:
    export, records = json.loads(line)
    predict = tf.saved_model.load(export).signatures["serving_default"]
    answer = predict(examples=tf.constant([base64.b64decode(r) for r in records]))
    numbers = {k: v.numpy().tolist() for k, v in answer.items() if v.dtype != tf.string}
    assert not [m for m in sys.modules if m.startswith(("estimator_kit", "tensorflow_estimator"))]
    print(json.dumps(numbers), flush=True)
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A function (export, records) -> predictions, answered by one bare process."""
    log = tmp_path_factory.mktemp("reader") / "stderr"
    with log.open("w") as stderr, subprocess.Popen(
        [sys.executable, "-c", _READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=stderr, text=True, cwd=log.parent,
        env={"PATH": "", "HOME": os.environ.get("HOME", ""), "TF_CPP_MIN_LOG_LEVEL": "3"},
    ) as process:  # fmt: skip

        def answer(export, records):
            encoded = [base64.b64encode(record).decode() for record in records]
            process.stdin.write(json.dumps([export, encoded]) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, log.read_text()
            return json.loads(line)

        yield answer
        process.stdin.close()


def input_fn(spec, rows, *, labels=True):
    """Twice the same batch; the kit's own pipeline, which has tests of its own, takes longer."""
    records = [tfrecords.example(row).SerializeToString() for row in rows]

    def make():
        transform = Transform(spec)
        parse = transform.features_and_labels if labels else transform.features
        batches = tf.data.Dataset.from_tensors(records).repeat(2 if labels else 1)
        return batches.map(tf.autograph.experimental.do_not_convert(parse))

    return make


def test_every_model_and_every_head_has_an_entry():
    assert set(table.MODEL_CASES) == set(MODELS)
    assert set(table.HEAD_CASES) == set(HEADS)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains_exports_and_answers_the_same_elsewhere(name, served, tmp_path):
    case = table.MODEL_CASES[name]
    objectives = case.objectives or {head: head for head in table.HEAD_CASES}
    whole = feature_specs.parse(table.document(objectives, tuple(table.DOCUMENT["groups"])))
    groups = MODELS[name](whole, case.params).groups()
    spec = feature_specs.parse(table.document(objectives, groups))
    rows = table.make_rows(48, objectives)
    model = MODELS[name](spec, case.params)
    trained = tf.estimator.Estimator(
        model,
        config=tf.estimator.RunConfig(
            model_dir=str(tmp_path / "model"), tf_random_seed=1,
            save_summary_steps=None, log_step_count_steps=None,
        ),
    )  # fmt: skip
    trained.train(input_fn(spec, rows), steps=2)

    metrics = read_metrics(trained.evaluate(input_fn(spec, rows), steps=1))
    assert metrics["global_step"] == 2 and metrics["rows"] == 48
    assert all(np.isfinite(metrics[f"loss/{name}"]) for name in objectives)
    slots = [n for n in trained.get_variable_names() if n.endswith(("/Adagrad", "/Ftrl"))]
    # Only differences of scores make an order, in which what moves all rows alike plays no part.
    alike = ("/bias/Adagrad", "/beta/Adagrad")
    slots = [s for s in slots if not (s.startswith("tower_ranking/") and s.endswith(alike))]
    for slot in slots:  # A variable that never had a gradient keeps the slot it started with.
        assert (trained.get_variable_value(slot) != 0.1).any(), slot
    assert slots

    unlabelled = [{k: v for k, v in row.items() if k not in objectives} for row in rows[:9]]
    records = [tfrecords.example(row).SerializeToString() for row in unlabelled]
    export = saved_model.export_saved_model(trained, spec, str(tmp_path / "export"))
    found = served(export, records)
    predicted = list(trained.predict(input_fn(spec, unlabelled, labels=False)))
    numbers = {k: v for k, v in predicted[0].items() if v.dtype.kind != "O"}
    assert set(found) == set(numbers) and len(numbers) >= len(objectives)
    for key in numbers:
        expected = np.array([row[key] for row in predicted])
        np.testing.assert_allclose(found[key], expected, atol=1e-6, rtol=1e-6, err_msg=key)
        if key.endswith("/logits"):
            assert np.abs(expected).max() > 0
