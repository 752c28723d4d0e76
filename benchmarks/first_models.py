"""How good is the first model? Public tables through the two commands of the README, unedited.

    python benchmarks/first_models.py --data=FOLDER --out=FOLDER [--sets=adult,bike] [--seeds=1,2,3]
        [--tune=300s]

For each table: `analyze --convert_dir` splits the rows in three (80, 10 and 10 %), then
`train_and_evaluate --flagfile=exp.flags`, once for each seed, and `tune --search=auto:300s` with
the first seed. The metric is of the test rows, at the step that the evaluation rows chose; the
reference models of the same run learn from the same rows. Nothing is downloaded: `TABLES` says
which files FOLDER must have. Each table adds a line of JSON to OUT/results.jsonl. Defaults were
chosen on the tables that are `chosen_on`; all other tables only judge.
benchmarks/first_models.md has results.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, Optional

from estimator_kit.result import RunResult, read_result
from estimator_kit.tuning.results import read as read_search

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@dataclasses.dataclass(frozen=True)
class Table:
    """A public table.

    Attributes:
      file: its file in the folder of the data.
      label: the label.
      metric: the metric that is compared.
      flags: further flags of `analyze`. They only name what nobody can see in the rows.
      chosen_on: whether defaults were chosen with this table.
    """

    file: str
    label: str
    metric: str
    flags: tuple[str, ...] = ()
    chosen_on: bool = False


TABLES = {
    "talkingdata": Table("talkingdata.csv", "is_attributed", "auc", (), True),
    "speed_dating": Table("speed_dating.csv", "match", "auc", (), True),
    "avazu": Table("avazu.csv", "click", "auc", (), True),
    "mq2007": Table("mq2007.svm", "label", "ndcg_at_10", (), True),
    "ml100k": Table("ml100k.csv", "next_item_id", "recall_at_10", (), True),
    "adult": Table("adult.csv", "income", "auc"),
    "bike": Table("bike.csv", "cnt", "rmse"),
    "criteo": Table("criteo.tsv", "label", "auc"),
    "bank": Table("bank.csv", "Class", "auc"),
    "toys": Table("toys.csv", "next_item_id", "recall_at_10"),
    "credit": Table("credit.csv", "default", "auc"),
    "california": Table("california.csv", "median_house_value", "rmse"),
}


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", required=True, help="the folder with the files of TABLES")
    parser.add_argument("--out", required=True, help="the folder for specs, models and results")
    parser.add_argument("--sets", default=",".join(TABLES))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--tune", help="how long a search takes, such as 300s")
    args = parser.parse_args(argv)
    os.makedirs(args.out, exist_ok=True)
    for name in args.sets.split(","):
        seeds = [int(seed) for seed in args.seeds.split(",")]
        line = measure(name, os.path.join(args.data, TABLES[name].file), args.out, seeds, args)
        with open(os.path.join(args.out, "results.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


def measure(
    name: str, rows: str, out: str, seeds: Sequence[int], args: argparse.Namespace
) -> dict[str, Any]:
    """All numbers of one table."""
    table, folder = TABLES[name], os.path.join(out, name)
    line: dict[str, Any] = {"table": name, "chosen_on": table.chosen_on, "metric": table.metric}
    first = os.path.join(folder, "first")
    if not os.path.exists(os.path.join(first, "exp.flags")):
        line["analyze_seconds"] = _run(
            os.path.join(folder, "analyze.txt"),
            "analyze",
            f"--train_files={rows}",
            f"--labels={table.label}",
            f"--analysis_dir={first}",
            f"--convert_dir={first}/data",
            *table.flags,
        )
    flagfile = f"--flagfile={first}/exp.flags"
    results = []
    for seed in seeds:
        model_dir = os.path.join(folder, f"seed_{seed}")
        seconds = _run(
            os.path.join(folder, f"seed_{seed}.txt"),
            "train_and_evaluate",
            flagfile,
            f"--model_dir={model_dir}",
            f"--seed={seed}",
        )
        result = read_result(model_dir)
        assert result is not None
        results.append((seconds, result))
    line["train_seconds"] = [round(seconds, 1) for seconds, _ in results]
    metric = f"{_NAMES.get(table.metric, table.metric)}/{table.label}"
    line["test"] = [_test_metric(result, metric) for _, result in results]
    if len(results) > 1:
        line["mean"] = statistics.mean(line["test"])
    references = results[0][1].reference_models
    line["reference_models"] = references and references.model_dump(mode="json")
    if args.tune:
        search = os.path.join(folder, "search")
        line["tune_seconds"] = _run(
            os.path.join(folder, "search.txt"),
            "tune",
            flagfile,
            f"--search=auto:{args.tune}",
            f"--model_dir={search}",
            f"--seed={seeds[0]}",
        )
        line["trials"] = len(read_search(search).trials)
        best = read_result(os.path.join(search, "best"))
        # The best trial has learned from the evaluation rows too, and is judged by the test rows.
        line["tuned"] = best and _root(best.metrics[metric], metric)
    return line


# The root of this metric is compared.
_NAMES = {"rmse": "mean_squared_error"}


def _test_metric(result: RunResult, metric: str) -> float:
    """The metric of the test rows at the best evaluation."""
    assert result.best is not None
    return _root(result.best.eval_sets["test"].metrics[metric], metric)


def _root(value: Optional[float], metric: str) -> float:
    """A metric of an evaluation in the unit that is compared."""
    assert value is not None
    return math.sqrt(value) if metric.partition("/")[0] in _NAMES.values() else value


def _run(log: str, *command: str) -> float:
    """Runs the program and returns its seconds. Its output is in `log`."""
    os.makedirs(os.path.dirname(log), exist_ok=True)
    began = time.monotonic()
    with open(log, "w", encoding="utf-8") as file:
        done = subprocess.run(
            [sys.executable, os.path.join(ROOT, "run.py"), *command],
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}; see {log}")
    return time.monotonic() - began


if __name__ == "__main__":
    main()
