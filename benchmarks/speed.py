"""Compares input, training and serving with TensorFlow's input and the canned DNNClassifier.

    python benchmarks/speed.py [--rows 200000] [--rounds 3] [--only input,training,serving]

The model has 13 numbers and 26 embeddings of 100,000 by 16, a DNN of 256-128-64 units, Adagrad and
batches of 1024. The part `observing` compares our training with the hooks that measure a run, and
without them. benchmarks/README.md has results.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import estimator_kit.compat  # isort: skip
import numpy as np
import tensorflow as tf

from tensorflow.core.protobuf.saved_model_pb2 import SavedModel  # isort: skip
from click_logs import canned_input_fn, generate, spec
from side_by_side import compare, report
from training_speed import (
    BATCH,
    RATE,
    UNITS,
    WARM_UP,
    read_rows_a_second,
    run_config,
    trained_rows_a_second,
)

import estimator_kit as ek
from estimator_kit.exporters.saved_model import export_saved_model
from estimator_kit.models import find_model
from estimator_kit.observing.histories import TrainingLog
from estimator_kit.training.hooks.progress import ProgressHook
from estimator_kit.training.hooks.summaries import SummariesHook, TrainingLogHook
from input_pipelines.record_files import tfrecords


def estimators(folder: str):
    """Ours and the canned one, the same model."""
    params = {"hidden_units": UNITS, "optimizer": "adagrad", "learning_rate": RATE}
    model = find_model("dnn")(spec(), params)
    ours = tf.estimator.Estimator(model, f"{folder}/ours", run_config(), params={})
    canned = tf.compat.v1.estimator.DNNClassifier(
        UNITS,
        ek.feature_columns(spec(), "deep"),
        f"{folder}/canned",
        optimizer=lambda: tf.compat.v1.train.AdagradOptimizer(RATE),
        config=run_config(),
    )
    return ours, canned


def latency_ms(export: str, examples, repeats: int) -> float:
    """Median of the answers to one request after another."""
    predict = tf.saved_model.load(export).signatures["serving_default"]
    name = next(iter(predict.structured_input_signature[1]))
    request = {name: tf.constant(examples)}
    seconds = []
    for _ in range(repeats + WARM_UP):
        start = time.perf_counter()
        predict(**request)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[WARM_UP:]) * 1000


def operations(export: str) -> int:
    """Nodes of the serving graph, functions included."""
    model = SavedModel.FromString(Path(export, "saved_model.pb").read_bytes())
    graph = model.meta_graphs[0].graph_def
    return len(graph.node) + sum(len(f.node_def) for f in graph.library.function)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150, help="that are timed, a round")
    parser.add_argument("--data", default="data/benchmarks")
    parser.add_argument("--only", default="input,training,observing,cached,serving")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    paths = generate(arguments.data, arguments.rows)
    ours_input = ek.train_input_fn(spec(), paths, batch_size=BATCH)
    peer_input = canned_input_fn(paths, BATCH, spec())

    if "input" in parts:
        compare(
            "input alone, against make_batched_features_dataset",
            lambda: read_rows_a_second(ours_input, arguments.steps),
            lambda: read_rows_a_second(peer_input, arguments.steps),
            rounds=arguments.rounds,
            unit="rows/s",
        )
    with tempfile.TemporaryDirectory() as folder:
        ours, canned = estimators(folder)
        if "training" in parts:
            compare(
                "training from TFRecords, against the canned DNNClassifier",
                lambda: trained_rows_a_second(ours, ours_input, arguments.steps),
                lambda: trained_rows_a_second(canned, peer_input, arguments.steps),
                rounds=arguments.rounds,
                unit="rows/s",
            )
        if "observing" in parts:
            compare(
                "training with the hooks that measure a run, against training without them",
                lambda: trained_rows_a_second(
                    ours, ours_input, arguments.steps, hooks=measuring(folder)
                ),
                lambda: trained_rows_a_second(ours, ours_input, arguments.steps),
                rounds=arguments.rounds,
                unit="rows/s",
            )
        if "cached" in parts:
            cached(ours, canned, ours_input, peer_input, arguments)
        if "serving" in parts:
            serving(folder, ours, canned, ours_input, peer_input, paths, arguments.rounds)


def measuring(folder: str) -> list:
    """The hooks that measure a run, as in `training.run`."""
    progress = ProgressHook(10**6)
    log = TrainingLogHook(TrainingLog(f"{folder}/observed", 0), progress)
    return [progress, log, SummariesHook(f"{folder}/ours", progress)]


def cached(ours, canned, ours_input, peer_input, arguments) -> None:
    """Compares training on a cache of transformed batches with canned training and an upper bound.

    The upper bound is only the model, fed with the same batches from memory.
    """
    batches = 64
    made = list(ours_input().take(batches))
    stacked = tf.nest.map_structure(lambda *parts: np.stack(parts), *made)

    def from_cache():
        return ours_input().take(batches).cache().repeat().prefetch(4)

    def from_memory():
        return tf.data.Dataset.from_tensor_slices(stacked).repeat().prefetch(4)

    def speed_of(input_fn):
        # The cache is filled before the clock starts.
        return trained_rows_a_second(ours, input_fn, arguments.steps, warm_up=batches + WARM_UP)

    compare(
        "training with the transformed input cached, against the canned DNNClassifier",
        lambda: speed_of(from_cache),
        lambda: trained_rows_a_second(canned, peer_input, arguments.steps),
        rounds=arguments.rounds,
        unit="rows/s",
    )
    compare(
        "training with the transformed input cached, against ids in memory (the bound)",
        lambda: speed_of(from_cache),
        lambda: speed_of(from_memory),
        rounds=arguments.rounds,
        unit="rows/s",
    )


def serving(folder, ours, canned, ours_input, peer_input, paths, rounds) -> None:
    """Size of the exported graphs, and the time of an answer."""
    ours.train(ours_input, steps=1)
    canned.train(peer_input, steps=1)
    our_export = export_saved_model(ours, spec(), f"{folder}/our_export")
    parse = ek.make_parse_example_spec(spec())
    del parse["click"]
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(parse)
    peer_export = canned.export_saved_model(f"{folder}/peer_export", receiver).decode()
    report(
        "operations of the exported graph, against the canned one",
        operations(our_export), operations(peer_export), "operations", less_is_better=True,
    )  # fmt: skip
    records = [r for block in tfrecords.blocks(paths[:1]).take(1) for r in block.numpy()]
    for size in (1, 16, 128):
        compare(
            f"answer to {size} Examples, against the canned export",
            lambda size=size: latency_ms(our_export, records[:size], 200),
            lambda size=size: latency_ms(peer_export, records[:size], 200),
            rounds=rounds,
            unit="ms",
            less_is_better=True,
        )


if __name__ == "__main__":
    main()
