"""The Keras sides of wdl.py: the same model with `fit`, and Keras' or keras-rs' tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import keras
import numpy as np
import tensorflow as tf
import wdl_data
from keras_fit import Rounds
from side_by_side import Turns
from wdl_data import BATCH, BUCKETS, DIMENSIONS, RATE, UNITS


def measure(rows: tf.data.Dataset, steps: int, *, rs: bool) -> None:
    """Trains on batches of parsed features."""
    callback = Rounds(Turns(steps, BATCH))
    _model(rs).fit(_ready(rows), steps_per_epoch=10**6, verbose=0, callbacks=[callback])


def learning(
    shards: Iterable[tf.data.Dataset], held_out: tf.data.Dataset, *, rs: bool
) -> Iterator[np.ndarray]:
    """The logits of other rows after each shard."""
    model = _model(rs)
    for rows in shards:
        model.fit(_ready(rows), verbose=0)
        yield model.predict(_ready(held_out), verbose=0).ravel()


def _ready(rows: tf.data.Dataset) -> tf.data.Dataset:
    hashing = keras.layers.Hashing(BUCKETS)
    least = tf.constant([list(wdl_data.NUMBERS.values())], tf.float32)

    def ready(features, label):
        numbers = tf.stack([features[name] for name in wdl_data.NUMBERS], 1) / least
        return {"numbers": numbers, **{n: hashing(features[n]) for n in DIMENSIONS}}, label

    return rows.map(ready, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _model(rs: bool):
    numbers = keras.Input([len(wdl_data.NUMBERS)], name="numbers")
    ids = {name: keras.Input([], dtype="int64", name=name) for name in DIMENSIONS}
    vectors = _with_keras_rs(ids) if rs else _with_keras(ids)
    hidden = keras.layers.Concatenate()([numbers, *(vectors[name] for name in ids)])
    for units in UNITS:
        hidden = keras.layers.Dense(units, activation="relu")(hidden)
    wide = [keras.layers.Embedding(BUCKETS, 1)(ids[name]) for name in ids]
    logits = [keras.layers.Dense(1)(hidden), keras.layers.Dense(1)(numbers), *wide]
    model = keras.Model({"numbers": numbers, **ids}, keras.layers.Add()(logits))
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adagrad(RATE), loss)
    return model


def _with_keras(ids):
    return {n: keras.layers.Embedding(BUCKETS, DIMENSIONS[n])(ids[n]) for n in ids}


def _with_keras_rs(ids):
    from keras_rs.layers import DistributedEmbedding, FeatureConfig, TableConfig

    features = {
        name: FeatureConfig(
            name=name,
            table=TableConfig(name, BUCKETS, dimension, combiner="sum"),
            input_shape=(BATCH,),
            output_shape=(BATCH, dimension),
        )
        for name, dimension in DIMENSIONS.items()
    }
    return DistributedEmbedding(features)(ids)
