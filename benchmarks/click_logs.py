"""Data of the benchmarks: rows of 13 numbers and 26 categories, as in public click logs.

The categories are hexadecimal strings of 100,000 values each, drawn with a falling frequency; a
record has about 800 bytes. Made once, into a folder that is reused.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

import estimator_kit as ek

NUMBERS = [f"n{i}" for i in range(13)]
CATEGORIES = [f"c{i}" for i in range(26)]
BUCKETS, DIMENSION = 100_000, 16
SHARDS = 8


def generate(folder: str, rows: int) -> list[str]:
    """The paths of the shards, written if they are not there yet."""
    paths = [str(Path(folder, f"{rows}-{i}-of-{SHARDS}.tfrecord")) for i in range(SHARDS)]
    for i, path in enumerate(paths):
        if not Path(path).exists():
            ek.write_examples(path, _rows(rows // SHARDS, seed=i))
    return paths


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
    document = {
        "features": {
            **{name: {"dtype": "float32", "default": 0.0} for name in NUMBERS},
            **{name: {"dtype": "string", "default": ""} for name in CATEGORIES},
        },
        "columns": {
            **{name: {"numeric": name, "normalizer": "log1p"} for name in NUMBERS},
            **{name: {"hash_bucket": name, "size": BUCKETS} for name in CATEGORIES},
            **{f"{name}_emb": {"embedding": name, "dimension": DIMENSION} for name in CATEGORIES},
        },
        "groups": {"deep": [*NUMBERS, *(f"{name}_emb" for name in CATEGORIES)]},
        "labels": {"click": {"dtype": "int64"}},
        "objectives": {"click": {"head": "binary"}},
    }
    return ek.parse_spec(document)


def canned_input_fn(paths: list[str], batch_size: int):
    """The input that canned estimators are usually given: TensorFlow's own, of tf.Examples."""
    features = ek.make_parse_example_spec(spec())
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
