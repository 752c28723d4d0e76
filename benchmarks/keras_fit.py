"""Compares training with Keras: the same model from preprocessing layers, trained with `fit`.

    python benchmarks/keras_fit.py [--rows 98304] [--rounds 3] [--only model,dataset]

The model has 13 numbers after log1p, 24 hashed categories as embeddings of 100,000 by 16, two
one-hot categories with a vocabulary of 100 words, a DNN of 256-128-64, Adagrad and batches of 1024.
Whole batches are parsed. The preprocessing layers (`Hashing`, `StringLookup`, `CategoryEncoding`)
are where Keras' guides allow them: in the `model`, which then takes strings, or in the `dataset`,
in parallel and prefetched. The Keras version is the one of the TensorFlow: Keras 2 on 2.15, Keras 3
from 2.16 on.
"""

from __future__ import annotations

import argparse
import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import estimator_kit.compat  # isort: skip
import click_logs
import keras
import tensorflow as tf
from side_by_side import Turns, compare, started
from training_speed import BATCH, RATE, UNITS, measure_training, run_config

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


class Preprocessing:
    """From parsed features to numbers and ids, by Keras' layers."""

    def __init__(self) -> None:
        self._hashing = keras.layers.Hashing(click_logs.BUCKETS)
        self._lookups = {n: keras.layers.StringLookup(vocabulary=w) for n, w in ONE_HOT.items()}
        self._one_hot = keras.layers.CategoryEncoding(num_tokens=101, output_mode="one_hot")

    def __call__(self, features):
        inputs = {"numbers": features["numbers"]}
        for name in HASHED:
            inputs[name] = self._hashing(features[name])
        for name, lookup in self._lookups.items():
            inputs[name] = self._one_hot(lookup(features[name]))
        return inputs


def keras_dataset(paths: list[str], preprocess) -> tf.data.Dataset:
    """Shuffled rows, parsed a batch at a time, and preprocessed in parallel."""
    parse_spec = ek.make_parse_example_spec(spec())

    def parse(serialized):
        parsed = tf.io.parse_example(serialized, parse_spec)
        label = parsed.pop("click")
        numbers = tf.stack([parsed.pop(name) for name in click_logs.NUMBERS], 1)
        return preprocess({"numbers": tf.math.log1p(numbers), **parsed}), label

    files = tf.data.Dataset.from_tensor_slices(paths).repeat()
    rows = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
    batches = rows.shuffle(10_000).batch(BATCH, drop_remainder=True)
    return batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def keras_model(*, takes_strings: bool):
    """The same model as a Keras functional one, of strings or of what `Preprocessing` makes."""
    inputs = {"numbers": keras.Input([len(click_logs.NUMBERS)], name="numbers")}
    for name in HASHED:
        dtype = "string" if takes_strings else "int64"
        inputs[name] = keras.Input([], dtype=dtype, name=name)
    for name in ONE_HOT:
        shape, dtype = ([], "string") if takes_strings else ([101], "float32")
        inputs[name] = keras.Input(shape, dtype=dtype, name=name)
    ready = Preprocessing()(inputs) if takes_strings else inputs
    parts = [ready["numbers"]]
    for name in HASHED:
        parts.append(keras.layers.Embedding(click_logs.BUCKETS, click_logs.DIMENSION)(ready[name]))
    parts += [ready[name] for name in ONE_HOT]
    hidden = keras.layers.Concatenate()(parts)
    for units in UNITS:
        hidden = keras.layers.Dense(units, activation="relu")(hidden)
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.compile(keras.optimizers.Adagrad(RATE), keras.losses.BinaryCrossentropy(from_logits=True))
    return model


class Rounds(keras.callbacks.Callback):
    """Measures rounds of steps, see `Turns`."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns

    def on_train_batch_end(self, batch, logs=None):
        self._turns.step()
        if self._turns.over:
            self.model.stop_training = True


def measure(side: str, paths: list[str], steps: int) -> None:
    """Measures one side when the standard input asks for it: ours, or where preprocessing is."""
    if side == "ours":
        params = {"hidden_units": UNITS, "optimizer": "adagrad", "learning_rate": RATE}
        with tempfile.TemporaryDirectory() as folder:
            model = find_model("dnn")(spec(), params)
            ours = tf.estimator.Estimator(model, folder, run_config(), params={})
            measure_training(ours, ek.train_input_fn(spec(), paths, batch_size=BATCH), steps)
        return
    within = side == "model"
    peer = keras_model(takes_strings=within)
    dataset = keras_dataset(paths, dict if within else Preprocessing())
    rounds = Rounds(Turns(steps, BATCH))
    peer.fit(dataset, steps_per_epoch=10**6, epochs=1, verbose=0, callbacks=[rounds])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=96 * BATCH, help="of an epoch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", default="data/benchmarks")
    parser.add_argument("--only", default="model,dataset", help="where Keras' preprocessing is")
    parser.add_argument("--side", help="measures one side")
    arguments = parser.parse_args()
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    paths = click_logs.generate(arguments.data, arguments.rows)
    if arguments.side:
        return measure(arguments.side, paths, arguments.rows // BATCH)
    same = [__file__, f"--rows={arguments.rows}", f"--data={arguments.data}"]
    for place in arguments.only.split(","):
        with started({side: [*same, f"--side={side}"] for side in ("ours", place)}) as sides:
            compare(
                f"training, compared with fit of Keras {keras.__version__}, preprocessing in its "
                f"{place}",
                sides["ours"], sides[place], rounds=arguments.rounds, unit="rows/s",
            )  # fmt: skip


if __name__ == "__main__":
    main()
