"""Canned estimators can use a spec, and each side reads the other side's checkpoints."""

from __future__ import annotations

import copy
import logging

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.models import MODELS
from feature_specs.reference.columns import feature_columns, make_parse_example_spec
from input_pipelines import input_fns
from input_pipelines.record_files import writing
from tests.conftest import make_rows


@pytest.fixture
def spec(document):
    del document["labels"]["buy"], document["objectives"]["buy"]
    return feature_specs.parse(document)


@pytest.fixture
def records(tmp_path):
    path = str(tmp_path / "rows.tfrecord")
    writing.write_examples(path, make_rows(64))
    return path


def canned_input(spec, path):
    def input_fn():
        parsed = (
            tf.data.TFRecordDataset(path)
            .batch(64)
            .map(lambda batch: tf.io.parse_example(batch, make_parse_example_spec(spec)))
        )
        return parsed.map(lambda features: (features, features.pop("click")[:, tf.newaxis]))

    return input_fn


def canned(spec, name, model_dir, **options):
    wide, deep = feature_columns(spec, "wide"), feature_columns(spec, "deep")
    if name == "linear":
        return tf.estimator.LinearClassifier(wide, model_dir=model_dir)
    if name == "dnn":
        return tf.estimator.DNNClassifier([8, 4], deep, model_dir=model_dir, **options)
    return tf.estimator.DNNLinearCombinedClassifier(
        model_dir, linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[8, 4]
    )


def logits(estimator, input_fn, key, checkpoint):
    rows = estimator.predict(input_fn, predict_keys=[key], checkpoint_path=checkpoint)
    return np.array([row[key] for row in rows])


def assert_checkpoints_interchange(spec, path, name, tmp_path, **options):
    """Trains both for three steps. Each returns the other's logits from its checkpoint."""
    theirs = canned(spec, name, str(tmp_path / "theirs"), **options)
    theirs_input = canned_input(spec, path)
    params = {} if name == "linear" else {"hidden_units": [8, 4], **options}
    ours = tf.estimator.Estimator(
        MODELS[name](spec, params), model_dir=str(tmp_path / "ours"), params={}
    )
    ours_input = input_fns.eval_input_fn(spec, [path], batch_size=64)
    theirs.train(theirs_input, steps=3)
    ours.train(input_fns.train_input_fn(spec, [path], batch_size=64), steps=3)
    for trained in (theirs, ours):
        checkpoint = tf.train.latest_checkpoint(trained.model_dir)
        expected = logits(theirs, theirs_input, "logits", checkpoint)
        found = logits(ours, ours_input, "click/logits", checkpoint)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert np.abs(expected).max() > 0.01


# The layers of tf.feature_column call a method that TensorFlow has deprecated.
@pytest.mark.ci
@pytest.mark.filterwarnings("ignore:`layer.add_variable` is deprecated:UserWarning")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("wide_deep", {}),
        *(
            pytest.param(name, options, marks=pytest.mark.nightly)
            for name, options in (("dnn", {}), ("dnn", {"batch_norm": True}), ("linear", {}))
        ),
    ],
)
def test_each_restores_the_others_checkpoint(spec, records, tmp_path, name, options):
    assert_checkpoints_interchange(spec, records, name, tmp_path, **options)


EVERY_KIND = {
    "features": {
        "words": {"dtype": "string", "shape": "variable"},
        "weights": {"dtype": "float32", "shape": "variable"},
        "seen": {"dtype": "string", "shape": "variable"},
        "box": {"dtype": "float32", "shape": [2, 2]},
        "edges": {"dtype": "float32", "shape": [3]},
    },
    "embedding_tables": {"words_table": {"dimension": 3}},
    "columns": {
        "word": {"vocabulary": "words", "list": ["a", "b", "c"], "oov_buckets": 1},
        "weighted": {"weighted": "word", "weight": "weights"},
        "seen_word": {"vocabulary": "seen", "list": ["a", "b", "c"], "oov_buckets": 1},
        "box": {"numeric": "box"},
        "edge_buckets": {"bucketized": "edges", "boundaries": [0.0, 1.0]},
        "weighted_emb": {"embedding": "weighted", "dimension": 2},
        "weighted_sum": {"indicator": "weighted"},
        "word_emb": {"embedding": "word", "table": "words_table"},
        "seen_emb": {"embedding": "seen_word", "table": "words_table"},
    },
    "groups": {
        "wide": ["weighted", "seen_word", "box", "edge_buckets"],
        "deep": ["weighted_emb", "weighted_sum", "word_emb", "seen_emb", "box", "edge_buckets"],
    },
    "labels": {"click": {"dtype": "int64"}},
    "objectives": {"click": {"head": "binary"}},
}


