"""Small data and models that the tests train."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import tensorflow as tf

ROWS = 64


def data(seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """64 rows of x (two floats) and word (one of three). The label is 1 if the sum of x is > 0."""
    random = np.random.RandomState(seed)
    x = random.normal(size=(ROWS, 2)).astype(np.float32)
    word = random.choice([b"a", b"b", b"c"], size=(ROWS, 1))
    label = (x.sum(axis=1, keepdims=True) > 0).astype(np.int64)
    return {"x": x, "word": word}, label


def input_fn(repeat: Optional[int] = None) -> tf.data.Dataset:
    """Batches of 16 rows of `data`, without end unless `repeat` is given."""
    return tf.data.Dataset.from_tensor_slices(data()).repeat(repeat).batch(16)


def once() -> tf.data.Dataset:
    """The 64 rows of `data`, once."""
    return input_fn(1)


def columns() -> tuple[list[Any], list[Any]]:
    """Wide and deep feature columns for `data`."""
    fc = tf.feature_column
    word = fc.categorical_column_with_vocabulary_list("word", ["a", "b", "c"])
    return [word], [fc.numeric_column("x", shape=[2]), fc.embedding_column(word, 2)]


def serving_receiver() -> Any:
    """A serving input receiver that parses tf.Examples with the columns' features."""
    wide, deep = columns()
    spec = tf.feature_column.make_parse_example_spec(wide + deep)
    return tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)()


def example(x: list[float], word: bytes) -> bytes:
    """A serialized tf.Example of one row."""
    features = tf.train.Features(
        feature={
            "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
            "word": tf.train.Feature(bytes_list=tf.train.BytesList(value=[word])),
        }
    )
    return tf.train.Example(features=features).SerializeToString()


def logistic_model_fn(features: Any, labels: Any, mode: str) -> Any:
    """Logistic regression in plain v1 operations; no head, no Keras."""
    v1 = tf.compat.v1
    weights = v1.get_variable("weights", [2, 1], initializer=v1.zeros_initializer())
    bias = v1.get_variable("bias", [1], initializer=v1.zeros_initializer())
    logits = tf.matmul(features["x"], weights) + bias
    probability = tf.sigmoid(logits)
    predictions = {"probability": probability}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(
            mode,
            predictions=predictions,
            export_outputs={"serving_default": tf.estimator.export.PredictOutput(predictions)},
        )
    loss = v1.losses.sigmoid_cross_entropy(labels, logits)
    train_op = v1.train.GradientDescentOptimizer(0.5).minimize(
        loss, global_step=v1.train.get_or_create_global_step()
    )
    return tf.estimator.EstimatorSpec(
        mode,
        loss=loss,
        train_op=train_op,
        predictions=predictions,
        eval_metric_ops={
            "accuracy": v1.metrics.accuracy(labels, tf.cast(probability > 0.5, tf.int64))
        },
    )


def logistic(model_dir: Any, config: Optional[Any] = None) -> Any:
    """The Estimator of `logistic_model_fn`."""
    return tf.estimator.Estimator(logistic_model_fn, model_dir=str(model_dir), config=config)
