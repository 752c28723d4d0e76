"""A whole run of a model whose answers hold a row's key and words, as in plain tf.estimator."""

from __future__ import annotations

import glob
import json

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.exporters import sample_rows
from input_pipelines.record_files import writing
from tests.conftest import DOCUMENT, make_rows, small_run, variables
from tests.estimator_kit.small_training import batch_of

pytestmark = pytest.mark.ci

RAW = ("row", "city", "user", "tags")


class Keyed(ek.ModelFn):
    """It answers with the key and the words of a row, and adds up the keys that it trains on."""

    def logits(self, features, mode):
        for name in ("row", "city", "user"):
            self.add_output(name, self.raw(name))
        self.add_output("tags", self.raw("tags").to_tensor(shape=[None, 3]))
        deep = self.dense_input(features, "deep")
        total = tf.compat.v1.get_variable(
            "total", [], tf.int64, tf.compat.v1.zeros_initializer(), trainable=False
        )
        if mode == tf.estimator.ModeKeys.TRAIN:
            added = total.assign_add(tf.reduce_sum(self.raw("row")))
            tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.UPDATE_OPS, added)
        return ek.dense_layer(deep, self.logits_dimension, "logits")

    def metrics(self, labels, predictions, weights, features):
        is_rome = tf.equal(self.raw("city"), "rome")
        return {"rome": tf.compat.v1.metrics.mean(is_rome), "key": tf.compat.v1.metrics.mean(
            self.raw("row"))}  # fmt: skip


@pytest.fixture(scope="module")
def data(ads, tmp_path_factory):
    """The files of `ads` with a spec that lists raw features. `row` is in no column."""
    folder = tmp_path_factory.mktemp("data")
    for path in glob.glob(f"{ads}/*.tfrecord*"):
        (folder / path.rpartition("/")[2]).symlink_to(path)
    features = {**DOCUMENT["features"], "row": {"dtype": "int64"}}
    (folder / "spec.yaml").write_text(json.dumps({**DOCUMENT, "features": features, "raw": RAW}))
    return folder


def run(data, folder, **values):
    given = {"model": f"{__name__}:Keyed", "epochs": 1, **values}
    return ek.run(small_run(data, folder, **given)())


def forward_features(estimator, names):
    """What `tf.contrib.estimator.forward_features` did: features become predictions."""

    def model_fn(features, labels, mode, config):
        spec = estimator.model_fn(features, labels, mode, config)
        if spec.predictions is None:
            return spec
        return spec._replace(predictions={**spec.predictions, **{n: features[n] for n in names}})

    return tf.estimator.Estimator(model_fn, config=estimator.config)


@pytest.mark.nightly  # tests/estimator_kit/model/test_raw_features.py asks in each mode.
def test_answers_have_the_keys_and_words_of_the_records(data, tmp_path):
    result = run(data, tmp_path / "model", exporters=("final",))
    rows = make_rows(200, seed=9)
    trained = [row["row"] for i, n in enumerate((150, 130, 90, 30)) for row in make_rows(n, seed=i)]
    assert variables(tmp_path / "model")["total"] == sum(trained)
    assert result.metrics["key"] == pytest.approx(np.mean([row["row"] for row in rows]))
    rome = np.mean([row["city"] == "rome" for row in rows])
    assert result.metrics["rome"] == pytest.approx(rome, abs=1e-6)

    # A plain Estimator with the parser of the same spec.
    spec = feature_specs.load(data / "spec.yaml")
    columns = ek.feature_columns(spec, "deep")
    canned = tf.estimator.DNNClassifier(
        [4], columns, config=tf.estimator.RunConfig(model_dir=str(tmp_path / "canned"))
    )
    plain = forward_features(canned, RAW[:3])

    def input_fn():
        records = [writing.example(row).SerializeToString() for row in rows]
        parsed = tf.io.parse_example(records, ek.make_parse_example_spec(spec))
        return tf.data.Dataset.from_tensors((parsed, parsed["click"]))

    plain.train(input_fn, steps=1)
    expected = {
        name: [row[name] for row in plain.predict(input_fn, [*RAW[:3]])] for name in RAW[:3]
    }
    words = [[tag.encode() for tag in row["tags"]] for row in rows]
    expected["tags"] = [tags + [b""] * (3 - len(tags)) for tags in words]
    assert expected["row"] == [row["row"] for row in rows] and b"" in expected["user"]

    loaded = tf.saved_model.load(result.export_path)
    sample = sample_rows.sample_rows(spec, [f"{data}/eval.tfrecord"], count=200)
    for name, inputs in (
        ("predict_examples", {"examples": tf.constant(sample.records)}),
        ("predict_raw", {key: tf.constant(value) for key, value in sample.raw.items()}),
    ):
        answer = loaded.signatures[name](**inputs)
        assert {key: answer[key].numpy().tolist() for key in RAW} == expected, name
    estimator = tf.estimator.Estimator(Keyed(spec), model_dir=str(tmp_path / "model"))
    found = list(estimator.predict(batch_of(spec, rows, labels=False)))
    assert {key: np.array([row[key] for row in found]).tolist() for key in RAW} == expected

    ek.run(
        ek.ExperimentConfig(
            mode="predict", export_dir=result.export_path, predict_dir=str(tmp_path / "answers"),
            predict_files=(f"{data}/eval.tfrecord",),
        )
    )  # fmt: skip
    (path,) = glob.glob(f"{tmp_path}/answers/*.tfrecord")
    records = tf.data.TFRecordDataset(path).as_numpy_iterator()
    stored = [tf.train.Example.FromString(record) for record in records]
    assert [e.features.feature["row"].int64_list.value[0] for e in stored] == expected["row"]
    assert [e.features.feature["city"].bytes_list.value[0] for e in stored] == expected["city"]


