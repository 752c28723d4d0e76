"""Importance by shuffling, with models written by hand, so that it is known what they read."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import roc_auc_score

import feature_specs
from estimator_kit.scoring import importance
from input_pipelines.record_files import writing

RNG = np.random.default_rng(11)
ROWS = 1500
SPEC = {
    "features": {
        "strong": {"dtype": "float32"},
        "weak": {"dtype": "float32"},
        "idle": {"dtype": "string"},
        "words": {"dtype": "string", "shape": "variable"},
        "counts": {"dtype": "float32", "shape": "variable"},
    },
    "columns": {
        "strong": {"numeric": "strong"},
        "weak": {"numeric": "weak"},
        "idle": {"hash_bucket": "idle", "size": 10},
        "idle_hot": {"indicator": "idle"},
        "word": {"hash_bucket": "words", "size": 10},
        "weighted_word": {"weighted": "word", "weight": "counts"},
        "word_emb": {"embedding": "weighted_word", "dimension": 2},
    },
    "groups": {"deep": ["strong", "weak", "idle_hot", "word_emb"]},
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}


@pytest.fixture(scope="module")
def spec():
    return feature_specs.parse(SPEC)


@pytest.fixture(scope="module")
def rows():
    found = []
    for _ in range(ROWS):
        strong, weak = RNG.normal(size=2)
        count = int(RNG.integers(0, 4))
        found.append({
            "strong": float(strong), "weak": float(weak), "idle": str(RNG.integers(5)),
            "words": ["w"] * count, "counts": [float(count)] * count,
            "y": int(RNG.random() < 1 / (1 + np.exp(-3 * strong - weak))),
        })  # fmt: skip
    return found


@pytest.fixture(scope="module")
def records(rows, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("importance") / "rows.tfrecord")
    writing.write_examples(path, rows)
    return [record.numpy() for record in tf.data.TFRecordDataset(path)]


def score(record):
    feature = tf.train.Example.FromString(record).features.feature
    value = {name: feature[name].float_list.value[0] for name in ("strong", "weak")}
    # A list always comes with its own weights.
    assert len(feature["words"].bytes_list.value) == len(feature["counts"].float_list.value)
    assert all(
        c == len(feature["counts"].float_list.value) for c in feature["counts"].float_list.value
    )
    return 3 * value["strong"] + value["weak"]


def ask(records):
    return {"y": 1 / (1 + np.exp(-np.array([score(record) for record in records])))}


def test_importance_follows_what_the_model_reads(spec, rows, records):
    found = importance.importance(spec, ask, records)
    assert found.metrics == {"y": "auc"}
    assert (found.rows, found.repeats) == (ROWS, 5)
    features = found.features
    assert list(features) == ["strong", "weak", "idle", "words, counts"]
    assert features["strong"]["y"].mean > 4 * features["weak"]["y"].mean > 0
    for name in ("idle", "words, counts"):  # The model does not read them.
        assert features[name]["y"].values == (0, 0)
    y = [row["y"] for row in rows]
    whole = roc_auc_score(y, [3 * row["strong"] + row["weak"] for row in rows])
    # Without `strong`, only `weak` is left, plus noise that is three times as large.
    order = RNG.permutation(ROWS)
    noisy = [3 * rows[i]["strong"] + row["weak"] for i, row in zip(order, rows)]
    expected = whole - roc_auc_score(y, noisy)
    assert features["strong"]["y"].mean == pytest.approx(expected, abs=0.05)


def test_the_same_seed_gives_the_same_numbers(spec, records):
    first, again = (importance.importance(spec, ask, records[:200], repeats=2) for _ in range(2))
    assert first == again


def test_a_shuffled_feature_has_the_values_of_the_data(spec, records):
    parsed = importance._Records(spec, records)
    order = RNG.permutation(ROWS)
    shuffled = parsed.shuffled(["idle"], order)
    read = [tf.train.Example.FromString(record).features.feature for record in shuffled]
    before = [tf.train.Example.FromString(record).features.feature for record in records]
    assert [r["idle"] for r in read] == [before[i]["idle"] for i in order]
    assert [r["strong"] for r in read] == [b["strong"] for b in before]
    assert [r["y"] for r in read] == [b["y"] for b in before]
