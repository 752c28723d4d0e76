"""The two readings of a spec agree: ids bit for bit, dense values and gradients to 1e-6.

The reference is `tf.feature_column` with the input layers of canned estimators.
"""

from __future__ import annotations

import random
from typing import Any

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

import feature_specs
from estimator_kit.model import input_layer
from feature_specs.reference import columns
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform

# The layers of tf.feature_column call a method that TensorFlow has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:`layer.add_variable` is deprecated:UserWarning")

WORDS = ["a", "b", "c", "ü", "long word", "zz"]


def document(rng: random.Random, directory) -> dict[str, Any]:
    """A spec with every column kind in both groups, and random details."""
    (directory / "words.txt").write_text("\n".join(WORDS[:4]) + "\n", encoding="utf-8")
    boundaries = sorted(rng.sample(range(-5, 6), rng.randint(1, 4)))
    combiner = rng.choice(["mean", "sum", "sqrtn"])
    filled, own_bucket = rng.choice([{}, {"missing": 2}]), {"missing": "own_bucket"}
    out_of_vocabulary = rng.choice([{}, {"oov_buckets": 2}, {"default_id": 1}])
    embedded = {
        "s_hash": 3, "s_list": 2, "s_file": 2, "i_id": 2, "i_hash": 2, "i_words": 2, "m_hash": 3,
        "m_list": 2, "n_id": 2, "x_buckets": 2, "cross": 3, "cross_lists": 2, "cross_columns": 2,
        "v_buckets": 2, "i_buckets": 2, "k_weighted": 3, "cross_many": 2,
    }  # fmt: skip
    cols: dict[str, Any] = {
        "x_raw": {
            "numeric": "x",
            "normalizer": ["log1p", {"clip": {"min": -1, "max": 2}}],
            **filled,
        },
        "v_raw": {"numeric": "v", "normalizer": {"zscore": {"mean": 0.5, "stddev": 2.0}}, **filled},
        "x_buckets": {
            "bucketized": "x_raw",
            "boundaries": boundaries,
            **rng.choice([{}, own_bucket]),
        },
        "i_buckets": {"bucketized": "i", "boundaries": boundaries, **own_bucket},
        "s_hash": {"hash_bucket": "s", "size": rng.randint(2, 30)},
        "s_list": {"vocabulary": "s2", "list": WORDS[: rng.randint(2, 4)], **out_of_vocabulary},
        "s_file": {"vocabulary": "s3", "file": "words.txt", **out_of_vocabulary},
        "i_id": {"identity": "i", "size": 6, "default_id": rng.randint(0, 5)},
        "i_hash": {"hash_bucket": "i2", "size": rng.randint(2, 30)},
        "i_words": {"vocabulary": "i3", "list": [3, 1, 2], "oov_buckets": rng.randint(0, 2)},
        "m_hash": {"hash_bucket": "m", "size": rng.randint(2, 30)},
        "m_list": {"vocabulary": "m2", "list": WORDS[:3], **out_of_vocabulary},
        "n_id": {"identity": "n", "size": 5, "default_id": 2},
        "cross": {"crossed": ["s", "i", "x_buckets"], "size": rng.randint(2, 50)},
        "cross_lists": {"crossed": ["s", "m", "s_list"], "size": 40, "hash_key": 7},
        "cross_columns": {"crossed": ["i_id", "s_file"], "size": 40},
        "v_buckets": {
            "bucketized": "v_raw",
            "boundaries": boundaries,
            **rng.choice([{}, own_bucket]),
        },
        "cross_many": {"crossed": ["v_buckets", "i_id"], "size": 40},
        "k_words": {"vocabulary": "k", "list": WORDS[:3], **out_of_vocabulary},
        "k_weighted": {"weighted": "k_words", "weight": "k_weights"},
        "k_sums": {"indicator": "k_weighted"},
        "t_m": {"hash_bucket": "m", "size": 9},
        "t_s": {"hash_bucket": "s2", "size": 9},
        "t_m_emb": {"embedding": "t_m", "combiner": combiner, "table": "table"},
        "t_s_emb": {"embedding": "t_s", "combiner": combiner, "table": "table"},
        "w_raw": {"numeric": "w"},
        "m_counts": {"indicator": "m_hash"},
        "s_one_hot": {"indicator": "s_list"},
    }
    for name, dimension in embedded.items():
        cols[f"{name}_emb"] = {"embedding": name, "dimension": dimension, "combiner": combiner}
    cols["s_hash_emb"]["max_norm"] = cols["m_hash_emb"]["max_norm"] = 1.0
    missing_int = rng.choice([-1, 3])
    missing_text = rng.choice(["", "a"])
    string = {"dtype": "string", "default": missing_text}
    integer = {"dtype": "int64", "default": missing_int}
    return {
        "features": {
            "x": {"dtype": "float32", "default": 0.0},
            "v": {"dtype": "float32", "shape": [3], "default": 1.5},
            "s": string,
            "s2": string,
            "s3": string,
            "i": integer,
            "i2": integer,
            "i3": integer,
            "m": {"dtype": "string", "shape": "variable"},
            "m2": {"dtype": "string", "shape": "variable"},
            "n": {"dtype": "int64", "shape": "variable"},
            "k": {"dtype": "string", "shape": "variable"},
            "k_weights": {"dtype": "float32", "shape": "variable"},
            "w": {"dtype": "float32", "shape": [2, 2], "default": -0.5},
        },
        "embedding_tables": {"table": {"dimension": 2}},
        "columns": cols,
        "groups": {
            "wide": ["x_raw", "v_raw", "w_raw", *embedded],
            "deep": ["x_raw", "v_raw", "w_raw", "x_buckets", "v_buckets", "m_counts", "s_one_hot"]
            + ["k_sums", "t_m_emb", "t_s_emb"]
            + [f"{name}_emb" for name in embedded],
        },
        "labels": {"y": {"dtype": "int64"}},
        "objectives": {"y": {"head": "binary"}},
    }


