"""Sequence columns: both readings agree, a model reads steps, and wrong specs are rejected."""

from __future__ import annotations

import copy
import functools
import json

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

import estimator_kit as ek
import feature_specs
from estimator_kit.model import input_layer
from estimator_kit.models import MODELS
from feature_specs.reference import columns
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.feature_specs.broken import problems_of

DOCUMENT = {
    "features": {
        "words": {"dtype": "string", "shape": "variable"},
        "kinds": {"dtype": "int64", "shape": "variable"},
        "users": {"dtype": "string", "shape": "variable"},
        "prices": {"dtype": "float32", "shape": "variable"},
        "counts": {"dtype": "int64", "shape": "variable"},
        "city": {"dtype": "string"},
    },
    "columns": {
        "word": {"vocabulary": "words", "list": ["a", "b"], "sequence": True},
        "kind": {"identity": "kinds", "size": 4, "default_id": 3, "sequence": True},
        "user": {"hash_bucket": "users", "size": 7, "sequence": True},
        "price": {"sequence_numeric": "prices", "normalizer": "log1p"},
        "count": {"sequence_numeric": "counts"},
        "word_emb": {"embedding": "word", "dimension": 3},
        "user_emb": {"embedding": "user", "dimension": 2, "max_norm": 0.5},
        "kind_hot": {"indicator": "kind"},
        "city": {"hash_bucket": "city", "size": 5},
        "city_emb": {"embedding": "city", "dimension": 2},
    },
    "groups": {
        "steps": ["price", "count", "word_emb", "user_emb", "kind_hot"],
        "deep": ["city_emb"],
    },
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}

step = st.tuples(
    st.sampled_from(["a", "b", "c", ""]),
    st.integers(-1, 5),
    st.sampled_from(["u", "v", "ü"]),
    st.floats(0, 10, width=32),
    st.integers(0, 9),
)
SEQUENCES = ["words", "kinds", "users", "prices", "counts"]


def record(steps):
    lists = dict(zip(SEQUENCES, (list(values) for values in zip(*steps)))) if steps else {}
    return writing.example({"city": "rome", **lists}).SerializeToString()


@functools.cache
def readings():
    """(steps, lengths, gradients) as functions of records: first the reference, then the kit.

    Their variables have the same values.
    """
    spec = feature_specs.parse(DOCUMENT)
    parse = columns.feature_parse_dict(spec, sparse=True)
    results = []
    for ours in (False, True):
        with tf.Graph().as_default() as graph:
            records = tf.compat.v1.placeholder(tf.string, [None])
            if ours:
                features = Transform(spec).features(records)
                dense, lengths = input_layer.sequence_input(spec, "steps", features)
            else:
                layer = tf.keras.experimental.SequenceFeatures(
                    columns.feature_columns(spec, "steps"), name=input_layer.SEQUENCE_SCOPE
                )
                dense, lengths = layer(tf.io.parse_example(records, parse))
            variables = {v.op.name: v for v in tf.compat.v1.trainable_variables()}
            parts = tf.range(tf.cast(tf.size(dense), tf.float32)) * 0.1 + 1
            loss = tf.reduce_sum(tf.reshape(dense, [-1]) * parts)
            gradients = tf.gradients(loss, list(variables.values()))
            gradients = {n: tf.convert_to_tensor(g) for n, g in zip(variables, gradients)}
            session = tf.compat.v1.Session(graph=graph)
            session.run(tf.compat.v1.tables_initializer())
            for _, variable in sorted(variables.items()):
                size = int(np.prod(variable.shape))
                value = np.linspace(-1, 1, size, dtype=np.float32).reshape(variable.shape)
                session.run(variable.initializer, {variable.initializer.inputs[1]: value})
            made = session.make_callable((dense, lengths, gradients), feed_list=[records])
            results.append(made)
    return results


@hypothesis.settings(
    max_examples=25, deadline=None, derandomize=True, database=None,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)  # fmt: skip
