"""Synthetic rows of the shape of Criteo's public log, and the model that DeepRec published for it.

The numbers of values and the ranges are from DeepRec's page on WDL (modelzoo/wide_and_deep): 13
numbers, and 26 categories with 3 to 2.6 million values. Small ids are frequent (log-uniform). Every
row also has `truth`, its true probability of a click, which no model reads: so the best possible
AUC is known.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click_logs
import numpy as np

import estimator_kit as ek

BATCH = 512
UNITS = (1024, 512, 256)
RATE, LINEAR_RATE = 0.01, 0.2  # Of Adagrad for the DNN, and of FTRL for the linear part.
BUCKETS = 10_000  # Of every category, as published.
LARGEST = [1539, 22066, 65535, 561, 2655388, 233523, 26279, 5106, 24376, 9, 181, 1807, 6879]
VALUES = [1396, 553, 2594031, 698469, 290, 23, 12048, 608, 3, 65156, 5309, 2186509, 3128,
          26, 12750, 1537323, 10, 5002, 2118, 4, 1902327, 17, 15, 135790, 94, 84305]  # fmt: skip
NUMBERS = {f"I{i + 1}": most for i, most in enumerate(LARGEST)}
CATEGORIES = {f"C{i + 1}": count for i, count in enumerate(VALUES)}
# 128 where there are many values, 64 elsewhere, as published.
DIMENSIONS = {name: 128 if count > 60_000 else 64 for name, count in CATEGORIES.items()}


def spec():
    """The feature spec: all columns are in both parts, as published."""
    ids = {f"{name}_id": {"hash_bucket": name, "size": BUCKETS} for name in CATEGORIES}
    vectors = {
        f"{name}_emb": {"embedding": f"{name}_id", "dimension": dimension}
        for name, dimension in DIMENSIONS.items()
    }
    numbers = {
        f"{name}_n": {"numeric": name, "normalizer": {"minmax": {"min": 0, "max": most}}}
        for name, most in NUMBERS.items()
    }
    features = {name: {"dtype": "float32", "default": 0.0} for name in NUMBERS}
    words = {name: {"dtype": "string", "default": ""} for name in CATEGORIES}
    return ek.parse_spec({
        "features": features | words,
        "columns": ids | vectors | numbers,
        "groups": {"deep": [*numbers, *vectors], "wide": [*numbers, *ids]},
        "labels": {"click": {"dtype": "int64"}},
        "objectives": {"click": {"head": "binary"}},
    })  # fmt: skip


def generate(folder: str, rows: int, shards: int) -> list[str]:
    """The paths of the shards, written if they do not exist."""
    paths = [str(Path(folder, f"wdl-{rows}-{i}-of-{shards}.tfrecord")) for i in range(shards)]
    for i, path in enumerate(paths):
        if not Path(path).exists():
            click_logs.write(path, columns(rows // shards, seed=i))
    return paths


def columns(count: int, seed: int) -> dict[str, Any]:
    """Columns of `count` rows, with the label and the truth."""
    random = np.random.default_rng(seed)
    numbers = np.expm1(random.uniform(size=(count, 13)) * np.log1p(LARGEST)).astype(np.float32)
    values = np.expm1(random.uniform(size=(count, 26)) * np.log1p(VALUES)).astype(np.int64)
    truth = 1 / (1 + np.exp(-_score(numbers, values)))
    return {
        **{name: numbers[:, i] for i, name in enumerate(NUMBERS)},
        **{
            name: click_logs.hexadecimal(values[:, i] * 40503 + i)
            for i, name in enumerate(CATEGORIES)
        },
        "click": (random.uniform(size=count) < truth).astype(np.int64),
        "truth": truth.astype(np.float32),
    }


def _score(numbers: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The true logit: each value has an effect, and so have pairs of values, and two numbers."""
    single = np.sin(12.9898 * (values + 1) * (np.arange(26) + 1)).sum(axis=1)
    # C6, C9, C14, C17, C20, C22 and C23 have few values.
    few = values[:, [5, 8, 13, 16, 19, 21, 22]]
    pairs = np.sin(78.233 * (few[:, :-1] * 31 + few[:, 1:] + 1)).sum(axis=1)
    curved = np.cos(numbers[:, 9] / 2) + numbers[:, 0] / 1539
    return -1.2 + 0.4 * single + 0.6 * pairs + 0.5 * curved


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """The probability that a click has a higher score than another row; ties count half."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    clicks = labels.sum()
    return float(
        (ranks[labels == 1].sum() - clicks * (clicks + 1) / 2) / (clicks * (len(labels) - clicks))
    )