@pytest.mark.nightly  # tests/estimator_kit/model/test_raw_features.py has its forms.
def test_a_built_in_model_forwards_features_as_tf_contrib_did(data, tmp_path):
    params = {"forward_features": ["row", "tags"], "hidden_units": [4]}
    result = run(data, tmp_path / "model", model="dnn", model_params=params, exporters=("final",))
    rows = make_rows(200, seed=9)
    spec = feature_specs.load(data / "spec.yaml")
    sample = sample_rows.sample_rows(spec, [f"{data}/eval.tfrecord"], count=200)
    width = max(len(row["tags"]) for row in rows)
    tags = [[t.encode() for t in row["tags"]] + [b""] * (width - len(row["tags"])) for row in rows]
    loaded = tf.saved_model.load(result.export_path)
    for name, inputs in (
        ("predict_examples", {"examples": tf.constant(sample.records)}),
        ("predict_raw", {key: tf.constant(value) for key, value in sample.raw.items()}),
    ):
        answer = loaded.signatures[name](**inputs)
        assert answer["row"].numpy().tolist() == [row["row"] for row in rows]
        assert answer["tags"].numpy().tolist() == tags
        assert "click/logits" in answer
    # The checkpoint answers the same, and a training without the parameter goes on.
    output = tmp_path / "out.jsonl"
    run(data, tmp_path / "model", model="dnn", model_params=params, mode="predict",
        predict_files=(f"{data}/eval.tfrecord",), predict_output=str(output))  # fmt: skip
    found = [json.loads(line)["row"] for line in output.read_text().splitlines()]
    assert found == [row["row"] for row in rows]
    # A checkpoint keeps features, too, of several batches.
    run(data, tmp_path / "model", model="dnn", model_params={"hidden_units": [4]}, mode="predict",
        predict_files=(f"{data}/eval.tfrecord",) * 2, predict_output=str(output),
        keep_columns=("row", "tags"), eval_batch_size=30)  # fmt: skip
    kept = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["row"] for row in kept] == [row["row"] for row in rows] * 2
    assert [row["tags"] for row in kept] == [row["tags"] for row in rows] * 2
    run(data, tmp_path / "model", model="dnn", model_params={"hidden_units": [4]}, epochs=2)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["price"], "model DNNModel: forward_features: the section `raw` of {spec} does not list "
         "'price', it lists row, city, user, tags. Add it: `raw: [row, city, user, tags, price]`."),
        (["row", "row"], "model DNNModel: forward_features: got the output 'row' twice."),
    ],
)  # fmt: skip
def test_features_that_cannot_be_forwarded(data, tmp_path, names, message):
    with pytest.raises(ek.ConfigError) as error:
        run(data, tmp_path / "model", model="dnn", model_params={"forward_features": names})
    assert str(error.value).startswith(message.format(spec=data / "spec.yaml"))
    assert not (tmp_path / "model").exists()