word = st.sampled_from([*WORDS, "", "ß?", "\x00", "日本"])
integer = st.sampled_from([-7, -1, 0, 1, 2, 3, 4, 5, 6, 2**40])
number = st.floats(-0.5, 8, width=32)


weighted = st.lists(
    st.tuples(word, st.sampled_from([-1.0, 0.0, 0.5, 1.0, 3.0])), max_size=4
)  # fmt: skip


def maybe(strategy):
    return st.none() | strategy


row = st.fixed_dictionaries(
    {
        "x": maybe(number), "v": maybe(st.lists(number, min_size=3, max_size=3)),
        "s": maybe(word), "s2": maybe(word), "s3": maybe(word),
        "i": maybe(integer), "i2": maybe(integer), "i3": maybe(integer),
        "m": maybe(st.lists(word, max_size=4)), "m2": maybe(st.lists(word, max_size=4)),
        "n": maybe(st.lists(integer, max_size=4)),
        "k and k_weights": weighted,
        "w": maybe(st.lists(number, min_size=4, max_size=4)),
    }
)  # fmt: skip


def unzipped(row):
    """A drawn row with its words and their weights as two features of equal length."""
    row = dict(row)
    pairs = row.pop("k and k_weights", [])
    return {**row, "k": [word for word, _ in pairs], "k_weights": [w for _, w in pairs]}


class Reading:
    """One reading of a spec as a graph: from records to dense input, logits and all gradients."""

    def __init__(self, read, spec):
        with tf.Graph().as_default() as graph:
            self._examples = tf.compat.v1.placeholder(tf.string, [None])
            dense, logits = read(spec, self._examples)
            self._variables = {v.op.name: v for v in tf.compat.v1.trainable_variables()}
            # A linear loss with a different factor for every cell, so that the gradients contain no
            # rounding errors of the loss.
            cells = tf.concat([tf.reshape(dense, [-1]), tf.reshape(logits, [-1])], axis=0)
            parts = tf.range(tf.cast(tf.size(cells), tf.float32)) * 0.01 + 0.5
            loss = tf.reduce_sum(cells * parts)
            gradients = tf.gradients(loss, list(self._variables.values()))
            named = {n: tf.convert_to_tensor(g) for n, g in zip(self._variables, gradients)}
            self._outputs = dense, logits, named
            self._session = tf.compat.v1.Session(graph=graph)
            self._session.run(tf.compat.v1.global_variables_initializer())
            self._session.run(tf.compat.v1.tables_initializer())
        self.shapes = {n: tuple(v.shape.as_list()) for n, v in self._variables.items()}

    def set_variables(self, values):
        for name, variable in self._variables.items():
            self._session.run(variable.initializer, {variable.initializer.inputs[1]: values[name]})

    def run(self, rows):
        examples = [writing.example(unzipped(row)).SerializeToString() for row in rows]
        return self._session.run(self._outputs, {self._examples: examples})


