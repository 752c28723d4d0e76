"""What freshness is worth: six simulated hours, with a model every five minutes, every hour, once.

    python benchmarks/freshness.py [--periods 72] [--policies watch,hourly,once]
        [--faults] [--small_disk FOLDER]
    python benchmarks/freshness.py --draw lines.jsonl docs/images/freshness.svg

A period of five minutes has 1,500 rows. 60 items are born each hour and are shown for two hours,
less and less. A click depends on an effect of its item and one of its user, which no feature shows.
`watch` starts `retrain --watch` once; this program then writes one period after another, and waits
until the watch has run its cycle. `hourly` runs the command after every twelfth period, `once` only
at first. Each period's rows are answered by the model that is live when they come, before any model
is trained on them. A line for each period has the AUC of these answers. Lines of the watch also
have its memory, its open files, and its CPU seconds since it was started.

With `--faults`, the watch also meets: a period with a damaged file, one that comes three periods
late, a second watch, and `kill -9` in a training and in a gate. `--small_disk` is a folder on a
small file system, such as a tmpfs of 1 GiB, on which all files are; there the disk is also full
during a cycle. At the end the program checks that versions only grew, that no two cycles had the
same window, and that each complete period was in a window. Time is simulated only in the names of
periods: no cycle waits for a clock.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import estimator_kit as ek  # isort: skip
import numpy as np
import tensorflow as tf
from sklearn.metrics import roc_auc_score

from input_pipelines.record_files import writing

ROOT = Path(__file__).parents[1]
ROWS, BORN, HOUR, SHOWN, USERS = 1500, 60, 12, 24, 500
WINDOW, FIRST = 6, datetime.datetime(2026, 1, 5)
START = HOUR  # Periods that are there before the first cycle.
TIMEOUT = 300  # Seconds for one cycle.
Rows = list[dict[str, Any]]


def periods_of(count: int) -> list[Rows]:
    """The rows of each period, from their true probabilities."""
    random = np.random.default_rng(7)
    effects = random.normal(size=BORN * (count // HOUR + 4)) * 1.3
    users = random.normal(size=USERS) * 0.5
    made = []
    for number in range(count):
        age = random.choice(SHOWN, ROWS, p=np.arange(SHOWN, 0, -1) / (SHOWN * (SHOWN + 1) / 2))
        hour = (number + SHOWN - age) // HOUR  # Items are born when an hour begins.
        item = hour * BORN + random.integers(0, BORN, ROWS)
        user = random.integers(0, USERS, ROWS)
        clicks = random.random(ROWS) < 1 / (1 + np.exp(1.0 - effects[item] - users[user]))
        made.append(
            [
                {"item": f"i{i}", "user": f"u{u}", "click": int(c)}
                for i, u, c in zip(item, user, clicks)
            ]
        )
    return made


def spec() -> dict[str, Any]:
    return {
        "features": {name: {"dtype": "string"} for name in ("item", "user")},
        "columns": {
            "item": {"growing": "item", "rows": 400, "buckets": 100, "min_count": 2,
                     "admit_every": 10, "evict_every": 50},
            "user": {"hash_bucket": "user", "size": 4000},
            "item_emb": {"embedding": "item", "dimension": 8},
            "user_emb": {"embedding": "user", "dimension": 8},
        },
        "groups": {"wide": ["item", "user"], "deep": ["item_emb", "user_emb"]},
        "labels": {"click": {"dtype": "int64"}},
        "objectives": {"click": {"head": "binary"}},
        "retraining": {
            "drift": "warn", "warm_start": "live", "warm_start_epochs": 1,
            "gate": {
                "bootstrap": {"samples": 100},
                "conditions": [{"metric": "auc/click", "max_loss": 0.02}],
            },
        },
    }  # fmt: skip


class World:
    """A folder of data, a model directory and a serving directory."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "spec.json").write_text(json.dumps(spec()))
        self.flags = [
            f"--spec={folder}/spec.json", f"--train_files={folder}/data/ts=*/*.tfrecord",
            "--period=5m", f"--window={5 * WINDOW}m", "--window_min=100rows",
            f"--model_dir={folder}/runs", f"--serving_dir={folder}/live",
            "--model=wide_deep", "--batch_size=64", "--epochs=2", "--min_count=2", "--report=off",
            "--keep_cycles=3", "--keep_versions=3", "--corrupt_data_policy=quarantine",
            "--model_params=hidden_units=[16]", "--model_params=learning_rate=0.1",
            "--model_params=linear_learning_rate=0.3",
        ]  # fmt: skip

    def write(self, number: int, rows: Rows, *, damaged: bool = False) -> None:
        name = (FIRST + datetime.timedelta(minutes=5 * number)).strftime("%Y-%m-%dT%H-%M")
        place = self.folder / f"data/ts={name}"
        place.mkdir(parents=True)
        ek.write_examples(f"{place}/rows.tfrecord", rows)
        if damaged:
            (place / "rows.tfrecord").write_bytes(b"no records")
        (place / "_SUCCESS").touch()

    def command(self, *more: str) -> list[str]:
        return [sys.executable, str(ROOT / "run.py"), "retrain", *self.flags, *more]

    @property
    def cycles(self) -> list[Path]:
        return sorted(self.folder.glob("runs/cycles/*"))

    def ended(self) -> list[Path]:
        """The cycles that ran to their end."""
        found = [cycle for cycle in self.cycles if (cycle / "done.json").exists()]
        return [c for c in found if '"abandoned"' not in (c / "done.json").read_text()]

    def windows(self) -> list[dict[str, Any]]:
        paths = (cycle / "window.json" for cycle in self.ended())
        return [json.loads(path.read_text()) for path in paths]

    def live(self) -> Optional[Path]:
        versions = [path for path in self.folder.glob("live/*") if path.name.isdecimal()]
        return max(versions, key=lambda path: int(path.name), default=None)


