"""Images, raw numbers and lists of lists from end to end, with a custom model.

The model is trained, exported, and queried with serialized Examples. Bad values are named or
skipped.
"""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.models import MODELS
from input_pipelines.record_files import writing
from tests.conftest import place
from tests.estimator_kit.model.keras.test_layers import estimator
from tests.placed import without_place

DOCUMENT = {
    "features": {
        "photo": {"dtype": "string", "default": "zeros", "decode": {
            "image": {"height": 4, "width": 6, "channels": 1, "resize": "area"}}},
        "sound": {"dtype": "string", "decode": {"raw": {"dtype": "int16", "shape": [2, 4]}}},
        "words": {"dtype": "string", "shape": "variable", "row_lengths": "sentences"},
        "sentences": {"dtype": "int64", "shape": "variable"},
    },
    "columns": {
        "photo": {"numeric": "photo"},
        "sound": {"numeric": "sound", "normalizer": {"minmax": {"min": -100, "max": 100}}},
        "word": {"hash_bucket": "words", "size": 10},
        "text": {"ragged": "word"},
    },
    "groups": {"deep": ["photo", "sound"], "text": ["text"]},
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}  # fmt: skip


class ThreeSenses(ek.ModelFn):
    """A convolution over the image, the raw numbers, and the mean of words over sentences."""

    def logits(self, features, mode):
        photo = self.numeric_input(features, "photo")
        # Training without --epochs knows the rows of a batch, but the check of its graph does not.
        # The check of outputs has three rows.
        assert photo.shape.as_list() in ([None, 4, 6, 1], [20, 4, 6, 1], [3, 4, 6, 1])
        seen = self.keras(tf.keras.layers.Conv2D(2, 3), photo, mode)
        sound = self.numeric_input(features, "sound")
        assert sound.shape.as_list() in ([None, 2, 4], [3, 2, 4])
        text = self.ragged_input(features, "text")["text"]
        assert isinstance(text, tf.RaggedTensor) and text.shape.rank == 3
        table = tf.compat.v1.get_variable("words", [10, 2])
        vectors = tf.ragged.map_flat_values(tf.gather, table, text)  # [rows, None, None, 2]
        sentences = tf.reduce_sum(vectors, axis=2)
        read = tf.math.divide_no_nan(
            tf.reduce_sum(sentences, axis=1),
            tf.cast(sentences.row_lengths(), tf.float32)[:, tf.newaxis],
        )
        parts = [tf.reduce_mean(seen, [1, 2]), tf.reduce_mean(sound, 2), read]
        self.add_output("text_mean", tf.ensure_shape(read, [None, 2]))
        return ek.dense_layer(tf.concat(parts, axis=1), self.logits_dimension, "logits")


def photo_of(bright, rng):
    low = 180 if bright else 0
    pixels = rng.integers(low, low + 70, [8, 12, 3], np.uint8)
    encode = tf.io.encode_png if rng.random() < 0.5 else tf.io.encode_jpeg
    return encode(tf.constant(pixels)).numpy()


def make_row(bright, loud, friendly, rng):
    word = "hello" if friendly else "bye"
    level = 60 if loud else -60
    return {
        "photo": photo_of(bright, rng),
        "sound": (level + rng.integers(-9, 9, [2, 4])).astype("<i2").tobytes(),
        "words": [word, word, "you"], "sentences": [1, 0, 2],
        "y": int(bright + loud + friendly >= 2),
    }  # fmt: skip


def make_rows(count, seed):
    rng = np.random.default_rng(seed)
    return [make_row(*rng.integers(0, 2, 3), rng) for _ in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bytes")
    (folder / "spec.yaml").write_text(json.dumps(DOCUMENT))
    writing.write_examples(f"{folder}/train.tfrecord", make_rows(200, 0))
    writing.write_examples(f"{folder}/eval.tfrecord", make_rows(50, 1))
    return folder


@pytest.fixture
def config(folder, tmp_path):
    return ek.ExperimentConfig(
        spec=f"{folder}/spec.yaml", model="tests.integration.test_encoded_bytes:ThreeSenses",
        model_params={"learning_rate": 0.2}, model_dir=f"{tmp_path}/model", batch_size=20,
        train_files=(f"{folder}/train.tfrecord",), eval_files=(f"{folder}/eval.tfrecord",),
        max_steps=80, exporters=("final",),
    )  # fmt: skip


@pytest.mark.nightly
def test_a_model_learns_from_them_and_its_export_answers(config):
    result = ek.run(config)
    assert result.metrics["auc/y"] > 0.98
    predict = tf.saved_model.load(result.export_path).signatures["serving_default"]
    rng = np.random.default_rng(2)
    rows = [make_row(*senses, rng) for senses in ((1, 1, 1), (1, 0, 1), (0, 0, 0), (0, 1, 0))]
    for row in rows:
        del row["y"]
    rows[3]["photo"] = b""  # As if it were black.
    requests = [writing.example(row).SerializeToString() for row in rows]
    together = predict(examples=tf.constant(requests))
    answers = together["y/logistic"].numpy().ravel()
    assert answers[0] > 0.8 and answers[1] > 0.5 > answers[3] and answers[2] < 0.2
    one = predict(examples=tf.constant(requests[1:2]))
    np.testing.assert_allclose(one["y/logistic"].numpy().ravel(), answers[1:2], rtol=1e-4)
    # The mean of three sentences, one of them empty: (w + 0 + (w + you)) / 3.
    with tf.Graph().as_default():
        reader = tf.compat.v1.train.load_checkpoint(str(config.model_dir))
        table = reader.get_tensor("words")
    ids = tf.strings.to_hash_bucket_fast(["hello", "bye", "you"], 10).numpy()
    hello, bye, you = table[ids]
    np.testing.assert_allclose(
        together["text_mean"], [(2 * word + you) / 3 for word in (hello, hello, bye, bye)],
        rtol=1e-5, atol=1e-6,  # The two words may nearly cancel out.
    )  # fmt: skip
    bad = writing.example({**rows[0], "sound": b"abc"}).SerializeToString()
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"sound.* must have 16 bytes"):
        predict(examples=tf.constant([requests[0], bad]))