class Readings:
    """Both readings of a spec. They share the values of the reference's variables, by name."""

    def __init__(self, document, directory):
        spec = feature_specs.parse(document, directory=directory)
        self.reference, self.fast = Reading(_reference, spec), Reading(_fast, spec)
        assert self.fast.shapes == self.reference.shapes
        rng = np.random.default_rng(0)
        values = {n: rng.normal(size=s).astype("f") for n, s in self.reference.shapes.items()}
        self.reference.set_variables(values)
        self.fast.set_variables(values)

    def compare(self, rows):
        assert_agree(self.reference.run(rows), self.fast.run(rows))


def _reference(spec, examples):
    parsed = tf.io.parse_example(examples, columns.feature_parse_dict(spec, sparse=True))
    # The layer of canned estimators, which puts its own name into the names of variables.
    deep = columns.feature_columns(spec, "deep")
    dense = tf.compat.v1.keras.layers.DenseFeatures(deep, name=input_layer.DNN_SCOPE)(parsed)
    logits = tf.compat.v1.feature_column.linear_model(
        parsed, columns.feature_columns(spec, "wide"), units=2
    )
    return dense, logits


def _fast(spec, examples):
    features = Transform(spec).features(examples)
    dense = input_layer.dense_input(spec, "deep", features)
    return dense, input_layer.linear_logits(spec, "wide", features, units=2)


def assert_agree(reference, fast):
    np.testing.assert_allclose(fast[0], reference[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(fast[1], reference[1], rtol=1e-5, atol=1e-5)
    assert set(fast[2]) == set(reference[2])
    for name, gradient in reference[2].items():
        scale = max(1.0, float(np.abs(gradient).max()))
        np.testing.assert_allclose(fast[2][name] / scale, gradient / scale, atol=1e-6, err_msg=name)


def search(readings, examples):
    """Compares `examples` batches of records, drawn with a fixed seed, over all `readings`."""

    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],  # Shrinking is slow.
        derandomize=True,
        database=None,
    )
    @hypothesis.given(
        place=st.integers(0, len(readings) - 1), rows=st.lists(row, min_size=1, max_size=12)
    )
    def agree(place, rows):
        readings[place].compare(rows)

    agree()


def random_specs(directory, seeds):
    for seed in seeds:
        (directory / str(seed)).mkdir()
        yield document(random.Random(seed), directory / str(seed)), directory / str(seed)


@pytest.mark.ci
def test_random_specs_and_records_agree(tmp_path):
    search([Readings(*spec) for spec in random_specs(tmp_path, [0])], examples=10)


@pytest.mark.nightly
# Words outside a vocabulary get bucket ids in specs 0 and 2, no id in 1, and one id in 7.
@pytest.mark.parametrize("seeds", [(1, 7), (2, 3, 4, 5, 6, 8, 9)])
def test_many_random_specs_and_records_agree(tmp_path, seeds):
    search([Readings(*spec) for spec in random_specs(tmp_path, seeds)], examples=500)


@pytest.mark.parametrize("broken", ["to_hash_bucket_fast", "unsorted_segment_sum", "cumsum"])
def test_the_comparison_notices_a_reading_that_is_broken(tmp_path, monkeypatch, broken):
    owner = {"to_hash_bucket_fast": tf.strings, "cumsum": tf}.get(broken, tf.math)
    right = getattr(owner, broken)

    def wrong(values, *arguments, **kwargs):
        if broken == "to_hash_bucket_fast":
            return (right(values, *arguments) + 1) % arguments[0]
        found = right(values, *arguments)
        if broken == "cumsum":  # All values of lists are in the first row.
            return tf.zeros_like(found)
        return found * 1.01 if found.dtype.is_floating else found

    monkeypatch.setattr(owner, broken, wrong)
    some = document(random.Random(1), tmp_path)
    some["groups"] = {"wide": ["s_hash", "m_list"], "deep": ["s_hash_emb", "m_list_emb", "x_raw"]}
    used = {"x_raw", *some["groups"]["wide"], *some["groups"]["deep"]}
    some["columns"] = {name: some["columns"][name] for name in used}
    some["features"] = {name: some["features"][name] for name in ("x", "s", "m2")}
    del some["embedding_tables"]
    readings = Readings(some, tmp_path)
    rows = [{"s": "a", "m2": ["b", "c"], "x": 1.0}, {"s": "a", "m2": ["c"], "x": 1.0}]
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        readings.compare(rows)
