"""A month of retraining where items come and go: growing ids, a hash, and a vocabulary.

    python benchmarks/growing_month.py [--days 28] [--kinds hash,vocabulary,growing]

Each day 150 items are born, and 50 of 1,000 users change. An item is shown for a week, less every
day. A click depends on an effect of its item and one of its user, which no feature shows. Every
night `retrain` trains from the live model on the newest three days, judges the candidate on the day
after them, and publishes it or not. Then the live model answers the next day, as a server would.
`auc_new` is the AUC of the items that were born that day or the day before it.

    hash         1,500 ids for the items
    vocabulary   the words of every window are appended (`vocabularies: append`)
    growing      1,200 rows and 300 buckets; the oldest items go

`own` is the share of the next day's rows whose item shares its id with no other item so far.
`table_rows` are the rows of the item's table. Each kind prints one line for each night, and a line
with the medians of the second half.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import os
import statistics
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import estimator_kit as ek  # isort: skip
import numpy as np
import tensorflow as tf
from sklearn.metrics import roc_auc_score

from input_pipelines.record_files import writing

ROWS, BORN, WEEK, USERS, CHANGED = 12_000, 150, 7, 1000, 50
FIRST, WINDOW = datetime.date(2026, 1, 1), 3
COLUMNS = {
    "hash": {"hash_bucket": "item", "size": 1500},
    "vocabulary": {"vocabulary": "item", "file": "items.txt", "oov_buckets": 1},
    "growing": {
        "growing": "item", "rows": 1200, "buckets": 300, "min_count": 2, "admit_every": 20,
        "evict_every": 100,
    },
}  # fmt: skip
Row = dict[str, object]


def days_of(count: int) -> list[list[Row]]:
    random = np.random.default_rng(7)
    items = random.normal(size=BORN * (count + WEEK))
    user_of, effects, days = np.arange(USERS), random.normal(size=USERS) * 0.5, []
    for day in range(count):
        for place in random.integers(0, USERS, CHANGED):
            user_of[place], effects = len(effects), np.append(effects, random.normal() * 0.5)
        age = random.choice(WEEK, ROWS, p=np.arange(WEEK, 0, -1) / 28)
        item = (day + WEEK - 1 - age) * BORN + random.integers(0, BORN, ROWS)
        user = user_of[random.integers(0, USERS, ROWS)]
        clicks = random.random(ROWS) < 1 / (1 + np.exp(1.5 - items[item] - effects[user]))
        days.append(
            [
                {"item": f"i{i}", "user": f"u{u}", "click": int(c), "age": int(a)}
                for i, u, c, a in zip(item, user, clicks, age)
            ]
        )
    return days


def spec_of(kind: str) -> Row:
    return {
        "features": {name: {"dtype": "string"} for name in ("item", "user")},
        "columns": {
            "item": COLUMNS[kind],
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
                "bootstrap": {"samples": 200},
                "conditions": [{"metric": "auc/click", "max_loss": 0.01}],
            },
        },
    }  # fmt: skip


def own_share(kind: str, seen: set[str], rows: list[Row], folder: Path, export: str) -> float:
    """The share of rows whose item shares its id with no other."""
    names = [str(row["item"]) for row in rows]
    if kind == "growing":
        reader = tf.train.load_checkpoint(f"{export}/variables/variables")
        keys = set(reader.get_tensor("growing/item/keys").tolist())
        number = (2**63 - 1) // 300 * 300
        hashed = tf.strings.to_hash_bucket_fast(names, number).numpy().tolist()
        return float(np.mean([key in keys for key in hashed]))
    if kind == "vocabulary":
        words = Path(export, "assets.extra/feature_spec").rglob("items*.txt")
        known = set(next(words).read_text().split())
        return float(np.mean([name in known for name in names]))
    every = sorted(seen | set(names))
    buckets = tf.strings.to_hash_bucket_fast(every, 1500).numpy().tolist()
    place, number = dict(zip(every, buckets)), collections.Counter(buckets)
    return float(np.mean([number[place[name]] == 1 for name in names]))


def auc_of(export: str, rows: list[Row]) -> tuple[float, float]:
    serving = tf.saved_model.load(export).signatures["predict_examples"]
    records = [writing.example(row).SerializeToString() for row in rows]
    logits = serving(examples=tf.constant(records))["click/logits"].numpy()[:, 0]
    clicks = np.array([row["click"] for row in rows])
    new = np.array([row["age"] < 2 for row in rows])
    return roc_auc_score(clicks, logits), roc_auc_score(clicks[new], logits[new])


def month(kind: str, days: list[list[Row]], folder: Path) -> None:
    (folder / "items.txt").write_text("i0\n")
    (folder / "spec.json").write_text(json.dumps(spec_of(kind)))
    lines, seen = [], set()
    for number, rows in enumerate(days[:-1]):
        date = FIRST + datetime.timedelta(number)
        place = folder / f"data/dt={date}"
        place.mkdir(parents=True)
        kept = [{key: value for key, value in row.items() if key != "age"} for row in rows]
        ek.write_examples(f"{place}/rows.tfrecord", kept)
        (place / "_SUCCESS").touch()
        seen |= {str(row["item"]) for row in rows}
        if number < WINDOW:
            continue
        ek.run(
            ek.ExperimentConfig(
                mode="retrain", spec=f"{folder}/spec.json", model="wide_deep",
                train_files=(f"{folder}/data/dt=*/*.tfrecord",), window=f"{WINDOW}d", epochs=2,
                eval_window="1d", as_of=str(date), model_dir=f"{folder}/runs", batch_size=64,
                serving_dir=f"{folder}/live", min_count=2, report="off", window_min=("100rows",),
                model_params={
                    "hidden_units": [16], "learning_rate": 0.1, "linear_learning_rate": 0.3
                },
            )
        )  # fmt: skip
        versions = sorted(int(each.name) for each in Path(folder, "live").glob("[0-9]*"))
        if not versions:  # The first candidate was refused.
            continue
        export = f"{folder}/live/{versions[-1]}"
        auc, new = auc_of(export, days[number + 1])
        shapes = dict(tf.train.list_variables(f"{export}/variables/variables"))
        (table,) = [s for n, s in shapes.items() if n.endswith("item_embedding/embedding_weights")]
        line = {
            "kind": kind, "night": number - WINDOW + 1, "version": versions[-1],
            "auc": round(auc, 4), "auc_new": round(new, 4), "table_rows": table[0],
            "own": round(own_share(kind, seen, days[number + 1], folder, export), 3),
            "export_bytes": sum(f.stat().st_size for f in Path(export).rglob("*") if f.is_file()),
        }  # fmt: skip
        lines.append(line)
        print(json.dumps(line), flush=True)
    half = lines[len(lines) // 2 :]
    medians = {
        name: round(statistics.median(line[name] for line in half), 4)
        for name in ("auc", "auc_new", "own")
    }
    promoted = len({line["version"] for line in lines})
    rows = [lines[0]["table_rows"], lines[-1]["table_rows"]]
    line = {"kind": kind, "nights": len(lines), "promoted": promoted, **medians, "rows": rows}
    print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=28)
    parser.add_argument("--kinds", default="hash,vocabulary,growing")
    options = parser.parse_args()
    days = days_of(options.days + WINDOW + 1)
    for kind in options.kinds.split(","):
        with tempfile.TemporaryDirectory() as folder:
            month(kind, days, Path(folder))


if __name__ == "__main__":
    main()
