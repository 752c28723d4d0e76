"""Compares a training step of lazy Adam with a step of TensorFlow's Adam, on three table sizes.

    python benchmarks/optimizers.py [--rows 100000,1000000,10000000] [--ids log_uniform]
                                    [--steps 20] [--rounds 3]

A batch looks up 8 ids for each of 1024 records in one table with 16 numbers in each row. The ids
are log-uniform: words, users and items follow this law of Zipf, and TensorFlow's candidate sampler
uses it. `--ids uniform` is the worst case: a batch repeats no id, and every row of a large table
comes from memory instead of a cache. The program prints one JSON line for each size, in
milliseconds a step, and one for how much longer lazy Adam's step is with the largest table than
with the smallest. The table of 10 million rows takes 2 GB with its slots, for each of the two
optimizers.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import estimator_kit.compat  # noqa: F401  # for tf.estimator; isort: skip
import numpy as np
import tensorflow as tf
from side_by_side import compare

from estimator_kit.optimizers.choice import make_optimizer, minimize

DIMENSION = 16
RECORDS, IDS = 1024, 8


def log_uniform(rows: int) -> tf.Tensor:
    """Ids [RECORDS, IDS] with P(id) = log((id + 2) / (id + 1)) / log(rows + 1)."""
    exponent = tf.random.uniform([RECORDS, IDS], dtype=tf.float64) * math.log(rows + 1)
    return tf.minimum(tf.cast(tf.exp(exponent) - 1, tf.int64), rows - 1)


def uniform(rows: int) -> tf.Tensor:
    return tf.random.uniform([RECORDS, IDS], maxval=rows, dtype=tf.int64)


def ms_a_step(optimizer: str, rows: int, steps: int, draw=log_uniform):
    """Returns a function that measures some steps; its session stays open."""
    graph = tf.Graph()
    with graph.as_default():
        ids = draw(rows)
        table = tf.compat.v1.get_variable(
            "table", [rows, DIMENSION], initializer=tf.compat.v1.zeros_initializer()
        )
        found = tf.reduce_sum(tf.nn.embedding_lookup(table, ids), axis=1)
        loss = tf.reduce_mean(tf.square(found - 1))
        train_op = minimize(loss, [("", make_optimizer(optimizer, 0.01))])
        session = tf.compat.v1.Session()
        session.run(tf.compat.v1.global_variables_initializer())

    def measure() -> float:
        started = time.perf_counter()
        for _ in range(steps):
            session.run(train_op)
        return (time.perf_counter() - started) / steps * 1000

    return measure, session


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="100000,1000000,10000000")
    parser.add_argument("--ids", choices=["log_uniform", "uniform"], default="log_uniform")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.rows.split(",")]
    draw = {"log_uniform": log_uniform, "uniform": uniform}[arguments.ids]
    lazy_alone = []
    for rows in sizes:
        lazy, lazy_session = ms_a_step("lazy_adam", rows, arguments.steps, draw)
        dense, dense_session = ms_a_step("adam", rows, max(1, arguments.steps // 4), draw)
        name = f"lazy_adam compared with adam, {rows} rows of {DIMENSION}, {arguments.ids} ids"
        compare(name, lazy, dense, rounds=arguments.rounds, unit="ms/step", less_is_better=True)
        lazy_alone.append(float(np.median([lazy() for _ in range(arguments.rounds)])))
        lazy_session.close()
        dense_session.close()
    if len(sizes) > 1:
        growth = lazy_alone[-1] / lazy_alone[0]
        name = f"lazy_adam at {sizes[-1]} rows over {sizes[0]}, {arguments.ids} ids"
        print(json.dumps({"name": name, "unit": "times", "ours": round(growth, 2)}))


if __name__ == "__main__":
    main()
