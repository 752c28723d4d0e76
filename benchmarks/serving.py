"""Measures predictions of an export: in a session, through --mode=serve, and during version
changes.

    python benchmarks/serving.py [--rounds 3] [--seconds 60] [--clients 32] \\
        [--only export,json,requests,load]

The model is the model of speed.py: 13 numbers and 26 embeddings of 100,000 by 16, a DNN of
256-128-64. `export` compares the export with a canned Estimator's, both in a session as the server
uses it. `json` compares how long the body of a REST answer takes with Python's json module.
`requests` compares one client at a time with a direct call. All three print medians in
milliseconds. `load` starts `--mode=serve` in a separate process. Clients in two other processes
send requests while a new version comes every five seconds. The versions alternate between two
models, so a prediction of a wrong version, or of two versions, is noticed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import estimator_kit.compat  # isort: skip
import click_logs
import numpy as np
import tensorflow as tf
from side_by_side import report
from speed import estimators
from training_speed import BATCH

import estimator_kit as ek
from estimator_kit.client import GrpcClient, RestClient
from estimator_kit.exporters.saved_model import export_saved_model
from estimator_kit.serving import json_answers
from estimator_kit.serving.loaded_model import LoadedModel
from input_pipelines.record_files import tfrecords

HERE = pathlib.Path(__file__).parent
REPEATS, WARM_UP = 200, 20
SWAP_SECS = 5.0
OUTPUT = "click/logistic"


def exports(folder: str, paths: list[str]):
    """Two versions of ours and one of the canned model, all hardly trained."""
    ours, canned = estimators(folder, checkpoints=True)
    ours_input = ek.train_input_fn(click_logs.spec(), paths, batch_size=BATCH)
    peer_input = click_logs.canned_input_fn(paths, BATCH, click_logs.spec())
    found = []
    for version in (1, 2):
        ours.train(ours_input, steps=version)
        found.append(export_saved_model(ours, click_logs.spec(), f"{folder}/export-{version}"))
    canned.train(peer_input, steps=1)
    parse = ek.make_parse_example_spec(click_logs.spec())
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(parse)
    peer = tf.compat.as_str(canned.export_saved_model(f"{folder}/canned", receiver))
    return found, peer


def median_ms(ask) -> float:
    seconds = []
    for _ in range(WARM_UP + REPEATS):
        start = time.perf_counter()
        ask()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[WARM_UP:]) * 1000


def direct(model: LoadedModel, signature: str, records: np.ndarray):
    definition = model.signatures[signature]
    (name,), outputs = definition.inputs, sorted(definition.outputs)
    return lambda: model.run(signature, {name: records}, outputs)


def as_array(records: list[bytes]) -> np.ndarray:
    array = np.empty(len(records), np.object_)
    array[:] = records
    return array


def write_json(outputs: dict[str, np.ndarray], arguments: argparse.Namespace) -> None:
    """Compares the bodies of REST answers with Python's json module, and that they are equal."""

    def by_json() -> bytes:
        lists = (v.astype("U") if v.dtype.kind == "O" else v for v in outputs.values())
        rows = zip(*(values.tolist() for values in lists))
        return json.dumps({"predictions": [dict(zip(outputs, row)) for row in rows]}).encode()

    def by_kit() -> bytes:
        return json_answers.predictions(outputs, by_row=True)

    for row, other in zip(*(json.loads(write())["predictions"] for write in (by_kit, by_json))):
        for name, values in row.items():
            if outputs[name].dtype.kind == "f":
                np.testing.assert_array_equal(np.float32(values), np.float32(other[name]))
    rounds = range(arguments.rounds)
    both = [(median_ms(by_kit), median_ms(by_json)) for _ in rounds]
    report(f"the body of a REST answer of {len(next(iter(outputs.values())))} rows",
           *map(statistics.median, zip(*both)), "ms", less_is_better=True)  # fmt: skip


