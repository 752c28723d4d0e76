"""Compares training steps with --xla=on and --mixed_precision with steps in plain float32.

    python benchmarks/dense_part.py [--units 256,128,64 --units 1024,512,256] [--batch 1024]
                                    [--steps 100] [--rounds 3]

The model is the DNN of `speed.py` (13 numbers, 26 embeddings of 100,000 by 16, Adagrad), with the
units of the argument. The input is one batch that stays in memory, so only the model is measured.
The program prints one JSON line for each kind of computing, in rows a second. XLA compiles in the
steps before the clock starts.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import estimator_kit.compat  # noqa: F401  # for tf.estimator; isort: skip
import tensorflow as tf
from click_logs import generate, spec
from side_by_side import compare

from estimator_kit.model.computing import Computing
from estimator_kit.models import find_model
from input_pipelines.record_files import tfrecords
from input_pipelines.transform.transforms import Transform

KINDS = {
    "xla": Computing(xla=True),
    "bfloat16": Computing(precision="bfloat16"),
    "bfloat16 and xla": Computing(precision="bfloat16", xla=True),
    "float16": Computing(precision="float16"),
}
WARM_UP = 20


def rows_a_second(batch, units: list[int], computing: Computing, steps: int):
    """Returns a function that measures some steps; its session stays open."""
    model = find_model("dnn")(spec(), {"hidden_units": units})
    model.computing = computing
    graph = tf.Graph()
    with graph.as_default():
        tf.compat.v1.set_random_seed(1)
        tf.compat.v1.train.get_or_create_global_step()
        batches = tf.data.Dataset.from_tensors(batch).repeat()
        iterator = tf.compat.v1.data.make_initializable_iterator(batches)
        train_op = model(*iterator.get_next(), tf.estimator.ModeKeys.TRAIN).train_op
        session = tf.compat.v1.Session()
        session.run([tf.compat.v1.global_variables_initializer(), iterator.initializer])
    step = session.make_callable(train_op)
    for _ in range(WARM_UP):
        step()
    rows = len(next(iter(batch[1].values())))

    def measure() -> float:
        start = time.perf_counter()
        for _ in range(steps):
            step()
        return steps * rows / (time.perf_counter() - start)

    return measure


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", action="append")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=100, help="that are timed, a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", default="data/benchmarks")
    parser.add_argument("--only", default=",".join(KINDS))
    arguments = parser.parse_args()
    paths = generate(arguments.data, 8 * arguments.batch)
    records = next(iter(tfrecords.blocks(paths).unbatch().batch(arguments.batch)))
    batch = tf.nest.map_structure(
        lambda tensor: tensor.numpy(), Transform(spec()).features_and_labels(records)
    )
    for text in arguments.units or ["256,128,64", "1024,512,256"]:
        units = [int(number) for number in text.split(",")]
        plain = rows_a_second(batch, units, Computing(), arguments.steps)
        for kind in arguments.only.split(","):
            ours = rows_a_second(batch, units, KINDS[kind], arguments.steps)
            compare(f"{kind}, units {text}", ours, plain, rounds=arguments.rounds, unit="rows/s")


if __name__ == "__main__":
    main()
