"""Warm start, with a vocabulary whose words moved."""

import numpy as np
import tensorflow as tf

from tests.estimator_kit.compat import models

v1 = tf.compat.v1


def embedding_model_fn(features, labels, mode, params):
    """One embedding row of size 2 for each word of the vocabulary; its sum is the logit."""
    words = params["words"]
    table = v1.get_variable(
        "embedding", [len(words), 2], initializer=v1.constant_initializer(params["start"])
    )
    ids = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(words, tf.range(len(words), dtype=tf.int64)), 1
    ).lookup(features["word"])
    ids = tf.minimum(ids, len(words) - 1)
    logits = tf.reduce_sum(tf.nn.embedding_lookup(table, ids), axis=[1, 2], keepdims=False)
    loss = v1.losses.sigmoid_cross_entropy(labels, logits[:, tf.newaxis])
    train_op = v1.train.GradientDescentOptimizer(params["rate"]).minimize(
        loss, global_step=v1.train.get_or_create_global_step()
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def estimator(model_dir, words, *, start, rate, warm_start=None):
    return tf.estimator.Estimator(
        embedding_model_fn,
        model_dir=str(model_dir),
        params={"words": words, "start": start, "rate": rate},
        warm_start_from=warm_start,
    )


def vocabulary(path, words):
    path.write_text("".join(f"{word}\n" for word in words))
    return str(path)


def test_vocabulary_remap(tmp_path):
    old_words, new_words = ["a", "b", "c"], ["c", "d", "a"]
    old = estimator(tmp_path / "old", old_words, start=0.0, rate=1.0)
    old.train(models.input_fn, max_steps=5)
    old_rows = old.get_variable_value("embedding")
    assert len(np.unique(old_rows[:, 0])) == 3

    settings = tf.estimator.WarmStartSettings(
        ckpt_to_initialize_from=str(tmp_path / "old"),
        vars_to_warm_start="embedding",
        var_name_to_vocab_info={
            "embedding": tf.estimator.VocabInfo(
                new_vocab=vocabulary(tmp_path / "new.txt", new_words),
                new_vocab_size=3,
                num_oov_buckets=0,
                old_vocab=vocabulary(tmp_path / "old.txt", old_words),
                old_vocab_size=3,
                backup_initializer=v1.zeros_initializer(),
            )
        },
    )
    # A rate of 0 keeps the values of the warm start.
    new = estimator(tmp_path / "new", new_words, start=1.0, rate=0.0, warm_start=settings)
    new.train(models.input_fn, max_steps=1)
    new_rows = new.get_variable_value("embedding")
    np.testing.assert_array_equal(new_rows[0], old_rows[2])
    np.testing.assert_array_equal(new_rows[1], [0.0, 0.0])
    np.testing.assert_array_equal(new_rows[2], old_rows[0])


def test_canned_model_from_a_model_dir(tmp_path):
    _, deep = models.columns()
    old = tf.estimator.DNNClassifier([4], deep, model_dir=str(tmp_path / "old"))
    old.train(models.input_fn, max_steps=5)
    new = tf.estimator.DNNClassifier(
        [4],
        deep,
        model_dir=str(tmp_path / "new"),
        warm_start_from=str(tmp_path / "old"),
        optimizer=lambda: tf.keras.optimizers.legacy.SGD(0.0),
    )
    new.train(models.input_fn, max_steps=1)
    for name in ("dnn/hiddenlayer_0/kernel", "dnn/logits/bias"):
        np.testing.assert_array_equal(new.get_variable_value(name), old.get_variable_value(name))
    assert new.get_variable_value("global_step") == 1
