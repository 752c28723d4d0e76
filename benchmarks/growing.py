"""Growing and fixed tables by size: keys a second in training, memory, checkpoints, exports.

    python benchmarks/growing.py [--rows 100000,1000000,10000000] [--seconds 6] > lines.jsonl
    python benchmarks/growing.py --rows 100000000 --width 8 >> lines.jsonl
    python benchmarks/growing.py --plot lines.jsonl docs/images/growing.svg
    python benchmarks/growing.py --lookup --rows 1000000,10000000

The model is a DNN of 64 units over the mean of 20 vectors of 16 numbers (`--width`), with Adagrad
and batches of 1,024 rows, so 20,480 keys. All rows of the growing table are in use; 2 % of the keys
of each batch are new, and values are admitted every 100 steps. Batches are in memory. The tables
are trained in turn, in their own processes. The line `table` is the fixed one; `ratio` divides by
it. The line `gather` only reads the rows of the same keys, with one op: what memory allows.
`--lookup` compares three forms of the map from key to row: the hash table of a training, the one of
an export, which cannot change, and a sorted array that is searched.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pathlib
import resource
import statistics
import tempfile
import time

ROWS, LIST = 1024, 20


def spec_of(kind: str, rows: int, width: int) -> dict:
    grown = {"growing": "item", "rows": rows, "buckets": max(1000, rows // 100), "evict_every": 500}
    fixed = {"identity": "item", "size": rows + max(1000, rows // 100)}
    return {
        "features": {"item": {"dtype": "int64", "shape": "variable"}},
        "columns": {
            "ids": grown if kind == "growing" else fixed,
            "emb": {"embedding": "ids", "dimension": width},
        },
        "groups": {"deep": ["emb"]},
        "labels": {"y": {"dtype": "int64"}},
        "objectives": {"y": {"head": "binary"}},
    }


def measure(kind: str, rows: int, width: int, seconds: float, rounds: int, answers) -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import estimator_kit as ek  # isort: skip
    import numpy as np
    import tensorflow as tf

    from estimator_kit.embeddings import growing_ids
    from estimator_kit.models import find_model
    from estimator_kit.tf_estimator import ModeKeys

    v1, random = tf.compat.v1, np.random.default_rng(1)
    spec = ek.parse_spec(spec_of(kind, rows, width))
    model = find_model("dnn")(spec, {"hidden_units": [64], "optimizer": "adagrad"})
    size = spec.size_of("ids")

    def batch(number: int):
        known = np.minimum(random.zipf(1.2, ROWS * LIST) - 1, rows - 1)
        spread = random.integers(0, rows, ROWS * LIST)
        keys = np.where(random.random(ROWS * LIST) < 0.5, known, spread)
        if kind == "growing":
            is_new = random.random(ROWS * LIST) < 0.02
            new = rows + number * 200 + random.integers(0, 200, ROWS * LIST)
            keys = np.where(is_new, new, keys)
        return keys % size if kind != "growing" else keys

    with tf.Graph().as_default():
        flat = v1.placeholder(tf.int64, [ROWS * LIST])
        features = {"ids": tf.RaggedTensor.from_uniform_row_length(flat, LIST)}
        labels = {"y": tf.zeros([ROWS], tf.int64)}
        v1.train.get_or_create_global_step()
        if kind == "gather":
            table = v1.get_variable("table", [size, width])
            step = tf.gather(table, flat).op
        else:
            step = model(features, labels, ModeKeys.TRAIN).train_op
        saver = v1.train.Saver()
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            if kind == "growing":
                (ids,) = growing_ids._IDS[v1.get_default_graph()].values()
                session.run(ids.keys.assign(tf.range(rows, dtype=tf.int64)))
            start = time.perf_counter()
            session.run(v1.tables_initializer())
            built = time.perf_counter() - start
            batches = [batch(i) for i in range(300)]
            rates, number = [], 0
            for _ in range(rounds + 1):
                begun, start = number, time.perf_counter()
                while time.perf_counter() - start < seconds:
                    session.run(step, {flat: batches[number % 300]})
                    number += 1
                rates.append((number - begun) * ROWS * LIST / (time.perf_counter() - start))
            with tempfile.TemporaryDirectory() as folder:
                start = time.perf_counter()
                saver.save(session, f"{folder}/m")
                saved = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    answers.put((statistics.median(rates[1:]), memory, saved, built))


def measure_lookup(form: str, rows: int, answers) -> None:
    """Seconds to make a map from key to row, its memory, and lookups a second."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import numpy as np
    import tensorflow as tf

    v1, random = tf.compat.v1, np.random.default_rng(1)
    keys = random.permutation(np.unique(random.integers(0, 2**62, rows + rows // 50))[:rows])
    with tf.Graph().as_default(), v1.Session() as session:
        asked = v1.placeholder(tf.int64, [None])
        fed = v1.placeholder(tf.int64, [rows])
        stored = v1.get_variable("keys", [rows], tf.int64, v1.zeros_initializer())
        session.run(stored.initializer)
        stored.load(np.sort(keys) if form == "sorted" else keys, session)
        places = tf.range(rows, dtype=tf.int64)
        if form == "mutable":
            table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
            made, row = table.insert(stored, places), table.lookup(asked)
        elif form == "static":
            values = tf.lookup.KeyValueTensorInitializer(fed, places)
            table = tf.lookup.StaticHashTable(values, -1)
            made, row = v1.tables_initializer(), table.lookup(asked)
        else:
            made, place = tf.no_op(), tf.searchsorted(stored, asked)
            row = tf.where(tf.equal(tf.gather(stored, place % rows), asked), place, -1)
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        session.run(made, {fed: keys} if form == "static" else None)
        built = time.perf_counter() - start
        memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
        batches = [keys[random.integers(0, rows, ROWS * LIST)] for _ in range(50)]
        rates = []
        for _ in range(4):
            start = time.perf_counter()
            for batch in batches:
                session.run(row.op, {asked: batch})
            rates.append(50 * ROWS * LIST / (time.perf_counter() - start))
    answers.put((built, memory, statistics.median(rates[1:])))


def plot(lines: str, target: str) -> None:
    """Draws keys a second, memory and the time of a checkpoint by the number of rows."""
    import matplotlib  # isort: skip

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    found = [json.loads(line) for line in pathlib.Path(lines).read_text().splitlines()]
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    names = {"table": "fixed table", "growing": "growing", "gather": "rows read by one op"}
    parts = {"keys_a_second": "million keys a second", "peak_GiB": "peak memory, GiB"}
    parts["checkpoint_s"] = "seconds for a checkpoint"
    for panel, (part, title) in zip(panels, parts.items()):
        for color, (kind, name) in enumerate(names.items()):
            if kind == "gather" and part != "keys_a_second":
                continue
            points = [(line["rows"], line[part]) for line in found if line["kind"] == kind]
            scale = 1e6 if part == "keys_a_second" else 1
            panel.plot(
                [rows for rows, _ in points], [value / scale for _, value in points],
                marker="o", label=name, color=f"C{color}",
            )  # fmt: skip
        panel.set(xscale="log", yscale="log", xlabel="rows of the table", title=title)
        panel.grid(alpha=0.3)
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter("")
    panels[0].legend(frameon=False)
    plt.rcParams["svg.hashsalt"] = "growing"
    figure.savefig(target, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="100000,1000000,10000000")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--lookup", action="store_true", help="measure the map from key to row")
    parser.add_argument("--plot", nargs=2, metavar=("LINES", "SVG"))
    options = parser.parse_args()
    if options.plot:
        plot(*options.plot)
        return
    spawn = multiprocessing.get_context("spawn")
    if options.lookup:
        for rows in map(int, options.rows.split(",")):
            for form in ("mutable", "static", "sorted"):
                answers = spawn.Queue()
                process = spawn.Process(target=measure_lookup, args=(form, rows, answers))
                process.start()
                built, memory, rate = answers.get(timeout=1800)
                process.join()
                line = {"rows": rows, "map": form, "made_s": round(built, 2)}
                line |= {"GiB": round(memory, 2), "lookups_a_second": round(rate)}
                print(json.dumps(line), flush=True)
        return
    for rows in map(int, options.rows.split(",")):
        found = {}
        for kind in ("table", "growing", "gather"):
            answers = spawn.Queue()
            arguments = (kind, rows, options.width, options.seconds, options.rounds, answers)
            process = spawn.Process(target=measure, args=arguments)
            process.start()
            found[kind] = answers.get(timeout=1800)
            process.join()
        for kind, (rate, memory, saved, built) in found.items():
            line = {
                "rows": rows,
                "width": options.width,
                "kind": kind,
                "keys_a_second": round(rate),
            }
            line |= {"ratio": round(rate / found["table"][0], 2), "peak_GiB": round(memory, 2)}
            line |= {"checkpoint_s": round(saved, 2), "tables_made_s": round(built, 2)}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
