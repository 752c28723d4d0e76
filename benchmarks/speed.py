"""Compares input, training and serving with TensorFlow's input and the canned DNNClassifier.

    python benchmarks/speed.py [--rows 196608] [--rounds 3] [--only input,training,cached]

The model has 13 numbers and 26 embeddings of 100,000 by 16, a DNN of 256-128-64 units, Adagrad and
batches of 1024. Each side is a separate process. A round is a whole epoch, because the start of
an epoch costs more than its other batches. `cached` reads rows from the row cache, `run` is a whole
run of five epochs, from the start of the process to the last checkpoint, with a cache that is empty
at first. The part `observing` compares our training with the hooks that measure a run, and without
them. docs/reference/speed.md has results.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import estimator_kit.compat  # isort: skip
import numpy as np
import tensorflow as tf

from tensorflow.core.protobuf.saved_model_pb2 import SavedModel  # isort: skip
from click_logs import canned_input_fn, document, generate, spec
from side_by_side import WARM_UP, Measured, compare, in_turn, report, rows_a_second, started
from training_speed import BATCH, RATE, UNITS, measure_input, measure_training, run_config

import estimator_kit as ek
from estimator_kit.exporters.saved_model import export_saved_model
from estimator_kit.models import find_model
from estimator_kit.observing.histories import TrainingLog
from estimator_kit.training.hooks.progress import ProgressHook
from estimator_kit.training.hooks.summaries import SummariesHook, TrainingLogHook
from input_pipelines import input_fns
from input_pipelines.reading.shuffling import Span
from input_pipelines.reading.sources import Files
from input_pipelines.record_files import tfrecords
from input_pipelines.row_cache.cache import Cached, RowCache

ROOT = Path(__file__).parents[1]
EPOCHS = 5  # Of a whole run.
ANSWERS = 200  # In a round.

# For each part: what is compared, our side, and the other side.
PARTS = {
    "input": [
        ("input alone, compared with make_batched_features_dataset", "input", "canned input"),
    ],
    "training": [
        ("training from TFRecords, compared with the canned DNNClassifier", "training", "canned"),
    ],
    "cached": [
        ("training with cached rows, compared with the canned DNNClassifier", "cached", "canned"),
        ("training with cached rows, compared with ids in memory (the bound)", "cached", "memory"),
    ],
    "observing": [
        ("training with the hooks that measure a run, compared with training without them",
         "observed", "training"),
    ],
}  # fmt: skip


def estimators(folder: str, *, checkpoints: bool = False):
    """Ours and the canned one, the same model."""
    params = {"hidden_units": UNITS, "optimizer": "adagrad", "learning_rate": RATE}
    model = find_model("dnn")(spec(), params)
    config = run_config(checkpoints=checkpoints)
    ours = tf.estimator.Estimator(model, f"{folder}/ours", config, params={})
    canned = tf.compat.v1.estimator.DNNClassifier(
        UNITS,
        ek.feature_columns(spec(), "deep"),
        f"{folder}/canned",
        optimizer=lambda: tf.compat.v1.train.AdagradOptimizer(RATE),
        config=config,
    )
    return ours, canned


def sides(paths: list[str], steps: int, folder: str) -> dict[str, Callable[[], None]]:
    """What each side does, by its name."""
    ours, canned = estimators(folder)
    our_input = ek.train_input_fn(spec(), paths, batch_size=BATCH)
    peer_input = canned_input_fn(paths, BATCH, spec())

    def cached() -> None:
        with RowCache(f"{folder}/cache", limit=10 * 2**30) as cache:
            source = Cached.of(Files(spec(), paths), cache)
            batches = input_fns.training_batches(source, batch_size=BATCH, span=Span())
            measure_training(ours, batches, steps)

    def memory() -> None:
        stacked = tf.nest.map_structure(lambda *parts: np.stack(parts), *our_input().take(steps))
        measure_training(
            ours, lambda: tf.data.Dataset.from_tensor_slices(stacked).repeat().prefetch(4), steps
        )

    def canned_run() -> None:
        config = tf.estimator.RunConfig(log_step_count_steps=10**9)
        run = canned_input_fn(paths, BATCH, spec(), epochs=EPOCHS)
        tf.compat.v1.estimator.DNNClassifier(
            UNITS, ek.feature_columns(spec(), "deep"), f"{folder}/run", config=config,
            optimizer=lambda: tf.compat.v1.train.AdagradOptimizer(RATE),
        ).train(run)  # fmt: skip

    return {
        "input": lambda: measure_input(our_input, steps),
        "canned input": lambda: measure_input(peer_input, steps),
        "training": lambda: measure_training(ours, our_input, steps),
        "observed": lambda: measure_training(ours, our_input, steps, hooks=measuring(folder)),
        "canned": lambda: measure_training(canned, peer_input, steps),
        "cached": cached,
        "memory": memory,
        "canned run": canned_run,
    }


def answers(export: str) -> Callable[[list[bytes]], Measured]:
    """Returns a function that measures the median milliseconds of an answer to some records."""
    loaded = tf.saved_model.load(export)
    predict = loaded.signatures["serving_default"]
    name = next(iter(predict.structured_input_signature[1]))

    def measure(records: list[bytes]) -> Measured:
        request = {name: tf.constant(records)}
        for _ in range(WARM_UP):
            predict(**request)
        seconds = []
        cpu = time.process_time()
        for _ in range(ANSWERS):
            start = time.perf_counter()
            predict(**request)
            seconds.append(time.perf_counter() - start)
        cpu = time.process_time() - cpu
        assert loaded  # Its variables live as long as it.
        return Measured(statistics.median(seconds) * 1000, cpu / ANSWERS / len(records) * 1e6)

    return measure


def operations(export: str) -> int:
    """Nodes of the serving graph, functions included."""
    model = SavedModel.FromString(Path(export, "saved_model.pb").read_bytes())
    graph = model.meta_graphs[0].graph_def
    return len(graph.node) + sum(len(f.node_def) for f in graph.library.function)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=192 * BATCH, help="of an epoch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", default="data/benchmarks")
    parser.add_argument("--only", default=",".join([*PARTS, "run", "serving"]))
    parser.add_argument("--side", help="measures one side when the standard input asks for it")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    paths = generate(arguments.data, arguments.rows)
    with tempfile.TemporaryDirectory() as folder:
        if arguments.side:
            sides(paths, arguments.rows // BATCH, folder)[arguments.side]()
            return
        compared = [each for part in parts for each in PARTS.get(part, ())]
        of_side = [__file__, f"--rows={arguments.rows}", f"--data={arguments.data}", "--side"]
        names = dict.fromkeys(side for _, *both in compared for side in both)
        with started({name: [*of_side, name] for name in names}) as running:
            measured = in_turn(running, arguments.rounds)
        for title, our_side, peer in compared:
            report(title, measured[our_side], measured[peer], "rows/s")
        if "run" in parts:
            whole_runs(folder, paths, arguments, [*of_side, "canned run"])
        if "serving" in parts:
            serving(folder, paths, arguments.rounds)


def whole_runs(folder: str, paths: list[str], arguments, canned: list[str]) -> None:
    """Compares whole runs, each with an empty model directory and an empty cache."""
    Path(folder, "spec.json").write_text(json.dumps(document()), encoding="utf-8")
    params = {"hidden_units": list(UNITS), "optimizer": "adagrad", "learning_rate": RATE}

    def measured_run(command: list[str]) -> Measured:
        return rows_a_second(EPOCHS * arguments.rows, [sys.executable, *command])

    def ours() -> Measured:
        with tempfile.TemporaryDirectory() as run:
            return measured_run([
                str(ROOT / "run.py"), "train", f"--spec={folder}/spec.json", "--model=dnn",
                f"--train_files={','.join(paths)}", f"--epochs={EPOCHS}", f"--batch_size={BATCH}",
                *(f"--model_params={name}={value}" for name, value in params.items()),
                f"--model_dir={run}/model", "--report=off", f"--input_cache_dir={run}/cache",
            ])  # fmt: skip

    ways = {"ours": ours, "canned": lambda: measured_run(canned)}
    measured = in_turn(ways, arguments.rounds, not_counted=0)
    title = f"a whole run of {EPOCHS} epochs, compared with the canned DNNClassifier's"
    report(title, measured["ours"], measured["canned"], "rows/s")


def measuring(folder: str) -> list:
    """The hooks that measure a run, as in `training.run`."""
    progress = ProgressHook(10**6)
    log = TrainingLogHook(TrainingLog(f"{folder}/observed", 0), progress)
    return [progress, log, SummariesHook(f"{folder}/ours", progress)]


def serving(folder: str, paths: list[str], rounds: int) -> None:
    """Size of the exported graphs, and the time of an answer."""
    ours, canned = estimators(folder, checkpoints=True)
    ours.train(ek.train_input_fn(spec(), paths, batch_size=BATCH), steps=1)
    canned.train(canned_input_fn(paths, BATCH, spec()), steps=1)
    our_export = export_saved_model(ours, spec(), f"{folder}/our_export")
    parse = ek.make_parse_example_spec(spec())
    del parse["click"]
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(parse)
    peer_export = canned.export_saved_model(f"{folder}/peer_export", receiver).decode()
    report(
        "operations of the exported graph, compared with the canned one",
        [operations(our_export)], [operations(peer_export)], "operations", less_is_better=True,
    )  # fmt: skip
    records = [r for block in tfrecords.blocks(paths[:1]).take(1) for r in block.numpy()]
    of_ours, of_peer = answers(our_export), answers(peer_export)
    for size in (1, 16, 128):
        compare(
            f"answer to a batch of {size}, compared with the canned export",
            lambda size=size: of_ours(records[:size]), lambda size=size: of_peer(records[:size]),
            rounds=rounds, unit="ms", less_is_better=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
