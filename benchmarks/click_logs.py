"""Data for the benchmarks: rows of 13 numbers and 26 categories, as in public click logs.

Each category has 100,000 hexadecimal strings with falling frequency; a record has about 800 bytes.
The data are made once, into a folder that later runs use again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pyarrow as pa
import tensorflow as tf

import estimator_kit as ek
from feature_specs.files import staged
from input_pipelines.prepare.convert.encoding import Encoder
from input_pipelines.prepare.convert.fields import Field
from input_pipelines.record_files.framing import framed

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
            made = columns(rows // SHARDS, seed=i)
            write(path, made | _words(rows // SHARDS, seed=i) if lists else made)
    return paths


def write(path: str, columns: Mapping[str, Any]) -> None:
    """Writes columns of numbers (float32, int64), of bytes, or of lists of bytes as records."""
    batch = pa.RecordBatch.from_pydict({name: pa.array(made) for name, made in columns.items()})
    fields = [Field(name, _dtype(made), isinstance(made, list)) for name, made in columns.items()]
    with staged.file(path) as temporary:
        Path(temporary).write_bytes(framed(Encoder(fields).encode(batch).to_pylist()))


def _dtype(made: Any) -> str:
    return "string" if isinstance(made, list) or made.dtype.kind == "S" else str(made.dtype)


def _words(count: int, seed: int) -> dict[str, Any]:
    """Lists of 0 to 5 words."""
    random = np.random.default_rng(1000 + seed)
    words = (random.uniform(size=(len(LISTS), count, 8)) ** 2 * 10_000).astype(np.int64)
    lengths = random.integers(0, 6, size=(len(LISTS), count))
    return {
        name: [[b"%05x" % word for word in row[:k]] for row, k in zip(words[i], lengths[i])]
        for i, name in enumerate(LISTS)
    }


def columns(count: int, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    numbers = random.exponential(3.0, (count, len(NUMBERS))).astype(np.float32)
    # Low numbers are frequent: the square of a uniform number.
    values = (random.uniform(size=(count, len(CATEGORIES))) ** 2 * BUCKETS).astype(np.int64)
    score = numbers[:, 0] - 3.0 + (values[:, 0] % 7 == 0) * 2.0
    clicks = random.uniform(size=count) < 1 / (1 + np.exp(-score))
    return {
        **{name: numbers[:, i] for i, name in enumerate(NUMBERS)},
        **{name: hexadecimal(values[:, i] * 40503 + i) for i, name in enumerate(CATEGORIES)},
        "click": clicks.astype(np.int64),
    }


def hexadecimal(numbers: np.ndarray) -> np.ndarray:
    """The last 32 bits of each number as eight digits, bytes."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    places = numbers[:, None] >> np.arange(28, -4, -4) & 15
    return digits[places].view("S8")[:, 0]


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


def canned_input_fn(
    paths: list[str], batch_size: int, the_spec, *, epochs: Optional[int] = None, shuffle=True
):
    """The input that canned estimators are usually given: TensorFlow's own, of tf.Examples."""
    features = ek.make_parse_example_spec(the_spec)
    return lambda: tf.data.experimental.make_batched_features_dataset(
        paths,
        batch_size,
        features,
        label_key="click",
        num_epochs=epochs,
        shuffle=shuffle,
        shuffle_buffer_size=10_000,
        reader_num_threads=2,
        parser_num_threads=2,
        sloppy_ordering=shuffle,
    )