# The layers of tf.feature_column call a method that TensorFlow has deprecated.
@pytest.mark.filterwarnings("ignore:`layer.add_variable` is deprecated:UserWarning")
@pytest.mark.parametrize(
    "name",
    [pytest.param("linear", marks=pytest.mark.nightly), pytest.param("dnn", marks=pytest.mark.ci)],
)
def test_weighted_shared_and_many_valued_columns_interchange(name, tmp_path):
    rng = np.random.default_rng(0)
    path = str(tmp_path / "rows.tfrecord")
    writing.write_examples(
        path,
        [
            {
                "words": list(rng.choice(["a", "b", "c", "d"], size)),
                "weights": list(rng.uniform(0.5, 2.0, size)),
                "seen": list(rng.choice(["a", "b", "x"], 2)),
                "box": list(rng.normal(size=4)),
                "edges": list(rng.normal(size=3)),
                "click": int(rng.integers(2)),
            }
            for size in rng.integers(0, 4, 64)
        ],
    )
    spec = feature_specs.parse(EVERY_KIND)
    assert_checkpoints_interchange(spec, path, name, tmp_path)


SHARED = {
    "features": {"a": {"dtype": "string"}, "b": {"dtype": "string"}},
    "embedding_tables": {"table": {"dimension": 2}},
    "columns": {
        "a": {"hash_bucket": "a", "size": 5},
        "b": {"hash_bucket": "b", "size": 5},
        "a_emb": {"embedding": "a", "table": "table"},
        "b_emb": {"embedding": "b", "table": "table"},
    },
    "groups": {"deep": ["a_emb", "b_emb"]},
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}


def test_a_shared_table_gives_a_warning(caplog):
    frozen = copy.deepcopy(SHARED)
    frozen["embedding_tables"]["table"].update(
        trainable=False, initializer={"normal": {"stddev": 1.0}}
    )
    with caplog.at_level(logging.WARNING, "feature_specs"):
        feature_columns(feature_specs.parse(frozen), "deep")
        feature_columns(feature_specs.parse(SHARED), "deep")
    # TensorFlow also logs that its functions are deprecated.
    (message,) = [r.getMessage() for r in caplog.records if r.name == "feature_specs"]
    assert "group 'deep': the columns a_emb, b_emb share the table 'table', which " in message
    assert "Use tf.compat.v1.estimator.DNN* or DNNLinearCombined*, a model of the kit" in message


def own_model_fn(features, labels, mode, params):
    inputs = tf.compat.v1.keras.layers.DenseFeatures(params["columns"])(features)
    with tf.compat.v1.variable_scope("top"):
        logits = inputs @ tf.compat.v1.get_variable("kernel", [4, 1])
    loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.cast(labels, tf.float32), logits=logits)
    )
    step = tf.compat.v1.train.get_global_step()
    update = tf.compat.v1.train.AdagradOptimizer(0.1).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update)


ESTIMATORS = {
    "tf.estimator.DNN": lambda c, run: tf.estimator.DNNClassifier([4], c, config=run),
    "tf.estimator.DNNLinearCombined": lambda c, run: tf.estimator.DNNLinearCombinedClassifier(
        dnn_feature_columns=c, dnn_hidden_units=[4], config=run
    ),
    "v1.DNN": lambda c, run: tf.compat.v1.estimator.DNNClassifier([4], c, config=run),
    "v1.DNNLinearCombined": lambda c, run: tf.compat.v1.estimator.DNNLinearCombinedClassifier(
        dnn_feature_columns=c, dnn_hidden_units=[4], config=run
    ),
    "own model_fn": lambda c, run: tf.estimator.Estimator(
        own_model_fn, config=run, params={"columns": c}
    ),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", ESTIMATORS)
def test_which_estimators_train_a_shared_table(name, tmp_path):
    """What the warning says. If TensorFlow's own fault is mended, this test says so."""

    def input_fn():
        rows = {"a": tf.constant(["x", "y"]), "b": tf.constant(["z", "x"])}
        return tf.data.Dataset.from_tensors((rows, tf.constant([[1], [0]]))).repeat()

    tables = []
    for steps in (1, 5):
        run = tf.estimator.RunConfig(str(tmp_path / str(steps)), tf_random_seed=3)
        made = ESTIMATORS[name](feature_columns(feature_specs.parse(SHARED), "deep"), run)
        made.train(input_fn, steps=steps)
        (table,) = [n for n in made.get_variable_names() if n.rpartition("/")[2] == "table"]
        tables.append(made.get_variable_value(table))
    trains = not name.startswith("tf.estimator.")
    assert (np.abs(tables[1] - tables[0]).max() > 1e-5) == trains