class Server:
    """`--mode=serve` for a folder, in a separate process."""

    def __init__(self, folder: str):
        self.process = subprocess.Popen(
            [sys.executable, str(HERE.parent / "run.py"), "--mode=serve",
             f"--serving_models=ads={folder}", "--serving_grpc_port=0", "--serving_rest_port=0"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        _, _, self.grpc, _, self.rest = self.process.stdout.readline().split()

    def resident_mib(self) -> float:
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def load(folder: str, models: list[str], records: list[bytes], arguments) -> None:
    """Clients while versions change; prints latencies, failures and memory for each protocol."""
    requests = f"{folder}/requests.npz"
    answers = {
        f"answer_{i}": direct(LoadedModel(path, 1), "serving_default", as_array(records))()[OUTPUT]
        for i, path in enumerate(models)
    }
    np.savez(
        requests, records=np.frombuffer(b"".join(records), np.uint8),
        lengths=[len(record) for record in records], **answers,
    )  # fmt: skip
    for protocol in ("grpc", "rest"):
        live = pathlib.Path(folder, f"live-{protocol}")
        shutil.copytree(models[0], live / "1")
        server = Server(str(live))
        clients = [
            subprocess.Popen(
                [sys.executable, str(HERE / "serving_clients.py"), requests,
                 getattr(server, protocol), str(arguments.seconds), str(arguments.clients // 2)],
                stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."},
            ) for _ in range(2)
        ]  # fmt: skip
        end, version, memory = time.monotonic() + arguments.seconds, 1, []
        while time.monotonic() < end - SWAP_SECS:
            time.sleep(SWAP_SECS)
            version += 1
            shutil.copytree(models[(version - 1) % 2], live / str(version))
            memory.append(round(server.resident_mib()))
        told = [json.loads(client.communicate()[0]) for client in clients]
        taken = np.sort(np.concatenate([part["seconds"] for part in told])) * 1000
        print(json.dumps({
            "name": f"{arguments.clients} clients by {protocol}, {len(records)} rows a request",
            "requests": len(taken), "requests_per_second": round(len(taken) / arguments.seconds),
            "p50_ms": round(float(np.quantile(taken, 0.5)), 2),
            "p99_ms": round(float(np.quantile(taken, 0.99)), 2),
            "failed": sum(len(part["failed"]) for part in told),
            "wrong": sum(part["wrong"] for part in told),
            "versions": version, "server_mib": memory, "exit": server.end(),
        }), flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--data", default="data/benchmarks")
    parser.add_argument("--examples", default="1,16,128", help="in a request")
    parser.add_argument("--only", default="export,json,requests,load")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    sizes = [int(size) for size in arguments.examples.split(",")]
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    paths = click_logs.generate(arguments.data, 20_000)
    examples = next(iter(tfrecords.blocks(paths[:1]))).numpy()[:128]
    with tempfile.TemporaryDirectory() as folder:
        models, peer = exports(folder, paths)
        ours, theirs = LoadedModel(models[0], 1), LoadedModel(peer, 1)
        default = "predict" if "predict" in theirs.signatures else "serving_default"
        for rows in sizes if "export" in parts else ():
            records = as_array(examples[:rows].tolist())
            both: tuple[list[float], list[float]] = ([], [])
            for _ in range(arguments.rounds):
                both[0].append(median_ms(direct(ours, "serving_default", records)))
                both[1].append(median_ms(direct(theirs, default, records)))
            report(f"answer to a batch of {rows}, compared with the canned export's",
                   *both, "ms", less_is_better=True)  # fmt: skip
        if "json" in parts:
            write_json(direct(ours, "serving_default", as_array(examples.tolist()))(), arguments)
        if "requests" in parts:
            live = pathlib.Path(folder, "live")
            shutil.copytree(models[0], live / "1")
            server = Server(str(live))
            for rows in sizes:
                records = examples[:rows].tolist()
                call = direct(ours, "serving_default", as_array(records))
                for kind, address in ((GrpcClient, server.grpc), (RestClient, server.rest)):
                    with kind(address, "ads") as client:
                        asked, called = [], []
                        for _ in range(arguments.rounds):
                            asked.append(median_ms(lambda: client.predict(records)))  # noqa: B023
                            called.append(median_ms(call))
                        report(f"{kind.__name__}, a batch of {rows}, compared with a direct call",
                               asked, called, "ms", less_is_better=True)  # fmt: skip
            server.end()
        if "load" in parts:
            load(folder, models, examples[:16].tolist(), arguments)


if __name__ == "__main__":
    main()
