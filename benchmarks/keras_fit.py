"""Training beside Keras: the same model from preprocessing layers, trained with `fit`.

    python benchmarks/keras_fit.py [--rows 200000] [--rounds 3]

13 numbers after log1p, 24 hashed categories as embeddings of 100,000 by 16, two categories one-hot
by a vocabulary of 100 words, a DNN of 256-128-64, Adagrad, batches of 1024. The Keras side is
written as its guides advise: batches are parsed at once and the preprocessing layers (`Hashing`,
`StringLookup`, `CategoryEncoding`) run in the dataset, in parallel and prefetched. Keras is the one
that TensorFlow comes with: Keras 2 on 2.15, Keras 3 from 2.16 on.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import estimator_kit.compat  # isort: skip
import click_logs
import keras
import tensorflow as tf
from side_by_side import compare
from training_speed import BATCH, RATE, UNITS, WARM_UP, run_config, trained_rows_a_second

import estimator_kit as ek
from estimator_kit.models import find_model

HASHED = click_logs.CATEGORIES[:24]
ONE_HOT = {
    name: [f"{value * 40503 + i:08x}" for value in range(100)]
    for i, name in enumerate(click_logs.CATEGORIES)
    if name not in HASHED
}


def spec():
    """The feature spec of both sides."""
    document = click_logs.document()
    deep = [*click_logs.NUMBERS, *(f"{name}_emb" for name in HASHED)]
    for name, words in ONE_HOT.items():
        del document["columns"][f"{name}_emb"]
        document["columns"][f"{name}_id"] = {"vocabulary": name, "list": words, "oov_buckets": 1}
        document["columns"][f"{name}_hot"] = {"indicator": f"{name}_id"}
        deep.append(f"{name}_hot")
    document["groups"]["deep"] = deep
    return ek.parse_spec(document)


def keras_dataset(paths: list[str]) -> tf.data.Dataset:
    """Shuffled rows, parsed a batch at a time, and preprocessed in parallel."""
    parse_spec = ek.make_parse_example_spec(spec())
    hashing = keras.layers.Hashing(click_logs.BUCKETS)
    lookups = {n: keras.layers.StringLookup(vocabulary=words) for n, words in ONE_HOT.items()}
    one_hot = keras.layers.CategoryEncoding(num_tokens=101, output_mode="one_hot")

    def preprocess(serialized):
        parsed = tf.io.parse_example(serialized, parse_spec)
        label = parsed.pop("click")
        inputs = {"numbers": tf.math.log1p(tf.stack([parsed[n] for n in click_logs.NUMBERS], 1))}
        for name in HASHED:
            inputs[name] = hashing(parsed[name])
        for name, lookup in lookups.items():
            inputs[name] = one_hot(lookup(parsed[name]))
        return inputs, label

    files = tf.data.Dataset.from_tensor_slices(paths).repeat()
    rows = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
    batches = rows.shuffle(10_000).batch(BATCH, drop_remainder=True)
    return batches.map(preprocess, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def keras_model():
    """The same model as a Keras functional one."""
    inputs = {"numbers": keras.Input([len(click_logs.NUMBERS)], name="numbers")}
    parts = [inputs["numbers"]]
    for name in HASHED:
        inputs[name] = keras.Input([], dtype="int64", name=name)
        parts.append(keras.layers.Embedding(click_logs.BUCKETS, click_logs.DIMENSION)(inputs[name]))
    for name in ONE_HOT:
        inputs[name] = keras.Input([101], name=name)
        parts.append(inputs[name])
    hidden = keras.layers.Concatenate()(parts)
    for units in UNITS:
        hidden = keras.layers.Dense(units, activation="relu")(hidden)
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.compile(keras.optimizers.Adagrad(RATE), keras.losses.BinaryCrossentropy(from_logits=True))
    return model


class _Clock(keras.callbacks.Callback):
    """Takes the time of the steps after the first ones."""

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 == WARM_UP:
            self.start = time.perf_counter()
        self.end = time.perf_counter()


def fitted_rows_a_second(model, dataset, steps: int) -> float:
    """Of `fit`, after the warm-up; its own loss bookkeeping included, as everybody has it."""
    clock = _Clock()
    model.fit(dataset, steps_per_epoch=WARM_UP + steps, epochs=1, verbose=0, callbacks=[clock])
    return steps * BATCH / (clock.end - clock.start)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100, help="that are timed, a round")
    parser.add_argument("--data", default="data/benchmarks")
    arguments = parser.parse_args()
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    paths = click_logs.generate(arguments.data, arguments.rows)
    our_input = ek.train_input_fn(spec(), paths, batch_size=BATCH)
    params = {"hidden_units": UNITS, "learning_rate": RATE}
    with tempfile.TemporaryDirectory() as folder:
        model = find_model("dnn")(spec(), params)
        ours = tf.estimator.Estimator(model, f"{folder}/ours", run_config(), params={})
        peer, dataset = keras_model(), keras_dataset(paths)
        compare(
            f"training, against Keras {keras.__version__} with preprocessing layers and fit",
            lambda: trained_rows_a_second(ours, our_input, arguments.steps),
            lambda: fitted_rows_a_second(peer, dataset, arguments.steps),
            rounds=arguments.rounds,
            unit="rows/s",
        )


if __name__ == "__main__":
    main()