@hypothesis.given(st.lists(st.lists(step, max_size=4), min_size=1, max_size=5))
@hypothesis.example([[], [("a", 1, "u", 1.0, 2)]])
# The layers of tf.feature_column call a method that TensorFlow has deprecated.
@pytest.mark.filterwarnings("ignore:`layer.add_variable` is deprecated:UserWarning")
def test_steps_are_those_of_sequence_features(rows):
    hypothesis.assume(any(rows))  # TensorFlow's layer needs at least one step.
    records = [record(steps) for steps in rows]
    reference, ours = (read(records) for read in readings())
    np.testing.assert_allclose(ours[0], reference[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(ours[1], reference[1])
    assert set(ours[2]) == set(reference[2]) and len(ours[2]) == 2
    for name, gradient in reference[2].items():
        np.testing.assert_allclose(ours[2][name], gradient, rtol=1e-5, atol=1e-6, err_msg=name)


def test_steps_worked_out_by_hand():
    document = copy.deepcopy(DOCUMENT)
    document["groups"]["steps"] = ["count", "kind_hot"]
    document["ignored"] = ["words", "users", "prices"]
    for name in ("word", "user", "price", "word_emb", "user_emb"):
        del document["columns"][name]
    spec = feature_specs.parse(document)
    records = [record([("a", 0, "u", 0.0, 5), ("a", 9, "u", 0.0, 6)]), record([])]
    steps, lengths = input_layer.sequence_input(
        spec, "steps", Transform(spec).features(tf.constant(records))
    )
    np.testing.assert_array_equal(
        steps, [[[5, 1, 0, 0, 0], [6, 0, 0, 0, 1]], [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]]
    )
    np.testing.assert_array_equal(lengths, [2, 0])


class MeanOfSteps(ek.ModelFn):
    """The mean over steps, together with the columns of the record."""

    def logits(self, features, mode):
        steps, lengths = self.sequence_input(features, "steps")
        count = tf.cast(tf.maximum(lengths, 1), tf.float32)[:, tf.newaxis]
        net = [tf.reduce_sum(steps, axis=1) / count, self.dense_input(features, "deep")]
        return ek.dense_layer(tf.concat(net, axis=1), self.logits_dimension, "logits")


@pytest.fixture
def config(tmp_path):
    (tmp_path / "spec.yaml").write_text(json.dumps(DOCUMENT))
    rng = np.random.default_rng(0)
    rows = []
    for length in rng.integers(0, 4, 60):
        rows.append(
            {
                "words": ["a", "b", "c"][:length], "kinds": [1] * length, "users": ["u"] * length,
                "prices": [2.5] * length, "counts": [3] * length, "city": "rome",
                "y": int(length > 1),
            }
        )  # fmt: skip
    writing.write_examples(f"{tmp_path}/rows.tfrecord", rows)
    writing.write_examples(f"{tmp_path}/eval.tfrecord", rows[:20])
    rows[5]["prices"] = [1.0] * 9
    writing.write_examples(f"{tmp_path}/uneven.tfrecord", rows)
    return ek.ExperimentConfig(
        spec=f"{tmp_path}/spec.yaml", model="tests.feature_specs.test_sequences:MeanOfSteps",
        model_params={"learning_rate": 0.5}, model_dir=f"{tmp_path}/model", batch_size=20,
        train_files=(f"{tmp_path}/rows.tfrecord",), eval_files=(f"{tmp_path}/eval.tfrecord",),
        max_steps=60, exporters=("final",),
    )  # fmt: skip


@pytest.mark.ci
def test_a_model_over_steps_learns_and_its_export_answers(config, tmp_path):
    result = ek.run(config)
    assert result.metrics["auc/y"] > 0.99
    predict = tf.saved_model.load(result.export_path).signatures["serving_default"]
    three = [(word, 1, "u", 2.5, 3) for word in "abc"]
    answer = predict(examples=tf.constant([record([]), record(three)]))
    few, many = answer["y/logistic"].numpy().ravel()
    assert few < 0.5 < many


def test_lists_of_other_lengths_are_named(config, tmp_path):
    uneven = config.model_copy(update={"train_files": (f"{tmp_path}/uneven.tfrecord",)})
    with pytest.raises(
        ek.DataError,
        match=r"uneven.tfrecord.*record 5.*'prices' has 9, .*in a group they must be equal",
    ):
        ek.run(uneven)


@pytest.mark.parametrize("name", ["dnn", "linear"])
def test_models_of_records_refuse_steps(name):
    spec = feature_specs.parse(DOCUMENT)
    with pytest.raises(ek.ConfigError, match="one value per step"):
        MODELS[name](spec, {"group": "steps"})


def test_a_group_of_records_has_no_steps():
    spec = feature_specs.parse(DOCUMENT)
    with pytest.raises(ek.ConfigError, match="column 'city_emb' has one value per record"):
        input_layer.sequence_input(spec, "deep", {})


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"groups__deep": ["city_emb", "price"]},
         "groups.deep: columns price have one value per step, but city_emb one per record. Put "
         "them into separate groups."),
        ({"groups__words": ["word"]},
         "groups.words: column 'word' is vocabulary, which has no dense form. Put an embedding or "
         "indicator column of it into the group instead."),
        ({"columns__city": {"hash_bucket": "city", "size": 5, "sequence": True}},
         "columns.city.sequence: feature 'city' has one value per record, expected a list of "
         "steps. Declare it with shape: variable, or remove sequence."),
        ({"columns__price": {"sequence_numeric": "words"}},
         "columns.price.sequence_numeric: feature 'words' is string with the shape variable, "
         "expected numbers with shape: variable, one per step"),
        ({"columns__x": {"crossed": ["word", "users"], "size": 9}, "groups__wide": ["x"]},
         "columns.x.crossed[0]: column 'word' is a sequence, which cannot be crossed. Cross a "
         "column without sequence: true."),
        ({"columns__x": {"weighted": "word", "weight": "prices"}, "groups__wide": ["x"]},
         "columns.x.weighted: column 'word' is a sequence, which cannot have weights"),
    ],
)  # fmt: skip
def test_what_a_broken_sequence_is_told(changes, message):
    assert problems_of(DOCUMENT, **changes) == [message]