@pytest.mark.nightly
def test_bad_ones_stop_a_run_or_are_skipped(config, tmp_path):
    rows = make_rows(60, 3)
    rows[17]["photo"] = rows[17]["photo"][:50]
    rows[41]["sound"] = bytes(15)
    rows[42]["sentences"] = [9]
    path = f"{tmp_path}/bad.tfrecord"
    writing.write_examples(path, rows)
    run = config.model_copy(update={
        "mode": "train", "train_files": (path,), "eval_files": (), "max_steps": 4, "exporters": (),
    })  # fmt: skip
    with pytest.raises(ek.DataError) as error:
        ek.run(run)
    assert f"{path}: {place(path, 17)}: feature 'photo' is a " in str(error.value)
    skip = {"corrupt_data_policy": "skip_record", "model_dir": f"{tmp_path}/other"}
    ek.run(run.model_copy(update=skip))
    kept = json.loads((tmp_path / "other" / "bad_data.json").read_text())
    assert kept["train_files"]["bad_records"] == 3
    reasons = json.dumps(kept)
    for number, reason in (
        (17, "that cannot be decoded: its 50 bytes are cut off or damaged"),
        (41, "feature 'sound' has 15 bytes, expected 16: 2 x 4 of int16"),
        (42, "feature 'words' has 3 values, but its row_lengths 'sentences' add up to 9"),
    ):
        assert reason in reasons, number


def without_text():
    document = copy.deepcopy(DOCUMENT)
    document["groups"] = {"deep": ["photo", "sound"]}
    for section, names in (("columns", ("word", "text")), ("features", ("words", "sentences"))):
        for name in names:
            del document[section][name]
    return feature_specs.parse(document)


def test_built_in_models_take_pixels_side_by_side(tmp_path):
    spec = without_text()
    model = MODELS["dnn"](spec, {"hidden_units": [4]})
    with tf.Graph().as_default():
        features = {"photo": tf.zeros([3, 24]), "sound": tf.zeros([3, 8])}
        assert model.dense_input(features, "deep").shape.as_list() == [3, 32]


class Pictures(ek.KerasModelFn):
    """Has one input with the shape of the image, and one input of a group."""

    def keras_model(self):
        photo = tf.keras.Input((4, 6, 1), name="photo")
        deep = tf.keras.Input((32,), name="deep")
        seen = tf.keras.layers.Flatten()(tf.keras.layers.Conv2D(1, 2)(photo))
        both = tf.keras.layers.Concatenate()([seen, deep])
        model = tf.keras.Model([photo, deep], tf.keras.layers.Dense(1, "sigmoid", name="y")(both))
        model.compile("sgd", "binary_crossentropy")
        return model


class WrongShape(Pictures):
    def keras_model(self):
        photo = tf.keras.Input((6, 4, 1), name="photo")
        flat = tf.keras.layers.Flatten()(photo)
        model = tf.keras.Model(photo, tf.keras.layers.Dense(1, "sigmoid", name="y")(flat))
        model.compile("sgd", "binary_crossentropy")
        return model


def test_a_keras_model_has_an_image_in_its_shape(folder, tmp_path):
    spec = without_text()
    with pytest.raises(ek.ConfigError) as error:
        WrongShape(spec)
    assert without_place(error.value, "keras_model") == (
        "the input 'photo' of the Keras model has the shape (None, 6, 4, 1), but the spec gives 24 "
        "numbers. Use tf.keras.Input((24,), name='photo'), or the shape (4, 6, 1)."
    )
    made = estimator(Pictures(spec), tmp_path)
    files = [f"{folder}/train.tfrecord"]
    made.train(ek.train_input_fn(spec, files, batch_size=20), max_steps=2)


def test_what_is_no_numeric_column_has_no_shape():
    model = ThreeSenses(feature_specs.parse(DOCUMENT))
    with pytest.raises(ek.ConfigError) as error:
        model.numeric_input({}, "text")
    assert str(error.value) == (
        "got the column 'text', expected a numeric column, but it is ragged. <dict> has photo, "
        "sound."
    )