class Watched:
    """A `retrain --watch` process, with its log."""

    def __init__(self, world: World, *more: str, **options: Any):
        self.log = open(world.folder / "watch.log", "a")  # noqa: SIM115  # Until `close`.
        self.process = subprocess.Popen(
            world.command("--watch", *more), stdout=self.log, stderr=self.log,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, **options,
        )  # fmt: skip

    def facts(self) -> dict[str, float]:
        """The memory of its worker in MiB, its open files, and the CPU seconds of both."""
        own = self.process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        worker = children[0] if children else own
        status = Path(f"/proc/{worker}/status").read_text()
        (rss,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        files = len(os.listdir(f"/proc/{worker}/fd"))
        ticks = sum(_ticks(process) for process in {own, int(worker)})
        return {
            "mib": int(rss.split()[1]) // 1024,
            "files": files,
            "cpu": round(ticks / os.sysconf("SC_CLK_TCK"), 1),
        }

    def close(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        status = self.process.wait(TIMEOUT)
        self.log.close()
        return status


def _ticks(process: int) -> int:
    """The CPU time of a process and of its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))


def until(done: Any, watched: Watched, what: str) -> None:
    """Waits for something outside of this process."""
    begun = time.monotonic()
    while not done():
        status, is_over = watched.process.poll(), time.monotonic() - begun > TIMEOUT
        if status is not None or is_over:
            watched.process.kill()
            log = Path(watched.log.name).read_text()[-3000:]
            raise SystemExit(f"{what}: exit status {status} after {TIMEOUT} s or less\n{log}")
        time.sleep(0.2)


def auc_of(export: Path, rows: Rows) -> float:
    serving = tf.saved_model.load(str(export)).signatures["predict_examples"]
    records = [writing.example(row).SerializeToString() for row in rows]
    logits = serving(examples=tf.constant(records))["click/logits"].numpy()[:, 0]
    return float(roc_auc_score([row["click"] for row in rows], logits))


def simulate(
    policy: str, periods: list[Rows], folder: Path, faults: dict[int, str]
) -> Iterator[dict]:
    """One line for each period after the first cycle."""
    world = World(folder)
    for number in range(START):
        world.write(number, periods[number])
    once = {**os.environ, "PYTHONPATH": str(ROOT)}
    watched = Watched(world) if policy == "watch" else None
    if watched is None:
        subprocess.run(world.command(), check=True, capture_output=True, env=once)
    else:
        until(lambda: len(world.ended()) == 1, watched, "the first cycle")
    late: Optional[int] = None
    for number in range(START, len(periods)):
        export = world.live()
        line = {"policy": policy, "period": number - START}
        if export is not None:
            line |= {"version": int(export.name), "auc": round(auc_of(export, periods[number]), 4)}
        place, begun = number - START, time.monotonic()
        fault = faults.get(place) if policy == "watch" else None
        before = len(world.ended())
        if fault == "full disk":
            fill(folder / "filler", leave=2**20)
        if fault == "late":
            late = number
        else:
            world.write(number, periods[number], damaged=fault == "damaged")
        if late is not None and number == late + 3:
            world.write(late, periods[late])
            late = None
        if policy == "hourly" and (place + 1) % HOUR == 0:
            subprocess.run(world.command(), check=False, capture_output=True, env=once)
        if watched is not None:
            watched = meet(fault, world, watched, before)
            line |= {"seconds": round(time.monotonic() - begun, 1), "fault": fault}
            line |= watched.facts()
        yield line
    if watched is not None:
        status = watched.close()
        yield {"policy": policy, "ended_with": status, **checked(world, periods, faults)}


def fill(path: Path, leave: int) -> None:
    """Fills a file system up to some bytes."""
    free = shutil.disk_usage(path.parent).free
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free - leave)


# What happens in which period.
FAULTS = {
    5: "damaged", 9: "late", 15: "second watch", 20: "killed in training", 25: "killed in gate",
    30: "full disk",
}  # fmt: skip


def meet(fault: Optional[str], world: World, watched: Watched, before: int) -> Watched:
    """Waits until the watch has run a cycle on the new period, whatever happens to it."""
    if fault == "late":
        return watched
    if fault == "damaged":  # The window stays, so there is nothing to do.
        log = Path(watched.log.name)
        seen = log.read_text().count("waiting for a new period")
        until(lambda: log.read_text().count("waiting for a new period") > seen or
              len(world.ended()) > before, watched, "a damaged period")  # fmt: skip
        return watched
    if fault is not None and fault.startswith("killed"):
        part = "train/checkpoint" if fault.endswith("training") else "train.json"
        until(lambda: len(world.cycles) > before and (world.cycles[-1] / part).exists(),
              watched, fault)  # fmt: skip
        watched.close(signal.SIGKILL)
        watched = Watched(world)
    if fault == "full disk":
        log = Path(watched.log.name)
        until(lambda: "No space left" in log.read_text(), watched, fault)
        (world.folder / "filler").unlink()
    if fault == "second watch":
        second = Watched(world)
        until(lambda: len(world.ended()) > before, watched, fault)
        if second.close() not in (0, 143):
            raise SystemExit("the second watch failed")
        return watched
    until(lambda: len(world.ended()) > before, watched, "a period")
    return watched


def checked(world: World, periods: list[Rows], faults: dict[int, str]) -> dict[str, Any]:
    """What must hold at the end."""
    windows = world.windows()
    contents = [window["digest"] for window in windows]
    seen = {part["name"] for window in windows for part in (*window["train"], *window["evaluate"])}
    promoted = [
        json.loads((cycle / "promote.json").read_text())["version"] for cycle in world.ended()
    ]
    versions = [version for version in promoted if version is not None]
    return {
        "cycles": len(windows),
        "abandoned": len(world.cycles) - len(windows),
        "went_on": (world.folder / "watch.log").read_text().count("goes on where it stopped"),
        "promoted": len(versions),
        "versions_grow": versions == sorted(set(versions)),
        "no_window_twice": len(contents) == len(set(contents)),
        "periods_in_windows": len(seen),
        "periods_expected": len(periods) - START + WINDOW + 1 - [*faults.values()].count("damaged"),
    }


def plot(lines: list[dict[str, Any]], path: str) -> None:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise SystemExit("--draw needs matplotlib: pip install matplotlib") from error
    pyplot.rcParams.update({"svg.hashsalt": "freshness", "font.size": 9})
    figure, axes = pyplot.subplots(figsize=(8, 3.5))
    titles = {"watch": "every 5 minutes", "hourly": "every hour", "once": "once"}
    for policy in dict.fromkeys(line["policy"] for line in lines):
        own = [line for line in lines if line["policy"] == policy and "auc" in line]
        hours, aucs = zip(*((line["period"] / HOUR, line["auc"]) for line in own))
        axes.plot(hours, aucs, label=titles[policy])
    axes.set_xlabel("hours after the first model")
    axes.set_ylabel("AUC of the live model")
    axes.grid(visible=True, linewidth=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--periods", type=int, default=6 * HOUR)
    parser.add_argument("--policies", default="watch,hourly,once")
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--small_disk", help="a folder on a small file system")
    parser.add_argument("--draw", nargs=2, help="draws printed lines into a file, and ends")
    options = parser.parse_args()
    if options.draw:
        text = Path(options.draw[0]).read_text("utf-8")
        plot([json.loads(line) for line in text.splitlines()], options.draw[1])
        return
    periods, lines = periods_of(START + options.periods), []
    faults = {
        number: fault
        for number, fault in FAULTS.items()
        if options.faults and (fault != "full disk" or options.small_disk)
    }
    for policy in options.policies.split(","):
        with tempfile.TemporaryDirectory(dir=options.small_disk) as folder:
            for line in simulate(policy, periods, Path(folder), faults):
                print(json.dumps(line), flush=True)
                lines.append(line)
        found = [line["auc"] for line in lines if line["policy"] == policy and "auc" in line]
        if found:
            print(json.dumps({"policy": policy, "mean_auc": round(statistics.mean(found), 4)}))


if __name__ == "__main__":
    main()
