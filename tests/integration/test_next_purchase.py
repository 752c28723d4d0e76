"""examples/next_purchase runs as its README says, learns, and exports with a free batch size."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from examples.next_purchase import make_data, model
from tests.conftest import ROOT
from tests.placed import without_place

pytestmark = pytest.mark.ci

FOLDER = ROOT / "examples" / "next_purchase"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The commands of the README with fewer records: (result, folder of the data)."""
    folder = tmp_path_factory.mktemp("next_purchase")
    data = folder / "data"

    def python(*arguments):
        done = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    readme = (FOLDER / "README.md").read_text()
    make, run = re.findall(r"^python (.*)$", readme, re.M)
    python(*make.split(), f"--out_dir={data}", "--users=3000")
    python(
        *run.split(), f"--train_files={data}/train-*", f"--eval_files={data}/eval.tfrecord",
        f"--model_dir={folder}/model", "--epochs=3",
        "--model_params=units=[16,16]", "--model_params=learning_rate=0.01",
    )  # fmt: skip
    return json.loads((folder / "model" / "result.json").read_text()), data


def records(path):
    """The labels of the eval records, and which steps are not padding: [rows, 6, ...]."""
    rows = [tf.train.Example.FromString(r) for r in
            tf.data.TFRecordDataset(str(path)).as_numpy_iterator()]  # fmt: skip

    def array(name, kind, *shape):
        values = [getattr(row.features.feature[name], kind).value for row in rows]
        return np.array(values, np.float64).reshape(len(rows), 6, *shape)

    return (
        array("next_vector", "float_list", 4), array("bought", "int64_list"),
        array("real", "float_list") == 1,
    )  # fmt: skip


@pytest.mark.nightly
def test_it_is_better_than_any_constant(trained):
    result, data = trained
    vectors, bought, real = records(data / "eval.tfrecord")
    assert 0.3 < real.mean() < 0.8 and result["metrics"]["weight_sum/bought"] == real.sum()
    # The best constant direction is the direction of the mean of the unit vectors.
    unit = vectors[real] / np.linalg.norm(vectors[real], axis=1, keepdims=True)
    cosine = 1 - np.linalg.norm(unit.mean(0))
    # The best constant p minimizes share * 5 (1 - p)^2 + (1 - share) p^2.
    share = bought[real].mean()
    p = 5 * share / (5 * share + 1 - share)
    squared = share * 5 * (1 - p) ** 2 + (1 - share) * p**2
    metrics = result["metrics"]
    assert metrics["loss/next_vector"] < 0.3 * cosine
    assert metrics["loss/bought"] < 0.6 * squared
    assert metrics["loss"] == pytest.approx(
        metrics["loss/next_vector"] + 0.5 * metrics["loss/bought"], abs=1e-6
    )


@pytest.mark.nightly
def test_the_export_takes_any_number_of_rows_and_padding_changes_no_step_before_it(trained):
    result, _ = trained
    predict = tf.saved_model.load(result["exports"]["final"]).signatures["serving_default"]

    def ask(histories):
        rows = [{"history": np.ravel(history)} for history in histories]
        examples = [ek_example(row) for row in rows]
        return {k: v.numpy() for k, v in predict(examples=tf.constant(examples)).items()}

    rng = np.random.default_rng(0)
    histories = rng.normal(0, 1, [5, 6, 4])
    five, one = ask(histories), ask(histories[:1])
    assert five["next_vector/predictions"].shape == (5, 6, 4)
    assert five["bought/logistic"].shape == (5, 6, 1)
    np.testing.assert_allclose(np.linalg.norm(five["next_vector/predictions"], axis=2), 1, 1e-5)
    changed = histories.copy()
    changed[:, 4:] = rng.normal(0, 9, [5, 2, 4])
    behind = ask(changed)
    for name in ("next_vector/predictions", "bought/logistic"):
        np.testing.assert_allclose(five[name][:1], one[name], atol=1e-6)
        np.testing.assert_allclose(five[name][:, :4], behind[name][:, :4], atol=1e-6)


def ek_example(row):
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=row["history"]))
    return tf.train.Example(
        features=tf.train.Features(feature={"history": feature})
    ).SerializeToString()


def test_the_loss_by_hand():
    """Two users with 2 steps and 1 step. The labels of their padding must not count."""
    spec = feature_specs.load(str(FOLDER / "spec.yaml"))
    made = model.NextPurchase(spec)
    vectors = np.zeros([2, 6, 4], np.float32)
    targets = np.ones([2, 6, 4], np.float32)
    vectors[:, :, 0], targets[0, :, 1:] = 1, 0  # User 0: the same; user 1: cosine 1/2.
    bought = np.array([[0, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0]])
    real = np.array([[1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]], np.float32)
    # Cosine: (0 + 0 + 0.5) / 3. Bought, at p = 1/2: (0.25 + 5 * 0.25 + 5 * 0.25) / 3.
    cosine, squared = 0.5 / 3, 2.75 / 3
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        logits = {"next_vector": vectors.reshape(2, 24), "bought": np.zeros([2, 6], np.float32)}
        labels = {"next_vector": targets, "bought": bought}
        losses = {
            name: objective.loss(*map(tf.constant, (logits[name], labels[name], real)))
            for name, objective in made.heads.items()
        }
        total = made.loss(losses)
        found = session.run([losses["next_vector"], losses["bought"], total])
    # 1 - cosine has the rounding error of the cosine, whose square root differs between processors.
    np.testing.assert_allclose(found, [cosine, squared, cosine + 0.5 * squared], atol=1e-6)


def test_the_model_is_short_and_says_what_it_needs():
    assert len((FOLDER / "model.py").read_text().splitlines()) < 80
    spec = feature_specs.load(str(FOLDER / "spec.yaml"))
    document = spec.to_dict()
    del document["objectives"]["bought"], document["labels"]["bought"]
    with pytest.raises(ek.ConfigError) as caught:
        model.NextPurchase(feature_specs.parse(document))
    text = without_place(caught.value, "check_spec")
    assert text == "expected objectives next_vector and bought of the same steps"


def test_the_data_are_padded_as_the_spec_says():
    import random

    row = make_data.user(random.Random(3))
    count = int(sum(row["real"]))
    assert 1 <= count <= 6 and row["real"] == [1.0] * count + [0.0] * (6 - count)
    assert len(row["history"]) == 24 == len(row["next_vector"]) and len(row["bought"]) == 6
    assert row["history"][4 : 4 * count] == row["next_vector"][: 4 * count - 4]
    assert not any(row["history"][4 * count :] + row["bought"][count:])
