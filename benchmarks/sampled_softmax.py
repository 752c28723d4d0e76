"""Sampled softmax compared with the full softmax, on a log whose best possible ranking is known.

    python benchmarks/sampled_softmax.py [--items 10000] [--work DIR] [--losses full,mixed:1000]

The log comes from `examples/next_item/make_log.py`, with more items. Each loss is `full`, or a kind
of negatives with a number of samples, as in `in_batch:1000`. It trains `sasrec` with each of
them, and evaluates the last item of each user over all items. `of_full` is a metric divided by the
metric of the full softmax, and `of_best` by the best possible value. The seconds are the time of
the training, with start, input and checkpoints. A second call with the same `--work` goes on.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

ROOT = Path(__file__).parents[1]
LOSSES = "full,in_batch:1000,mixed:1000,mixed:2000"
METRICS = ("recall_at_10", "ndcg_at_10")


def spec(items: int, loss: str) -> dict[str, Any]:
    negatives, _, samples = loss.partition(":")
    chosen: Any = "softmax_cross_entropy"
    if negatives != "full":
        chosen = {"sampled_softmax": {"samples": int(samples), "negatives": negatives}}
    return {
        "features": {"item_id": {"dtype": "int64", "shape": "variable"}},
        "columns": {
            "item": {"identity": "item_id", "size": items, "sequence": True},
            "item_emb": {"embedding": "item", "dimension": 32},
        },
        "groups": {"steps": ["item_emb"]},
        "labels": {"next_item_id": {"dtype": "int64", "shape": "variable"}},
        "objectives": {
            "next": {"head": "next_item", "label": "next_item_id", "items": "item", "loss": chosen}
        },
    }


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / program), *arguments],
        check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return done.stdout


def prepare(work: Path, items: int, users: int) -> dict[str, float]:
    """Writes the records, and returns the best possible metrics."""
    done = work / "best.json"
    if done.exists():
        return dict(json.loads(done.read_text(encoding="utf-8")))
    log = work / "log.csv"
    said = run("examples/next_item/make_log.py", f"--out={log}", f"--items={items}",
               f"--users={users}")  # fmt: skip
    run("run.py", "convert", f"--convert_files={log}", f"--convert_dir={work}/records",
        "--sequence_by=user_id", "--order_by=time", "--sequence_columns=item_id",
        "--sequence_steps=20", "--targets=leave_one_out", "--convert_order=shuffled")  # fmt: skip
    found = dict(re.findall(r"best possible (\w+) is ([\d.]+)", said))
    best = {name: float(found[name]) for name in METRICS}
    done.write_text(json.dumps(best), encoding="utf-8")
    return best


def quality(work: Path, items: int, loss: str, epochs: int) -> dict[str, float]:
    """The metrics of a loss on the last item of each user, and the seconds of its training."""
    model_dir = work / loss.replace(":", "_")
    path, done = work / f"{model_dir.name}.json", model_dir / "quality.json"
    if done.exists():
        return dict(json.loads(done.read_text(encoding="utf-8")))
    path.write_text(json.dumps(spec(items, loss)), encoding="utf-8")
    common = [f"--spec={path}", "--model=sasrec", f"--model_dir={model_dir}",
              "--model_params=max_steps=20", "--model_params=learning_rate=0.003",
              "--model_params=steps_dropout=0.1"]  # fmt: skip
    start = time.perf_counter()
    run("run.py", "train", *common, f"--train_files={work}/records/train-*", f"--epochs={epochs}",
        "--batch_size=32", "--report=off")  # fmt: skip
    seconds = time.perf_counter() - start
    run("run.py", "evaluate", *common, f"--eval_files={work}/records/test-*", "--eval_name=test")
    stored = json.loads((model_dir / "evaluation-test.json").read_text(encoding="utf-8"))
    found = {name: stored["metrics"][f"{name}/next"] for name in METRICS}
    found["seconds"] = round(seconds)
    done.write_text(json.dumps(found), encoding="utf-8")
    return found


def shown(
    loss: str, found: dict[str, float], best: dict[str, float], full: Optional[dict[str, float]]
) -> str:
    line: dict[str, Any] = {"loss": loss}
    for name in METRICS:
        line[name] = round(found[name], 4)
        line[f"{name}_of_best"] = round(found[name] / best[name], 3)
        if full is not None:
            line[f"{name}_of_full"] = round(found[name] / full[name], 3)
    return json.dumps({**line, "seconds": found["seconds"]})


def main(arguments: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--losses", default=LOSSES, help="full comes first, if it is there")
    parser.add_argument("--work", type=Path, help="where models go; by default nothing is kept")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        work = given.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        best = prepare(work, given.items, given.users)
        print(json.dumps({"best": best}), flush=True)
        full = None
        for loss in given.losses.split(","):
            found = quality(work, given.items, loss, given.epochs)
            full = found if loss == "full" else full
            print(shown(loss, found, best, full), flush=True)


if __name__ == "__main__":
    main()
