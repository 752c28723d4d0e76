"""AUC where users and items come and go: growing ids compared with tables of the same size.

    python benchmarks/growing_quality.py --data ml100k.csv [--seeds 5]

The file has the columns user_id, item_id, rating and timestamp, such as MovieLens 100K, whose users
rate within some days and never come again. A model reads the rows once in the order of time, in
batches of 64. It predicts a rating of 4 or more before it learns from it, so each row is judged by
a model that has only seen earlier ones (progressive validation). The AUC leaves out the first
fifth. `new` are the rows of users with 10 to 49 earlier rows. Each table has --size rows.

    hash_bucket   one bucket for each hash
    vocabulary    the most frequent values of the first fifth, and one row for all others
    all           a row for each value of the file, which nobody knows beforehand
    oldest        growing: 3 of 4 rows for single values, the rest are buckets; evict: oldest
    rarest        the same with evict: rarest
"""

from __future__ import annotations

import argparse
import collections
import csv
import json
import os
import statistics

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import estimator_kit as ek  # isort: skip
import numpy as np
import tensorflow as tf
from sklearn.metrics import roc_auc_score

from estimator_kit.tf_estimator import ModeKeys

V1, BATCH = tf.compat.v1, 64


class Model(ek.ModelFn):
    """A linear model and a small network over both embeddings. It keeps its logits."""

    def logits(self, features, mode):
        dense = self.dense_input(features, "deep")
        deep = ek.dense_layer(ek.dense_layer(dense, 32, "hidden", tf.nn.relu), 1, "logits")
        self.kept = deep + self.linear_logits(features, "wide")
        return self.kept


def column_of(kind: str, values: np.ndarray, size: int):
    """The column over `x`, and the ids or keys of the values."""
    if kind in ("oldest", "rarest"):
        rows = size * 3 // 4
        options = {"min_count": 3, "admit_every": 1, "evict_every": 20, "evict": kind}
        return {"growing": "x", "rows": rows, "buckets": size - rows, **options}, values
    if kind == "hash_bucket":
        text = tf.strings.as_string(values)
        ids, number = tf.strings.to_hash_bucket_fast(text, size).numpy(), size
    else:
        first = values if kind == "all" else values[: len(values) // 5]
        most = None if kind == "all" else size - 1
        words = [value for value, _ in collections.Counter(first.tolist()).most_common(most)]
        places = {word: i for i, word in enumerate(words)}
        ids = np.array([places.get(value, len(words)) for value in values.tolist()])
        number = len(words) + 1
    return {"identity": "x", "size": number}, ids


def auc_of(kind: str, size: int, data: dict[str, np.ndarray], seed: int) -> tuple[float, float]:
    columns, fed = {}, {}
    for name in ("user", "item"):
        column, fed[name] = column_of(kind, data[name], size)
        columns[name] = {**column, next(iter(column)): f"{name}_id"}
        small = {"normal": {"stddev": 0.01}}
        columns[f"{name}_emb"] = {"embedding": name, "dimension": 8, "initializer": small}
    spec = ek.parse_spec(
        {
            "features": {f"{name}_id": {"dtype": "int64"} for name in ("user", "item")},
            "columns": columns,
            "groups": {"wide": ["user", "item"], "deep": ["user_emb", "item_emb"]},
            "labels": {"y": {"dtype": "int64"}},
            "objectives": {"y": {"head": "binary"}},
        }
    )
    logits = []
    with tf.Graph().as_default():
        V1.set_random_seed(seed)
        inputs = {name: V1.placeholder(tf.int64, [None]) for name in fed}
        label = V1.placeholder(tf.int64, [None])
        V1.train.get_or_create_global_step()
        model = Model(spec, {"optimizer": "adagrad", "learning_rate": 0.2})
        made = model(dict(inputs), {"y": label}, ModeKeys.TRAIN)
        with V1.Session() as session:
            session.run([V1.global_variables_initializer(), V1.local_variables_initializer()])
            session.run(V1.tables_initializer())
            for start in range(0, len(data["y"]), BATCH):
                here = slice(start, start + BATCH)
                batch = {inputs[name]: fed[name][here] for name in fed}
                found, _ = session.run(
                    [model.kept, made.train_op], {**batch, label: data["y"][here]}
                )
                logits.append(found.ravel())
    score, judged = np.concatenate(logits), np.arange(len(data["y"])) >= len(data["y"]) // 5
    new = judged & (data["before"] >= 10) & (data["before"] < 50)
    return tuple(roc_auc_score(data["y"][rows], score[rows]) for rows in (judged, new))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--size", default="300,1000")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    with open(options.data, newline="", encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["timestamp"]))
    data = {name: np.array([int(row[f"{name}_id"]) for row in rows]) for name in ("user", "item")}
    data["y"] = np.array([int(float(row["rating"]) >= 4) for row in rows])
    seen: collections.Counter[int] = collections.Counter()
    before = []
    for user in data["user"].tolist():
        before.append(seen[user])
        seen[user] += 1
    data["before"] = np.array(before)
    for size in map(int, options.size.split(",")):
        for kind in ("hash_bucket", "vocabulary", "oldest", "rarest", "all"):
            found = [auc_of(kind, size, data, seed) for seed in range(1, options.seeds + 1)]
            line = {"rows": size, "kind": kind}
            for name, values in zip(("auc", "auc_of_new_users"), zip(*found)):
                line[name] = round(statistics.median(values), 4)
                line[f"{name}_spread"] = round(max(values) - min(values), 4)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
