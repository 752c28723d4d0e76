"""A step on tables is the step of the same model with dense gradients, also for ids that repeat.

The dense twin computes the same logits. Its lookups return dense gradients, which have one row for
each id, so every norm, limit, average and square of them is right.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model import table_gradients
from estimator_kit.optimizers.choice import GRADIENT_NORM_TENSOR, make_optimizer, minimize
from estimator_kit.optimizers.combining import COMBINATIONS
from estimator_kit.optimizers.kinds import OPTIMIZERS
from estimator_kit.optimizers.sparse import summed
from estimator_kit.tf_estimator import ModeKeys
from feature_specs.kinds import COLUMN_KINDS
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform

# What looks at gradients before an optimizer does. The limits are below the norms of the gradients,
# except in `no_op`.
SETTINGS = {
    "plain": {},
    "no_op": {"clip_value": 1e6, "clip_norm": 1e6},
    "clip_norm": {"clip_norm": 0.05},
    "clip_value": {"clip_value": 0.01},
    "accumulate": {"accumulate": 2, "clip_norm": 0.05, "clip_value": 0.02},
    "average": {"average": 0.9, "clip_norm": 0.05},
}


def test_equal_ids_are_added_up_once():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        gradient = tf.IndexedSlices(tf.constant([[2.0], [3.0], [5.0]]), tf.constant([4, 1, 4]))
        once = summed(gradient)
        assert session.run([once.indices, once.values])[0].tolist() == [4, 1]
        assert session.run(once.values).tolist() == [[7], [3]]
        assert summed(once) is once and summed(once.values) is once.values


@pytest.mark.parametrize("size", [10, 100, 400])
def test_one_id_is_a_number_that_is_always_one(size):
    """The gradient is the mean of -10 over the rows. The limit makes a step of 1 of it."""
    for table in (True, False):
        with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
            weight = tf.compat.v1.get_variable("weight", initializer=np.zeros((1, 1), np.float32))
            read = (
                tf.gather(weight, [0] * size) if table else np.ones((size, 1), np.float32) @ weight
            )
            loss = tf.reduce_mean(-10 * read)
            step = minimize(loss, [("", make_optimizer("sgd", 1.0))], clip_norm=1.0)
            session.run(tf.compat.v1.global_variables_initializer())
            norm = graph.get_tensor_by_name(f"{GRADIENT_NORM_TENSOR}:0")
            assert session.run([norm, step])[0] == pytest.approx(10, rel=1e-5)
            assert session.run(weight) == pytest.approx(1, rel=1e-5)


def small_model(dense):
    """A table that is read twice, a table that is read once, and a dense layer, over fed ids."""
    ids = tf.compat.v1.placeholder(tf.int64, [None, 3], name="ids")
    one, two = (
        tf.compat.v1.get_variable(name, initializer=np.linspace(-1, 1, 12, dtype="f").reshape(4, 3))
        for name in ("one", "two")
    )

    def read(table, column):
        return tf.one_hot(ids[:, column], 4) @ table if dense else tf.gather(table, ids[:, column])

    hidden = tf.concat([read(one, 0), read(one, 1), read(two, 2)], axis=1)
    kernel = tf.compat.v1.get_variable("kernel", initializer=np.linspace(1, -2, 9, dtype="f"))
    return tf.reduce_mean(tf.square(tf.linalg.matvec(hidden, kernel) - 1))


def steps_of(optimizer, settings, *, dense, steps=4):
    """(the gradient norm of each batch, the values of all variables at the end)."""
    rng = np.random.default_rng(1)
    # Each batch has each id: a lazy optimizer leaves other rows as they are.
    batches = [
        np.stack([rng.permutation([*range(4), *rng.integers(0, 2, 16)]) for _ in range(3)], axis=1)
        for _ in range(steps)
    ]
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        step = minimize(small_model(dense), [("", make_optimizer(optimizer, 0.1))], **settings)
        norm = graph.get_tensor_by_name(f"{GRADIENT_NORM_TENSOR}:0")
        session.run(tf.compat.v1.global_variables_initializer())
        norms = [session.run([norm, step], {"ids:0": batch})[0] for batch in batches]
        made = {v.op.name: v for v in tf.compat.v1.global_variables()}
        return norms, session.run({n: v for n, v in made.items() if "accumulated/" not in n})


def compare(found, expected):
    """Sums of the same terms in another order. Their rounding grows with the terms, some of 1."""
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4)
    assert found[1].keys() == expected[1].keys()
    for name, value in expected[1].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("optimizer", "setting"),
    [
        pytest.param(
            optimizer,
            setting,
            marks=() if setting == "accumulate" or optimizer == "sgd" else pytest.mark.nightly,
        )
        for optimizer in OPTIMIZERS
        for setting in SETTINGS
    ],
)
def test_every_optimizer_steps_as_on_a_dense_model(optimizer, setting):
    found, expected = (steps_of(optimizer, SETTINGS[setting], dense=d) for d in (False, True))
    compare(found, expected)


WORDS = ["ann", "bob", "cy"]


def document():
    """Each kind of column with ids, its vectors and linear weights; shared tables; sequences."""
    text, texts = {"dtype": "string"}, {"dtype": "string", "shape": "variable"}
    ids = {
        "hash_bucket": {"hash_bucket": "name", "size": 2},
        "vocabulary": {"vocabulary": "word", "list": WORDS},
        "identity": {"identity": "number", "size": 3},
        "bucketized": {"bucketized": "price_raw", "boundaries": [1.0, 2.0]},
        "is_missing": {"is_missing": "word"},
        "time": {"time": "moment", "part": "weekday", "format": "seconds"},
        "crossed": {"crossed": ["word", "number"], "size": 2},
        "weighted": {"weighted": "listed", "weight": "amounts"},
    }
    lists = {"listed": {"vocabulary": "words", "list": WORDS}}
    sequences = {
        "hash_steps": {"hash_bucket": "names", "size": 2, "sequence": True},
        "word_steps": {"vocabulary": "words", "list": WORDS, "sequence": True},
        "number_steps": {"identity": "numbers", "size": 3, "sequence": True},
    }
    vectors = {
        f"{name}_emb": {"embedding": name, "dimension": 2} for name in (*ids, *lists, *sequences)
    }
    vectors["identity_emb"]["max_norm"] = 0.3
    vectors["hash_bucket_emb"]["l2"] = 0.01
    vectors["listed_emb"]["combiner"] = "sqrtn"
    for name in ("vocabulary_emb", "word_steps_emb"):
        vectors[name] = {"embedding": name.removesuffix("_emb"), "table": "both"}
    steps = [f"{name}_emb" for name in sequences]
    return {
        "features": {
            "word": {**text, "default": WORDS[0]}, "name": text, "names": texts, "words": texts,
            "number": {"dtype": "int64"}, "price": {"dtype": "float32"},
            "moment": {"dtype": "int64"},
            "numbers": {"dtype": "int64", "shape": "variable"},
            "amounts": {"dtype": "float32", "shape": "variable"},
        },
        "embedding_tables": {"both": {"dimension": 2}},
        "columns": {"price_raw": {"numeric": "price"}, **ids, **lists, **sequences, **vectors},
        "groups": {
            "wide": ["price_raw", *ids, *lists],
            "deep": [name for name in vectors if name not in steps],
            "steps": steps,
        },
        "labels": {"click": {"dtype": "int64"}, "buy": {"dtype": "int64"}},
        "objectives": {"click": {"head": "binary"}, "buy": {"head": "binary"}},
    }  # fmt: skip


def test_the_spec_has_every_kind_with_ids():
    spec = feature_specs.parse(document())
    used = {spec.columns[name].kind for name in spec.groups["wide"]}
    # The ids of a growing column change between steps. test_growing_ids.py compares them with
    # the steps of a fixed table.
    assert used | {"growing"} >= {n for n, kind in COLUMN_KINDS.items() if kind.categorical}


class EveryLookup(ek.ModelFn):
    """Reads every group of `document`."""

    def logits(self, features, mode):
        steps, _ = self.sequence_input(features, "steps")
        deep = self.dense_input(features, "deep")
        inputs = tf.concat([deep, tf.reduce_mean(steps, axis=1)], axis=1)
        return ek.dense_layer(inputs, 2, "last") + self.linear_logits(features, "wide")

    def shared_prefix(self):
        return ".*vocabulary.*|both"


def batches(count, rows=40):
    rng = random.Random(3)
    for _ in range(count):
        records = []
        for _ in range(rows):
            size = rng.randint(1, 4)
            row = {
                "word": rng.choice(WORDS), "name": rng.choice(WORDS), "number": rng.randrange(3),
                "moment": 86_400 * rng.randrange(7),  # All rows of a table are in each batch.
                "price": rng.uniform(0, 3), "words": rng.choices(WORDS, k=size),
                "numbers": rng.choices(range(3), k=size), "names": rng.choices(WORDS, k=size),
                "amounts": [rng.uniform(0.5, 2) for _ in range(size)],
                "click": rng.randrange(2), "buy": rng.randrange(2),
            }  # fmt: skip
            records.append(writing.example(row).SerializeToString())
        yield records


@tf.RegisterGradient("DenseTwinOfResourceGather")
def _dense_gradient(op, gradient):
    """The gradient of a lookup as a dense table."""
    ids, shape = tf.reshape(op.inputs[1], [-1]), tf.raw_ops.VariableShape(input=op.inputs[0])
    rows = tf.reshape(gradient, tf.concat([[-1], shape[1:]], axis=0))
    return [tf.math.unsorted_segment_sum(rows, ids, shape[0]), None]


def trained(monkeypatch, params, *, dense, steps=4):
    """As `steps_of`, for the model with every kind of column."""
    name = "DenseTwinOfResourceGather" if dense else "EstimatorKitResourceGather"
    monkeypatch.setattr(table_gradients, "_NAME", name)
    spec = feature_specs.parse(document())
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)  # Averages begin with the start values.
        tf.compat.v1.train.get_or_create_global_step()
        examples = tf.compat.v1.placeholder(tf.string, [None])
        features, labels = Transform(spec).features_and_labels(examples)
        step = EveryLookup(spec, params)(features, labels, ModeKeys.TRAIN).train_op
        session.run(
            [tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()]
        )
        rng = np.random.default_rng(0)
        for v in sorted(tf.compat.v1.trainable_variables(), key=lambda v: v.op.name):
            if not v.op.name.startswith("combined_losses/"):
                v.load(rng.normal(0, 0.5, v.shape).astype("f"), session)
        made = {v.op.name: v for v in tf.compat.v1.global_variables()}
        norm = graph.get_tensor_by_name(f"{GRADIENT_NORM_TENSOR}:0")
        norms = [session.run([norm, step], {examples: batch})[0] for batch in batches(steps)]
        return norms, session.run({n: v for n, v in made.items() if "accumulated/" not in n})


CASES = {
    ("adagrad", "clip_norm", "pcgrad"): pytest.mark.ci,
    **{("adagrad", "accumulate", combine): pytest.mark.nightly for combine in COMBINATIONS},
    **{(o, setting, "weights"): pytest.mark.nightly for o in OPTIMIZERS for setting in SETTINGS},
}
CASES["sgd", "accumulate", "weights"] = ()


@pytest.mark.parametrize(
    ("optimizer", "setting", "combine"),
    [pytest.param(*case, marks=marks) for case, marks in CASES.items()],
)
def test_every_kind_of_column_steps_as_on_a_dense_model(monkeypatch, optimizer, setting, combine):
    params = {"optimizer": optimizer, "learning_rate": 0.1, "combine": combine, **SETTINGS[setting]}
    if "average" in params:
        params["moving_average"] = params.pop("average")
    found, expected = (trained(monkeypatch, params, dense=d) for d in (False, True))
    compare(found, expected)
