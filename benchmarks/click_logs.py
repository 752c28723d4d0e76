"""Data for the benchmarks: rows of 13 numbers and 26 categories, as in public click logs.

Each category has 100,000 hexadecimal strings with falling frequency; a record has about 800 bytes.
The data are made once, into a folder that later runs use again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import estimator_kit as ek

NUMBERS = [f"n{i}" for i in range(13)]
CATEGORIES = [f"c{i}" for i in range(26)]
LISTS = ["m0", "m1"]
BUCKETS, DIMENSION = 100_000, 16
SHARDS = 8


def generate(folder: str, rows: int, *, lists: bool = False) -> list[str]:
    """The paths of the shards, written if they are not there yet; `lists` adds two of words."""
    kind = "lists-" if lists else ""
    paths = [str(Path(folder, f"{kind}{rows}-{i}-of-{SHARDS}.tfrecord")) for i in range(SHARDS)]
    for i, path in enumerate(paths):
        if not Path(path).exists():
            made = _rows(rows // SHARDS, seed=i)
            ek.write_examples(path, _with_lists(made, seed=i) if lists else made)
    return paths


def _with_lists(rows, seed: int):
    random = np.random.default_rng(1000 + seed)
    for row in rows:
        words = (random.uniform(size=(2, 8)) ** 2 * 10_000).astype(np.int64)
        lengths = random.integers(0, 6, size=len(LISTS))
        yield {
            **row,
            **{n: [f"{w:05x}" for w in ws[:k]] for n, ws, k in zip(LISTS, words, lengths)},
        }


def _rows(count: int, seed: int):
    random = np.random.default_rng(seed)
    numbers = random.exponential(3.0, (count, len(NUMBERS)))
    # Low numbers are frequent: the square of a uniform number.
    values = (random.uniform(size=(count, len(CATEGORIES))) ** 2 * BUCKETS).astype(np.int64)
    score = numbers[:, 0] - 3.0 + (values[:, 0] % 7 == 0) * 2.0
    clicks = random.uniform(size=count) < 1 / (1 + np.exp(-score))
    for row, click in enumerate(clicks):
        yield {
            **{name: float(numbers[row, i]) for i, name in enumerate(NUMBERS)},
            **{name: f"{values[row, i] * 40503 + i:08x}" for i, name in enumerate(CATEGORIES)},
            "click": int(click),
        }


def spec():
    """The feature spec: numbers after log1p, and an embedding of each category."""
    return ek.parse_spec(document())


def document() -> dict[str, Any]:
    """`spec` before it is parsed, to add to."""
    return {
        "features": {
            **{name: {"dtype": "float32", "default": 0.0} for name in NUMBERS},
            **{name: {"dtype": "string", "default": ""} for name in CATEGORIES},
        },
        "columns": {
            **{name: {"numeric": name, "normalizer": "log1p"} for name in NUMBERS},
            **{f"{name}_id": {"hash_bucket": name, "size": BUCKETS} for name in CATEGORIES},
            **{
                f"{name}_emb": {"embedding": f"{name}_id", "dimension": DIMENSION}
                for name in CATEGORIES
            },
        },
        "groups": {"deep": [*NUMBERS, *(f"{name}_emb" for name in CATEGORIES)]},
        "labels": {"click": {"dtype": "int64"}},
        "objectives": {"click": {"head": "binary"}},
    }


def canned_input_fn(paths: list[str], batch_size: int, the_spec):
    """The input that canned estimators are usually given: TensorFlow's own, of tf.Examples."""
    features = ek.make_parse_example_spec(the_spec)
    return lambda: tf.data.experimental.make_batched_features_dataset(
        paths,
        batch_size,
        features,
        label_key="click",
        shuffle_buffer_size=10_000,
        reader_num_threads=2,
        parser_num_threads=2,
        sloppy_ordering=True,
    )
