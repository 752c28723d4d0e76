"""Measures what a new version with large tables costs the kit's server, and what a delta would.

    python benchmarks/new_version.py [--gib 1] [--rounds 3] [--rate 50] \\
        [--only read,load,next_to,delta,serve] [--folder FOLDER]

The model has four embedding tables of 16 floats a row, 1 GiB together, and a DNN of 256-128-64
units. It is trained for one step. The second version has other numbers in 2 % of the rows of each
table. `read` reads the file of the variables and does nothing with it. `load` loads a version: with
TensorFlow's C++ loader, and as the server does. `next_to` loads it while another version answers in
the same process. `delta` reads the changed rows and writes them into a loaded version; the kit has
no such update. `serve` starts `--mode=serve` and one client that
sends requests of 16 Examples at a steady rate, and publishes the other version with a rename, in
each round. All parts but `delta` run with the files of the version in the page cache, and with
files that were removed from it (`cold`). Each line has [median, least, most] of the rounds. The
latency of a request counts from when it was due.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import estimator_kit.compat  # isort: skip
import click_logs
import numpy as np
import tensorflow as tf
from new_version_parts import WIDTH, answer, records_of, tables_in
from serving import HERE, Server
from training_speed import UNITS, run_config

import estimator_kit as ek
from estimator_kit.exporters import c_session
from estimator_kit.exporters.saved_model import export_saved_model
from estimator_kit.models import find_model
from estimator_kit.serving.loaded_model import LoadedModel

TABLES, CHANGED, EXAMPLES = 4, 0.02, 16
BEFORE_SECS, LOOK_SECS = 10.0, 0.05
BLOCK = 8 * 2**20


def spec(rows: int):
    ids = [f"id{i}" for i in range(TABLES)]
    return ek.parse_spec(
        {
            "features": {name: {"dtype": "int64", "default": 0} for name in ids},
            "columns": {
                **{f"{name}_id": {"identity": name, "size": rows} for name in ids},
                **{f"{n}_emb": {"embedding": f"{n}_id", "dimension": WIDTH} for n in ids},
            },
            "groups": {"deep": [f"{name}_emb" for name in ids]},
            "labels": {"click": {"dtype": "int64"}},
            "objectives": {"click": {"head": "binary"}},
        }
    )


def make(folder: pathlib.Path, rows: int) -> None:
    """Writes two versions, the changed rows, and a request whose rows have all changed."""
    the_spec, random = spec(rows), np.random.default_rng(1)
    changed = [np.sort(random.choice(rows, int(rows * CHANGED), False)) for _ in range(TABLES)]
    asked = {f"id{i}": random.choice(ids, EXAMPLES) for i, ids in enumerate(changed)}
    click_logs.write(
        str(folder / "rows.tfrecord"), {**asked, "click": np.arange(EXAMPLES, dtype=np.int64) % 2}
    )
    params = {"hidden_units": UNITS, "optimizer": "sgd", "learning_rate": 0.01}
    model = find_model("dnn")(the_spec, params)
    trained = tf.estimator.Estimator(model, str(folder / "run"), run_config(checkpoints=True), {})
    trained.train(
        ek.train_input_fn(the_spec, [str(folder / "rows.tfrecord")], batch_size=EXAMPLES), steps=1
    )
    first = pathlib.Path(export_saved_model(trained, the_spec, str(folder / "exports")))
    first.rename(folder / "first")
    shutil.rmtree(folder / "run")
    change(folder, changed)
    records = [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    name: tf.train.Feature(int64_list=tf.train.Int64List(value=[ids[i]]))
                    for name, ids in asked.items()
                }
            )
        ).SerializeToString()
        for i in range(EXAMPLES)
    ]
    request = {
        "records": np.frombuffer(b"".join(records), np.uint8),
        "lengths": [len(record) for record in records],
    }
    np.savez(folder / "requests.npz", **request)
    answers = []
    for name in ("first", "second"):
        model = LoadedModel(str(folder / name), 1)
        answers.append(answer(model, records_of(str(folder / "requests.npz"))))
        model.close()
    assert np.abs(answers[0] - answers[1]).min() > 1e-4, answers
    np.savez(folder / "requests.npz", **request, answer_0=answers[0], answer_1=answers[1])


def change(folder: pathlib.Path, changed: Sequence[np.ndarray]) -> None:
    """Writes the second version, with the saver in the graph of the first one, and the delta."""
    shutil.copytree(folder / "first", folder / "second")
    random, delta = np.random.default_rng(2), {}
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(folder / "first"))
        handles = tables_in(session.graph)
        assert len(handles) == TABLES, handles
        for (name, handle), ids in zip(sorted(handles.items()), changed):
            values = random.normal(size=(len(ids), WIDTH)).astype(np.float32)
            update = tf.raw_ops.ResourceScatterUpdate(resource=handle, indices=ids, updates=values)
            session.run(update)
            delta[f"ids_{name}"], delta[f"rows_{name}"] = ids, values
        saver = meta.saver_def
        for old in (folder / "second" / "variables").iterdir():
            old.unlink()
        session.run(
            saver.save_tensor_name,
            {saver.filename_tensor_name: str(folder / "second/variables/variables")},
        )
    np.savez(folder / "delta.npz", **delta)


def files(version: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in version.rglob("*") if path.is_file()]


def forget(version: pathlib.Path) -> None:
    """Removes the files of a version from the page cache."""
    for path in files(version):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(version: pathlib.Path) -> float:
    """Seconds of reading the files of the variables, without looking at them."""
    start, block = time.perf_counter(), bytearray(BLOCK)
    for path in files(version / "variables"):
        with path.open("rb", buffering=0) as file:
            while file.readinto(block):
                pass
    return time.perf_counter() - start


def in_process(*command: Any, **options: Any) -> dict[str, Any]:
    made = subprocess.run(
        [sys.executable, *map(str, command)], stdout=subprocess.PIPE, check=True, **options
    )
    return json.loads(made.stdout)


def c_load(version: pathlib.Path, requests: pathlib.Path) -> dict[str, float]:
    request = {
        "signature": "serving_default",
        "inputs": {"examples": c_session.encoded(records_of(str(requests)))},
    }
    job = json.dumps({"export": str(version), "requests": [request]}).encode()
    told = in_process(c_session.__file__, os.path.dirname(tf.__file__), input=job)
    return {"load_secs": told["load_seconds"], "first_answer_secs": told["run_seconds"]}


class Watched:
    """A server's memory and CPU time."""

    def __init__(self, process: int):
        self._folder = pathlib.Path("/proc", str(process))

    def cpu_secs(self) -> float:
        fields = (self._folder / "stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def mib(self, name: str) -> int:
        status = (self._folder / "status").read_text("ascii")
        return int(status.split(f"{name}:")[1].split()[0]) // 1024

    def forget_most(self) -> None:
        (self._folder / "clear_refs").write_text("5", "ascii")


def published(folder: pathlib.Path, number: int, cold: bool) -> tuple[float, pathlib.Path]:
    """Copies a version next to the live ones, and returns the seconds and the path of the copy."""
    copy, start = folder / f"unnamed-{number}", time.perf_counter()
    shutil.copytree(folder / ("first", "second")[(number - 1) % 2], copy)
    for path in files(copy):
        with path.open("rb") as file:
            os.fsync(file.fileno())
    seconds = time.perf_counter() - start
    (forget if cold else read)(copy)
    return seconds, copy


def changed(
    folder: pathlib.Path, server: Server, number: int, cold: bool, options: argparse.Namespace
) -> dict[str, float]:
    """Publishes version `number` under load, and measures from the rename to its first answer."""
    copy_secs, copy = published(folder, number, cold)
    watched = Watched(server.process.pid)
    length = BEFORE_SECS + options.seconds
    client = subprocess.Popen(
        [sys.executable, str(HERE / "serving_clients.py"), str(folder / "requests.npz"),
         server.grpc, str(length), "1", str(options.rate)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert client.stdout is not None
    client.stdout.readline()
    answering = watched.cpu_secs()
    time.sleep(BEFORE_SECS)
    watched.forget_most()
    memory, renamed, looks = watched.mib("VmRSS"), time.monotonic(), []
    cpu = watched.cpu_secs()
    copy.rename(folder / "live" / str(number))
    while time.monotonic() < renamed + options.seconds:
        looks.append((time.monotonic(), watched.cpu_secs()))
        time.sleep(LOOK_SECS)
    told = json.loads(client.communicate()[0])
    began, taken, which = (np.array(told[name]) for name in ("began", "seconds", "answers"))
    # A latency says nothing about a version that has not answered.
    new = np.flatnonzero((which == (number - 1) % 2) & (began + taken > renamed))
    if told["failed"] or told["wrong"] or not new.size:
        raise SystemExit(
            f"version {number}: {told['failed']}, {told['wrong']} wrong, {new.size} new"
        )
    live = float((began + taken)[new[0]])
    until = next((used for when, used in looks if when >= live), looks[-1][1])
    steady = began >= renamed - BEFORE_SECS
    spans = {
        "before": steady & (began + taken < renamed),
        "during": (began + taken >= renamed) & (began <= live),
        "after": (began > live) & (began < live + BEFORE_SECS),
    }
    result = {
        "copy_secs": copy_secs,
        "live_secs": live - renamed,
        "cpu_secs": until - cpu,
        "cpu_secs_before": cpu - answering,
        "mib_before": memory,
        "most_mib": watched.mib("VmHWM"),
        "mib_after": watched.mib("VmRSS"),
    }
    for name, which_requests in spans.items():
        found = taken[which_requests] * 1000 if which_requests.any() else np.array([np.nan])
        result[f"{name}_p50_ms"], result[f"{name}_p99_ms"] = np.quantile(found, [0.5, 0.99])
        result[f"{name}_most_ms"] = found.max()
    shutil.rmtree(folder / "live" / str(number - 1))
    return result


def show(name: str, rounds: Sequence[dict[str, float]], **more: Any) -> None:
    """One line with [median, least, most] of each value."""
    values = {}
    for key in rounds[0]:
        each = [float(measured[key]) for measured in rounds]
        values[key] = [float(f"{v:.4g}") for v in (statistics.median(each), min(each), max(each))]
    print(json.dumps({"name": name, "rounds": len(rounds), **more, **values}), flush=True)


def serve(folder: pathlib.Path, options: argparse.Namespace) -> None:
    number, live = 1, folder / "live"
    for path in [live, *folder.glob("unnamed-*")]:
        shutil.rmtree(path, ignore_errors=True)
    live.mkdir()
    published(folder, number, cold=False)[1].rename(live / "1")
    server = Server(str(live))
    try:
        for cold in (False, True):
            rounds = []
            for _ in range(options.rounds):
                number += 1
                rounds.append(changed(folder, server, number, cold, options))
                print(json.dumps({**rounds[-1], "version": number}), file=sys.stderr, flush=True)
            name = "serve: a new version" + ", cold" * cold
            show(name, rounds, requests_a_second=options.rate)
        if server.end() != 0:
            raise SystemExit("the server ended with an error")
    finally:
        server.process.kill()
    if shutil.which("tensorflow_model_server") is None:
        line = {"name": "tensorflow_model_server", "skipped": "it is not on the PATH"}
    else:
        line = {"name": "tensorflow_model_server", "skipped": "this program cannot start it"}
    print(json.dumps(line), flush=True)


@contextlib.contextmanager
def versions(options: argparse.Namespace) -> Iterator[pathlib.Path]:
    """The folder of the two versions: a temporary one, or --folder, which is made only once."""
    rows = int(options.gib * 2**30 / (4 * WIDTH * TABLES))
    if options.folder:
        folder = pathlib.Path(options.folder)
        if not (folder / "delta.npz").exists():
            folder.mkdir(parents=True)
            make(folder, rows)
        yield folder
    else:
        with tempfile.TemporaryDirectory() as temporary:
            make(pathlib.Path(temporary), rows)
            yield pathlib.Path(temporary)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gib", type=float, default=1.0, help="of all tables")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="of load after a rename")
    parser.add_argument("--only", default="read,load,next_to,delta,serve")
    parser.add_argument("--folder", default="", help="keeps the two versions for later runs")
    options = parser.parse_args()
    parts = options.only.split(",")
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    with versions(options) as folder:
        version, requests = folder / "second", folder / "requests.npz"
        program = HERE / "new_version_parts.py"
        size = sum(path.stat().st_size for path in files(version / "variables")) / 2**20
        print(json.dumps({"name": "variables", "mib": round(size)}), flush=True)
        measures = {
            "read: the variables": ("read", lambda: {"read_secs": read(version)}),
            "load: C++": ("load", lambda: c_load(version, requests)),
            "load: server's": ("load", lambda: in_process(program, "load", version, requests)),
            "next_to": (
                "next_to",
                lambda: in_process(program, "next_to", folder / "first", requests, version),
            ),
        }
        for name, (part, measure) in measures.items():
            for cold in (False, True) if part in parts else ():
                rounds = []
                for _ in range(options.rounds):
                    (forget if cold else read)(version)
                    rounds.append(measure())
                show(name + ", cold" * cold, rounds)
        if "delta" in parts:
            arguments = (program, "delta", folder / "first", requests, folder / "delta.npz")
            show("delta", [in_process(*arguments) for _ in range(options.rounds)])
        if "serve" in parts:
            serve(folder, options)


if __name__ == "__main__":
    main()
