"""The same commands on local files and in object stores: seconds, requests, bytes, equal results.

    make servers
    python benchmarks/object_stores.py [--stores s3,gs] [--fail 503,hang,cut,429,lost] [--kill]

Servers of S3 and GCS run on this machine, behind a proxy that counts. So the seconds show what the
kit adds, without a network. Each command runs in its own process; training and retraining with a
flagfile in the store. With --fail, every seventh request fails in turn in these ways. With --kill,
the training is killed with SIGKILL after its first checkpoints, and started again with other
copies. Metrics, conversions, predictions and what retraining decides must be as with local
files; the program ends with 1 if they are not.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # For the servers of the tests.

import numpy as np  # noqa: E402

from feature_specs.files import stores  # noqa: E402
from input_pipelines.synthetic import impression_log  # noqa: E402
from tests.stores import servers  # noqa: E402
from tests.stores.proxy import every  # noqa: E402

DAYS = 8
TRAIN = """--spec={place}/spec.yaml
--train_files={place}/log/dt=2026-01-0[1-7]/*.tfrecord
--eval_files={place}/log/dt=2026-01-08/*.tfrecord
--model_dir={place}/run
--model=wide_deep
--model_params=hidden_units=[64,32]
--batch_size=256
--epochs={epochs}
--save_checkpoints_steps=200
--deterministic
--exporters=final
"""
RETRAIN = """--spec={place}/retraining/spec.yaml
--train_files={place}/log/dt=*/*.tfrecord
--window=5d
--window_min=1000rows
--min_count=3
--model=wide_deep
--model_params=hidden_units=[32,16]
--model_params=learning_rate=0.1
--batch_size=128
--epochs=2
--deterministic
--model_dir={place}/cycles
--serving_dir={place}/serving/ads
--as_of=2026-01-08
"""


class Place:
    """Local files (`url` is a folder), or a bucket behind a proxy."""

    def __init__(self, name: str, url: str, work: pathlib.Path, proxy=None):
        self.name, self.url, self.work, self.proxy = name, url, work, proxy
        self.copies = f"{work}/copies_{name}"
        self.lines: list[dict] = []

    def write(self, source: pathlib.Path, names) -> None:
        for name in names:
            if self.proxy is None:
                (path := pathlib.Path(self.url, name)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source / name, path)
            else:
                store, key = stores.find(f"{self.url}/{name}")
                store.put(key, str(source / name))

    def read(self, name: str) -> bytes:
        if self.proxy is None:
            return pathlib.Path(self.url, name).read_bytes()
        store, key = stores.find(f"{self.url}/{name}")
        return store.read(key)[0]

    def names(self, folder: str) -> list[str]:
        if self.proxy is None:
            found = [p for p in pathlib.Path(self.url, folder).rglob("*") if p.is_file()]
            return sorted(os.path.relpath(p, self.url) for p in found)
        store, key = stores.find(f"{self.url}/{folder}")
        return sorted(each.key for each in store.objects(key))

    def run(self, python: str, *arguments: str, statuses=(0,), kill_after=None) -> int:
        command = [python, str(ROOT / "run.py"), *(a.format(place=self.url) for a in arguments)]
        if self.proxy is not None:
            command.append(f"--copies_dir={self.copies}")
            self.proxy.seen.clear()
        start = time.monotonic()
        log = self.work / f"{self.name}.log"
        with log.open("a") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            if kill_after is not None:
                while process.poll() is None and not kill_after():
                    time.sleep(0.1)
                process.kill()
            status = process.wait()
        line = {"command": arguments[0][7:] if kill_after is None else "killed", "place": self.name}
        line |= {"seconds": round(time.monotonic() - start, 1), "status": status}
        if self.proxy is not None:
            seen = list(self.proxy.seen)
            objects = [each for each in seen if "?" not in each.path]
            times = collections.Counter(e.path for e in objects if e.method == "GET" and e.sent)
            data = [count for path, count in times.items() if "/log/" in path or "/raw/" in path]
            line |= dict(collections.Counter(each.method for each in seen))
            line |= {"MiB_read": round(sum(e.sent for e in seen) / 2**20, 2)}
            line |= {"MiB_put": round(sum(e.received for e in seen) / 2**20, 2)}
            line |= {"GETs_of_a_data_file": max(data, default=0)}
            line |= {"failures": sum(each.failure is not None for each in seen)}
        print(json.dumps(line), flush=True)
        if status not in statuses and kill_after is None:
            raise SystemExit(f"{log.read_text()[-3000:]}\n{command}: exit status {status}")
        self.lines.append(line)
        return status


def make_data(folder: pathlib.Path) -> list[str]:
    impression_log.generate(str(folder / "log"), rows=24_000, days=DAYS)
    for name, source in (
        ("spec.yaml", "feature_specs/catalog/ads.yaml"),
        ("retraining/spec.yaml", "examples/retraining/spec.yaml"),
        ("retraining/vocabularies/item_id.txt", "examples/retraining/vocabularies/item_id.txt"),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / source, folder / name)
    (folder / "train.flags").write_text(TRAIN)
    (folder / "retrain.flags").write_text(RETRAIN)
    random = np.random.default_rng(7)
    (folder / "raw").mkdir()
    for part in range(4):
        rows = zip(random.integers(0, 50, 5000), random.normal(size=5000), random.random(5000))
        lines = [f"item{i},{x:.4f},{int(p < 0.2 + 0.01 * i)}" for i, x, p in rows]
        (folder / f"raw/{part}.csv").write_text("\n".join(["item,x,click", *lines]) + "\n")
    return [os.path.relpath(p, folder) for p in folder.rglob("*") if p.is_file()]


def results_of(place: Place, python: str, kill: bool) -> dict:
    """Runs all commands, and returns what must not depend on the place."""
    for name in ("train.flags", "retrain.flags"):
        path = place.work / f"{place.name}_{name}"
        text = (place.work / "data" / name).read_text()
        path.write_text(text.format(place=place.url, epochs=40 if kill else 3))
        place.write(path.parent, [path.name])
        path.unlink()
    flags = {
        kind: f"--flagfile={{place}}/{place.name}_{kind}.flags" for kind in ("train", "retrain")
    }
    options = ["--convert_files={place}/raw/*.csv", "--convert_dir={place}/converted"]
    files = ["--train_files={place}/raw/*.csv", "--analysis_dir={place}/first"]
    place.run(python, "--mode=analyze", *files, "--labels=click")
    place.run(python, "--mode=convert", *options, "--spec={place}/first/spec.yaml")
    if kill:

        def is_there():
            return any("run/model.ckpt-" in name for name in place.names("run"))

        place.run(python, "--mode=train_and_evaluate", flags["train"], kill_after=is_there)
        if place.proxy is not None:
            time.sleep(125)  # Until the lock of the killed one is old.
        place.copies += "_of_another_machine"
    place.run(python, "--mode=train_and_evaluate", flags["train"])
    place.run(python, "--mode=train_and_evaluate", flags["train"], statuses=(99,))
    place.run(python, "--mode=export", flags["train"])
    result = json.loads(place.read("run/result.json"))
    (last,) = [n for n in place.names("run/export/final") if n.endswith("saved_model.pb")][-1:]
    place.run(
        python, "--mode=predict", f"--export_dir={{place}}/{os.path.dirname(last)}",
        "--predict_files={place}/log/dt=2026-01-08/*.tfrecord", "--predict_dir={place}/predicted",
    )  # fmt: skip
    place.run(python, "--mode=retrain", flags["retrain"])
    place.run(python, "--mode=retrain", flags["retrain"], statuses=(99,))

    def digest(folder):
        return {
            os.path.basename(name): hashlib.sha256(place.read(name)).hexdigest()
            for name in place.names(folder)
            if "/_" not in name
        }

    versions = {name.split("/")[2] for name in place.names("serving/ads") if "saved_model" in name}
    return {
        "metrics": result["metrics"],
        "rows": (result["rows_trained"] if not kill else None, result["rows_evaluated"]),
        "examples_per_second": result["examples_per_second"],
        "converted": digest("converted"),
        "predicted": digest("predicted"),
        "versions": len(versions),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", default="s3,gs")
    parser.add_argument("--fail", default="")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    wrong = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        work = pathlib.Path(folder)
        (work / "data").mkdir()
        names = make_data(work / "data")
        places = [Place("local", f"{folder}/local", work)]
        for scheme in options.stores.split(","):
            proxy, variables = stack.enter_context(servers.started(scheme, folder))
            os.environ.update(variables)
            places.append(Place(scheme, f"{scheme}://{servers.BUCKET}", work, proxy))
        results = {}
        for place in places:
            place.write(work / "data", names)
            if place.proxy is not None and options.fail:
                place.proxy.fails = every(7, options.fail.split(","))
            results[place.name] = results_of(place, options.python, options.kill)
        for name, result in results.items():
            speed = result.pop("examples_per_second") / results["local"].get("speed", 1)
            if name == "local":
                result["speed"] = speed
                continue
            print(json.dumps({"name": f"examples_per_second, {name}", "ratio": round(speed, 2)}))
            expected = {k: v for k, v in results["local"].items() if k != "speed"}
            wrong += [f"{name}: {key}" for key in expected if result[key] != expected[key]]
    print(json.dumps({"not as local files": wrong}))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
