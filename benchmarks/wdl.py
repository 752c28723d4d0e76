"""Trains WDL as DeepRec published it, with the kit and with other tools, on the same rows.

    python benchmarks/wdl.py [--rows 49152] [--rounds 3]
        [--only canned,bfloat16,keras,keras_rs,deepctr]
    python benchmarks/wdl.py --auc 0.75 [--auc_rows 524288] [--only canned,deepctr]

The model has 13 numbers and 26 hashed categories with 10,000 buckets each, embeddings of 128 (eight
categories) or 64, a DNN of 1024-512-256 and a linear part over the same columns, with batches of
512; see wdl_data.py. Ours, the canned DNNLinearCombinedClassifier and DeepCTR's WDLEstimator (`pip
install deepctr==0.9.4`, on TensorFlow 2.15) have FTRL with 0.2 for the linear part and Adagrad with
0.01 for the DNN. Keras has one optimizer, Adagrad; keras_rs (`pip install keras-rs`) is the same
with its DistributedEmbedding. Both hash in the dataset. `bfloat16` is ours with --mixed_precision,
for CPUs with AMX.

One more line for each side has the rows a second, the rows for each second of one core's work, and
the GFLOP of the matrix products in it. `--auc` trains on one shard after
another and says after how many rows the AUC of other rows reaches a value, and the CPU seconds that
these rows take at the measured speed. benchmarks/README.md has results.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import estimator_kit.compat  # isort: skip
import click_logs
import numpy as np
import tensorflow as tf
import wdl_data
from side_by_side import in_turn, report, started
from training_speed import measure_training, run_config
from wdl_data import BATCH, LINEAR_RATE, RATE, UNITS

import estimator_kit as ek
from estimator_kit.model.computing import Computing
from estimator_kit.models import find_model

OURS = ("ours", "bfloat16")
SHARDS = 8  # The AUC is measured after each.
HELD_OUT = 32_768
TITLES = {
    "bfloat16": "ours with --mixed_precision=bfloat16",
    "canned": "the canned DNNLinearCombinedClassifier",
    "deepctr": "DeepCTR's WDLEstimator",
    "keras": "Keras",
    "keras_rs": "Keras with keras-rs",
}
WIDTH = len(wdl_data.NUMBERS) + sum(wdl_data.DIMENSIONS.values())
# Multiplications and additions of the matrix products for a row, forward and twice back.
GFLOP = 6 * sum(a * b for a, b in zip((WIDTH, *UNITS), (*UNITS, 1))) / 1e9


def estimator(side: str, folder: str, *, checkpoints: bool = False):
    """The model of a side that is an Estimator."""
    spec, config = wdl_data.spec(), run_config(checkpoints=checkpoints)
    if side in OURS:
        params = {"hidden_units": UNITS, "learning_rate": RATE, "linear_learning_rate": LINEAR_RATE}
        model = find_model("wide_deep")(spec, params)
        model.computing = Computing(precision=None if side == "ours" else side)
        return tf.estimator.Estimator(model, folder, config, {})
    wide, deep = (ek.feature_columns(spec, group) for group in ("wide", "deep"))
    train = tf.compat.v1.train
    both = {
        "linear_optimizer": lambda: train.FtrlOptimizer(LINEAR_RATE),
        "dnn_optimizer": lambda: train.AdagradOptimizer(RATE),
    }
    if side == "canned":
        return tf.compat.v1.estimator.DNNLinearCombinedClassifier(
            model_dir=folder, linear_feature_columns=wide, dnn_feature_columns=deep,
            dnn_hidden_units=UNITS, config=config, **both,
            # The mean, as all other sides have; its default, the sum, learns at other rates.
            loss_reduction=tf.compat.v1.losses.Reduction.SUM_OVER_BATCH_SIZE,
        )  # fmt: skip
    from deepctr.estimator.models.wdl import WDLEstimator

    # Without the regularization that it has by default.
    return WDLEstimator(
        wide, deep, UNITS, l2_reg_linear=0, l2_reg_embedding=0, model_dir=folder, config=config,
        **{name: make() for name, make in both.items()},
    )  # fmt: skip


def train_input(side: str, paths: list[str], *, epochs=None):
    """The rows of a side, shuffled."""
    if side in OURS:
        return ek.train_input_fn(wdl_data.spec(), paths, batch_size=BATCH, epochs=epochs)
    return click_logs.canned_input_fn(paths, BATCH, wdl_data.spec(), epochs=epochs)


def measure(side: str, paths: list[str], steps: int) -> None:
    """Measures a side when the standard input asks for it."""
    if side.startswith("keras"):
        import wdl_keras

        return wdl_keras.measure(train_input("canned", paths)(), steps, rs=side == "keras_rs")
    with tempfile.TemporaryDirectory() as folder:
        measure_training(estimator(side, folder), train_input(side, paths), steps, batch=BATCH)


def speeds(names: list[str], arguments: argparse.Namespace) -> dict[str, float]:
    """Compares ours with each peer, and returns the CPU microseconds of a row of each."""
    same = [__file__, f"--rows={arguments.rows}", f"--data={arguments.data}"]
    with started({name: [*same, f"--side={name}"] for name in names}) as sides:
        measured = in_turn(sides, arguments.rounds)
    for name in names[1:]:
        report(f"WDL, compared with {TITLES[name]}", measured["ours"], measured[name], "rows/s")
    found = {}
    for name, rounds in measured.items():
        found[name] = statistics.median(each.cpu_us for each in rounds)
        a_core = 1e6 / found[name]
        line = {"side": name, "rows_a_second": statistics.median(each.value for each in rounds),
                "rows_a_core_second": a_core, "gflop_a_core_second": a_core * GFLOP}  # fmt: skip
        print(json.dumps({k: v if k == "side" else round(v) for k, v in line.items()}), flush=True)
    return found


def learning(side: str, paths: list[str], held_out: list[str]) -> Iterator[float]:
    """The AUC of the held-out rows after each shard."""
    label = tf.io.FixedLenFeature([], tf.int64)
    labels = np.array([tf.io.parse_single_example(row, {"click": label})["click"].numpy()
                       for row in tf.data.TFRecordDataset(held_out)])  # fmt: skip
    for scores in _scores(side, paths, held_out):
        yield wdl_data.auc(scores, labels)


def _scores(side: str, paths: list[str], held_out: list[str]) -> Iterator[np.ndarray]:
    """The logits of the held-out rows after each shard."""
    if side.startswith("keras"):
        import wdl_keras

        shards = (train_input("canned", [path], epochs=1)() for path in paths)
        rows = click_logs.canned_input_fn(held_out, BATCH, wdl_data.spec(), epochs=1, shuffle=False)
        yield from wdl_keras.learning(shards, rows(), rs=side == "keras_rs")
        return
    parse = ek.make_parse_example_spec(wdl_data.spec())
    rows = ek.eval_input_fn(wdl_data.spec(), held_out, batch_size=4096)
    if side not in OURS:
        rows = lambda: (  # noqa: E731
            tf.data.TFRecordDataset(held_out)
            .batch(4096)
            .map(lambda records: tf.io.parse_example(records, parse))
        )
    with tempfile.TemporaryDirectory() as folder:
        model = estimator(side, folder, checkpoints=True)
        for path in paths:
            model.train(train_input(side, [path], epochs=1))
            answers = model.predict(rows, yield_single_examples=False)
            scores = [next(v for k, v in a.items() if k.endswith("logits")) for a in answers]
            yield np.concatenate(scores).ravel()


def time_to_auc(names: list[str], goal: float, arguments: argparse.Namespace) -> None:
    """Prints after how many rows, and how many CPU seconds, each side reaches an AUC."""
    paths = wdl_data.generate(arguments.data, arguments.auc_rows, SHARDS)
    held_out = f"{arguments.data}/wdl-held-out.tfrecord"
    columns = wdl_data.columns(HELD_OUT, seed=1000)
    click_logs.write(held_out, columns)
    best = wdl_data.auc(columns["truth"], columns["click"])
    cpu_us = speeds(names, arguments)
    for name in names:
        rows, aucs = [0], [0.5]
        for done, found in enumerate(learning(name, paths, [held_out]), 1):
            rows.append(done * arguments.auc_rows // SHARDS)
            aucs.append(round(found, 4))
            if found >= goal:
                break
        # Between two measurements, on a line. Without the goal: all rows.
        needed = round(float(np.interp(goal, aucs[-2:], rows[-2:])))
        print(json.dumps({
            "side": name, "goal": goal, "reached": aucs[-1] >= goal, "rows": needed,
            "cpu_seconds": round(needed * cpu_us[name] / 1e6, 1),
            "best_possible": round(best, 4), "auc_after": dict(zip(rows[1:], aucs[1:])),
        }), flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=96 * BATCH, help="of an epoch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", default="data/benchmarks")
    parser.add_argument(
        "--only", default="canned", help="of canned, bfloat16, keras, keras_rs, deepctr"
    )
    parser.add_argument("--auc", type=float, help="measures the time to this AUC")
    parser.add_argument("--auc_rows", type=int, default=1024 * BATCH, help="the most for it")
    parser.add_argument("--side", help="measures one side when the standard input asks for it")
    arguments = parser.parse_args()
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    paths = wdl_data.generate(arguments.data, arguments.rows, SHARDS)
    names = ["ours", *arguments.only.split(",")]
    if arguments.side:
        measure(arguments.side, paths, arguments.rows // BATCH)
    elif arguments.auc:
        time_to_auc(names, arguments.auc, arguments)
    else:
        speeds(names, arguments)


if __name__ == "__main__":
    main()
