"""Measures the cost of metrics in an evaluation: batches a second with and without them.

    python benchmarks/metrics.py

It measures only the updates of metrics, on random logits and labels of a binary objective: with the
loss, with all default metrics, with the metrics of the section `metrics`, with metrics of groups,
and with `tf.compat.v1.metrics.auc`. It prints one JSON line for each, and takes half a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import numpy as np
import tensorflow as tf

import estimator_kit.compat  # noqa: F401  # for tf.estimator
import feature_specs
from estimator_kit.model.heads import make_heads
from estimator_kit.model.heads.base import Batch
from estimator_kit.model.heads.streaming import streaming_sum

CHOSEN = [
    "log_loss", "expected_calibration_error", "confusion", {"recall_at_precision": 0.9},
    {"precision_at_recall": 0.5},
]  # fmt: skip
OF_GROUPS = ["gauc", "mrr", {"ndcg": 10}, {"hit_rate": 10}]


def objective(metrics: list[Any]) -> Any:
    groups = {"group_by": "user"} if "gauc" in metrics else {}
    spec = feature_specs.parse(
        {
            "features": {"x": {"dtype": "float32"}, "user": {"dtype": "string"}},
            "columns": {"x": {"numeric": "x"}},
            "groups": {"deep": ["x"]},
            "labels": {"y": {"dtype": "int64"}},
            "objectives": {"y": {"head": "binary", "metrics": metrics, **groups}},
            "ignored": [] if groups else ["user"],
        }
    )
    return make_heads(spec)["y"]


def updates(kind: str, logits: tf.Tensor, labels: tf.Tensor, group: tf.Tensor) -> Any:
    """The ops that a batch of an evaluation runs, and the values at its end."""
    weights = tf.ones_like(labels, tf.float32)
    if kind == "loss alone":
        pairs = [streaming_sum(objective([]).loss(logits, labels, weights), "loss")]
    elif kind == "tf.compat.v1.metrics.auc":
        pairs = [tf.compat.v1.metrics.auc(labels, tf.sigmoid(logits[:, 0]))]
    else:
        chosen = {"default": [], "all chosen": CHOSEN, "groups": OF_GROUPS}[kind]
        made = objective(chosen).metrics(Batch(logits, labels, weights, None, group))
        pairs = list(made.values())
    return [update for _, update in pairs], [value for value, _ in pairs]


def measure(kind: str, *, rows: int, batches: int, heads: int, users: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        shape = (batches, rows)
        data = [
            tf.constant(rng.normal(0, 2, shape).astype("f")),
            tf.constant((rng.random(shape) < 0.1).astype(np.int64)),
            tf.constant(rng.integers(0, 2**62, users)[rng.integers(0, users, shape)]),
        ]
        i = tf.compat.v1.placeholder(tf.int32, [])
        logits, labels, group = (tensor[i] for tensor in data)
        made = []
        for head in range(heads):
            with tf.compat.v1.variable_scope(f"head_{head}"):
                made.append(updates(kind, logits[:, tf.newaxis] + head / 7, labels, group))
        steps, values = [step for step, _ in made], [value for _, value in made]
        session.run(tf.compat.v1.local_variables_initializer())
        session.run([steps, values], {i: 0})
        session.run(tf.compat.v1.local_variables_initializer())
        start = time.perf_counter()
        for number in range(batches):
            session.run(steps, {i: number})
        end_of_rows = time.perf_counter()
        session.run(values)
        end = time.perf_counter()
    return {
        "metrics": kind, "heads": heads, "rows_a_batch": rows,
        "ms_a_batch": round(1e3 * (end_of_rows - start) / batches, 2),
        "ms_at_the_end": round(1e3 * (end - end_of_rows), 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--users", type=int, default=20_000)
    arguments = parser.parse_args()
    for kind in ("loss alone", "default", "all chosen", "groups", "tf.compat.v1.metrics.auc"):
        print(json.dumps(measure(kind, **vars(arguments))), flush=True)


if __name__ == "__main__":
    main()
