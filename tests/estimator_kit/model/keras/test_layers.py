"""Keras layers in a ModelFn: an Estimator finds their variables, updates and losses."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.checkpoints.model_outline import outline
from estimator_kit.exporters import saved_model
from estimator_kit.model.keras import layers
from estimator_kit.model.names import read_metrics
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.placed import without_place

v1 = tf.compat.v1
KEYS = v1.GraphKeys

DOCUMENT = {
    "features": {
        "a": {"dtype": "float32", "shape": [3]},
        "b": {"dtype": "float32", "shape": [2]},
        "s": {"dtype": "float32", "shape": "variable"},
    },
    "columns": {
        "a": {"numeric": "a"}, "b": {"numeric": "b"}, "s": {"sequence_numeric": "s"},
    },
    "groups": {"left": ["a"], "right": ["b"], "steps": ["s"]},
    "labels": {"y": {"dtype": "float32"}},
    "objectives": {"y": {"head": "regression"}},
}  # fmt: skip


def make_rows(count, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        a, b = rng.normal(2, 1, 3), rng.normal(0, 1, 2)
        steps = rng.normal(0, 1, rng.integers(0, 4))
        rows.append({"a": a, "b": b, "s": steps, "y": float(a[0] - b[1] + steps.sum())})
    return rows


class Both(ek.ModelFn):
    """Uses updates, losses and layers that differ in training."""

    def logits(self, features, mode):
        layers = tf.keras.layers
        left, right = tf.keras.Input((3,), name="left"), tf.keras.Input((2,), name="right")
        x = layers.Concatenate()([left, right])
        x = layers.BatchNormalization(momentum=0.5)(x)
        x = layers.Dense(4, activation="tanh", kernel_regularizer=tf.keras.regularizers.L2(0.01))(x)
        x = layers.Dropout(0.25)(x)
        inputs = [self.dense_input(features, "left"), self.dense_input(features, "right")]
        hidden = self.keras(tf.keras.Model([left, right], x), inputs, mode)
        steps, lengths = self.sequence_input(features, "steps")
        steps = tf.pad(steps, [[0, 0], [0, 1], [0, 0]])
        mask = tf.sequence_mask(lengths, tf.shape(steps)[1])
        state = self.keras(layers.LSTM(4), steps, mode, mask=mask)
        return self.keras(layers.Dense(1), tf.concat([hidden, state], 1), mode)


def input_fn(spec, rows, *, labels=True, repeat=1):
    records = [writing.example(row).SerializeToString() for row in rows]

    def make():
        transform = Transform(spec)
        parse = transform.features_and_labels if labels else transform.features
        batches = tf.data.Dataset.from_tensors(records).repeat(repeat)
        return batches.map(tf.autograph.experimental.do_not_convert(parse))

    return make


def estimator(model, folder):
    config = tf.estimator.RunConfig(
        model_dir=str(folder), tf_random_seed=1, save_summary_steps=None, log_step_count_steps=None
    )
    return tf.estimator.Estimator(model, config=config)


_READER = """
import json, sys
import tensorflow as tf

export, records = sys.argv[1:]
predict = tf.saved_model.load(export).signatures["serving_default"]
examples = list(tf.data.TFRecordDataset(records).as_numpy_iterator())
answer = predict(examples=tf.constant(examples))["y/predictions"].numpy()
one = predict(examples=tf.constant(examples[:1]))["y/predictions"].numpy()
print(json.dumps([answer.tolist(), one.tolist()]))
"""


@pytest.mark.nightly
def test_train_resume_evaluate_export_and_predict_in_another_process(tmp_path):
    spec = feature_specs.parse(DOCUMENT)
    model, rows = Both(spec, {"optimizer": "adam", "learning_rate": 0.02}), make_rows(64)
    trained = estimator(model, tmp_path / "model")
    trained.train(input_fn(spec, rows, repeat=10))
    before = read_metrics(trained.evaluate(input_fn(spec, rows)))
    # Moving averages: the batch is always the same, so 0.5^10 of the start values is left.
    columns = np.array([[*row["a"], *row["b"]] for row in rows], np.float32)
    start = 0.5**10
    value = trained.get_variable_value
    np.testing.assert_allclose(
        value("batch_normalization/moving_mean"), columns.mean(0) * (1 - start), atol=1e-5
    )
    np.testing.assert_allclose(
        value("batch_normalization/moving_variance"),
        columns.var(0) * (1 - start) + start, rtol=1e-4,
    )  # fmt: skip
    # Training continues from the checkpoint and lowers the loss.
    trained = estimator(model, tmp_path / "model")
    trained.train(input_fn(spec, rows, repeat=60))
    after = read_metrics(trained.evaluate(input_fn(spec, rows)))
    assert after["global_step"] == 70 and after["loss"] < before["loss"]
    # The loss of an evaluation is the squared error plus the L2 loss of the regularized kernel.
    l2 = 0.01 * np.sum(value("dense/kernel") ** 2)
    assert after["loss"] == pytest.approx(after["loss/y"] + l2, abs=1e-5)
    # A prediction does not depend on the other rows: it uses the averages, and no dropout.
    predicted = [p["y/predictions"] for p in trained.predict(input_fn(spec, rows, labels=False))]
    alone = [p["y/predictions"] for p in trained.predict(input_fn(spec, rows[:1], labels=False))]
    np.testing.assert_allclose(predicted[0], alone[0], atol=1e-6)

    records, export = str(tmp_path / "r"), str(tmp_path / "export")
    writing.write_examples(records, [{k: r[k] for k in "abs"} for r in rows])
    path = saved_model.export_saved_model(trained, spec, export)
    asked = subprocess.run(
        [sys.executable, "-c", _READER, path, records], check=True, capture_output=True, text=True,
        cwd=tmp_path, timeout=300,
    )  # fmt: skip
    answer, one = json.loads(asked.stdout)
    np.testing.assert_allclose(answer, predicted, atol=1e-6)
    np.testing.assert_allclose(one[0], predicted[0], atol=1e-6)


class Plain(ek.ModelFn):
    def logits(self, features, mode):
        x = self.keras(tf.keras.layers.BatchNormalization(), self.dense_input(features, "a"), mode)
        regularizer = tf.keras.regularizers.L2(0.1)
        hidden = tf.keras.layers.Dense(3, activation="tanh", kernel_regularizer=regularizer)
        x = self.keras(hidden, x, mode)
        return self.keras(tf.keras.layers.Dense(1), x, mode)


@pytest.fixture
def spec():
    return feature_specs.parse(
        {
            **{k: {n: e for n, e in DOCUMENT[k].items() if n == "a"} for k in
               ("features", "columns")},
            "groups": {"a": ["a"]},
            **{k: DOCUMENT[k] for k in ("labels", "objectives")},
        }
    )  # fmt: skip


def test_a_step_equals_a_step_of_keras(spec, tmp_path):
    """Five SGD steps from the same weights: with the kit, and with Keras's fit."""
    rows = make_rows(16)
    a = np.array([row["a"] for row in rows], np.float32)
    y = np.array([[row["y"]] for row in rows], np.float32)
    model = Plain(spec, {"optimizer": "sgd", "learning_rate": 0.1})
    trained = estimator(model, tmp_path / "model")
    trained.train(input_fn(spec, rows), steps=1)
    first = {n: trained.get_variable_value(n) for n in trained.get_variable_names()}
    names = [
        "batch_normalization/gamma", "batch_normalization/beta",
        "batch_normalization/moving_mean", "batch_normalization/moving_variance",
        "dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias",
    ]  # fmt: skip
    assert set(first) == {*names, "global_step"}
    trained.train(input_fn(spec, rows, repeat=5))
    # Made last: after a layer is made in a graph, Keras 2 uses the graph class of this layer.
    layers = tf.keras.layers
    fitted = tf.keras.Sequential(
        [
            tf.keras.Input((3,)), layers.BatchNormalization(),
            layers.Dense(3, activation="tanh", kernel_regularizer=tf.keras.regularizers.L2(0.1)),
            layers.Dense(1),
        ]
    )  # fmt: skip
    fitted.compile(tf.keras.optimizers.legacy.SGD(0.1), loss="mse")
    fitted.set_weights([first[name] for name in names])
    fitted.fit(a, y, batch_size=16, epochs=5, shuffle=False, verbose=0)
    for name, expected in zip(names, fitted.get_weights()):
        got = trained.get_variable_value(name)
        assert np.abs(got - first[name]).max() > 1e-5, name
        np.testing.assert_allclose(got, expected, atol=2e-6, err_msg=name)


def build(logits, spec, mode="train"):
    """The graph of a ModelFn with this method `logits`."""
    model = type("Model", (ek.ModelFn,), {"logits": logits})(spec)
    graph = tf.Graph()
    with graph.as_default():
        v1.train.get_or_create_global_step()
        examples = v1.placeholder(tf.string, [None])
        features, labels = Transform(spec).features_and_labels(examples)
        model(features, labels, mode)
    return graph


def names(graph, key):
    return [value.name for value in graph.get_collection(key)]


class Inner(tf.keras.layers.Layer):
    """A layer with inner layers, whose call has no argument `training`."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.norm = tf.keras.layers.BatchNormalization(name="norm")
        self.dense = tf.keras.layers.Dense(
            3, kernel_regularizer="l2", activity_regularizer="l2", name="dense"
        )

    def call(self, inputs):
        return self.norm(self.dense(self.dense(inputs)))


def test_layers_in_layers_shared_layers_and_scopes(spec):
    def logits(self, features, mode):
        x = self.dense_input(features, "a")
        with v1.variable_scope("tower"), tf.name_scope("any"):
            inner = Inner(name="inner")
            x = self.keras(inner, x, mode)
        x = self.keras(inner, x, mode)
        return self.keras(tf.keras.layers.Dense(1, name="out"), x, mode)

    for mode, updates in (("train", 4), ("eval", 0)):
        graph = build(logits, spec, mode)
        # Two calls of the same layer, in two calls: one loss of the kernel, four of the activities.
        losses = names(graph, KEYS.REGULARIZATION_LOSSES)
        assert len([n for n in losses if "ActivityRegularizer" in n]) == 4
        assert len([n for n in losses if "kernel/Regularizer" in n]) == 1 == len(losses) - 4
        assert len(names(graph, KEYS.UPDATE_OPS)) == updates
        assert names(graph, KEYS.TRAINABLE_VARIABLES) == [
            "tower/inner/dense/kernel:0", "tower/inner/dense/bias:0", "tower/inner/norm/gamma:0",
            "tower/inner/norm/beta:0", "out/kernel:0", "out/bias:0",
        ]  # fmt: skip


def test_a_layer_that_is_not_trainable_is_not_trained(spec):
    def logits(self, features, mode):
        frozen = tf.keras.layers.Dense(3, trainable=False)
        x = self.keras(frozen, self.dense_input(features, "a"), mode)
        return self.keras(tf.keras.layers.Dense(1), x, mode)

    graph = build(logits, spec)
    assert names(graph, KEYS.TRAINABLE_VARIABLES) == ["dense_1/kernel:0", "dense_1/bias:0"]
    assert "dense/kernel:0" in names(graph, KEYS.GLOBAL_VARIABLES)


def test_names_are_the_same_in_every_mode_and_every_graph():
    model = Both(feature_specs.parse(DOCUMENT))
    first, second = outline(model), outline(model)
    assert first == second and first.weights <= set(first.variables)
    assert "lstm/lstm_cell/recurrent_kernel" in first.trainable


def dense(self, features):
    return self.dense_input(features, "a")


def keras_3_layer(**arguments):
    keras = pytest.importorskip("keras")
    if tf.keras.Model.__module__.startswith("keras."):
        pytest.skip("Keras is Keras 2 on this TensorFlow")
    return keras.layers.Dense(1, **arguments)


MADE_BEFORE = tf.keras.layers.Dense(1, name="early")
MADE_BEFORE.build([None, 3])


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (lambda self, f, mode: tf.keras.layers.Dense(1, name="d")(dense(self, f)),
         "the variable d/kernel belongs to a Keras layer that was not called through self.keras, "
         "so its regularization losses and updates would be lost. Write self.keras(layer, inputs, "
         "mode) instead of layer(inputs)."),
        (lambda self, f, mode: ek.dense_layer(
            tf.keras.layers.Dropout(0.5)(dense(self, f)), 1, "logits"),
         "a Keras layer that differs in training, such as Dropout, was not called through "
         "self.keras, so it would not know that it is training. Write self.keras(layer, inputs, "
         "mode) instead of layer(inputs)."),
        (lambda self, f, mode: self.keras(MADE_BEFORE, dense(self, f), mode),
         "self.keras: the layer 'early' has variables of another graph. Training, evaluation and "
         "export have separate graphs. Make layers in logits, not before."),
        (lambda self, f, mode: self.keras(3, dense(self, f), mode),
         "self.keras: got 3, expected a layer or model of tf.keras"),
        (lambda self, f, mode: self.keras(
            tf.keras.layers.GRU(1, stateful=True, name="g"), dense(self, f)[:, None], mode),
         "self.keras: the layer 'g' is stateful. It would carry states from the rows of one batch "
         "or request to the next. Remove stateful."),
        (lambda self, f, mode: self.keras(keras_3_layer(name="new"), dense(self, f), mode),
         "self.keras: the layer 'new' belongs to Keras 3, which has no updates in an Estimator's "
         "graph. Use Keras 2, which is tf.keras here: first `import estimator_kit.compat`, then "
         "`from tensorflow import keras` (or `import tf_keras as keras`) instead of `import "
         "keras`."),
        (lambda self, f, mode: keras_3_layer(name="new")(dense(self, f)),
         "the variable new/kernel belongs to a layer of Keras 3, which has no updates in an "
         "Estimator's graph. Use Keras 2, which is tf.keras here: first `import "
         "estimator_kit.compat`, then `from tensorflow import keras` (or `import tf_keras as "
         "keras`) instead of `import keras`."),
    ],
)  # fmt: skip
def test_layers_that_would_be_trained_only_partly_are_an_error(spec, logits, message):
    with pytest.raises(ek.ConfigError) as caught:
        build(logits, spec)
    assert without_place(caught.value, "logits") == message


@pytest.mark.filterwarnings("ignore:.tf.layers.:UserWarning")  # tf.layers is deprecated.
def test_layers_of_v1_work_without_self_keras(spec):
    def logits(self, features, mode):
        return v1.layers.dense(dense(self, features), 1, kernel_regularizer=tf.nn.l2_loss)

    assert len(names(build(logits, spec), KEYS.REGULARIZATION_LOSSES)) == 1


# Values for the arguments that a layer needs, by name.
ARGUMENTS = {
    "activation": "tanh", "axes": 2, "dims": (2, 1), "equation": "abc,cd->abd", "filters": 2,
    "function": tf.abs, "kernel_size": 1, "key_dim": 2, "num_heads": 2, "output_shape": (None, 2),
    "rate": 0.5, "scale": 2.0, "stddev": 0.1, "target_shape": (-1, 2), "units": 3,
}  # fmt: skip
INNER = {
    "Bidirectional": lambda: tf.keras.layers.LSTM(2),
    "RNN": lambda: tf.keras.layers.GRUCell(2),
    "SpectralNormalization": lambda: tf.keras.layers.Dense(2),
    "TimeDistributed": lambda: tf.keras.layers.Dense(2),
}


def made_layers():
    """A layer of every class of tf.keras.layers that the arguments above can make."""
    for name, kind in inspect.getmembers(tf.keras.layers, inspect.isclass):
        if not issubclass(kind, tf.keras.layers.Layer) or hasattr(kind, "adapt"):
            continue  # Preprocessing is the spec's.
        parameters = inspect.signature(kind.__init__).parameters.values()
        needed = [p.name for p in parameters if p.default is p.empty and p.kind < 2][1:]
        try:
            if name in INNER:
                yield kind(INNER[name]())
            elif all(argument in ARGUMENTS for argument in needed):
                yield kind(**{argument: ARGUMENTS[argument] for argument in needed})
        except ValueError:  # CategoryEncoding, which needs an argument that has a default.
            continue
    yield tf.keras.Sequential([tf.keras.layers.Dense(2), tf.keras.layers.GRU(2)])
    yield tf.keras.layers.Dense(2, dtype="mixed_float16")
    yield tf.keras.layers.LSTM(2, dtype="mixed_float16")


@pytest.mark.nightly
def test_every_layer_gets_the_mask_that_keras_gives_it():
    ids = np.array([[3, 1, 0, 0], [2, 0, 0, 0], [1, 2, 3, 4], [4, 4, 1, 0]])
    with tf.Graph().as_default(), v1.Session() as session:
        embedding = tf.keras.layers.Embedding(5, 4, mask_zero=True)
        steps = layers.call(embedding, v1.placeholder_with_default(ids, [None, 4]), training=False)
        found = {}
        for layer in made_layers():
            name = f"{type(layer).__name__} {layer.dtype}"
            inputs, arguments = steps, {}
            if isinstance(layer, tf.keras.layers.MultiHeadAttention):
                arguments = {"value": steps}
            elif "Attention" in name or name.split()[0] in (
                "Add", "Average", "Concatenate", "Dot", "Maximum", "Minimum", "Multiply", "Subtract"
            ):  # fmt: skip
                inputs = [steps, steps * 2]
                inputs[1]._keras_mask = steps._keras_mask
            try:
                expected = layer(inputs, training=False, **arguments)
            except Exception:
                try:
                    expected = layer(inputs, **arguments)
                except Exception:
                    continue  # Keras itself refuses these inputs: images, features, text.
            if not isinstance(expected, tf.Tensor):
                continue
            result = layers.call(layer, inputs, training=False, **arguments)
            masks = [getattr(t, "_keras_mask", None) for t in (result, expected)]
            assert (masks[0] is None) == (masks[1] is None), name
            found[name] = (result, expected)
        session.run(v1.global_variables_initializer())
        values = session.run(found)
    for name, (result, expected) in values.items():
        np.testing.assert_allclose(result, expected, atol=1e-6, err_msg=name)
    assert len(found) > 45, sorted(found)
    for name in ("Dense", "Dropout", "LayerNormalization", "Conv1D", "MultiHeadAttention", "GRU",
                 "GlobalAveragePooling1D", "Softmax", "Bidirectional", "Sequential"):  # fmt: skip
        assert f"{name} float32" in found


class Masked(ek.ModelFn):
    """Reads the steps of rows with a mask, partly in 16 bits."""

    def logits(self, features, mode):
        steps, lengths = self.sequence_input(features, "steps")
        kinds = tf.keras.layers
        mask = tf.sequence_mask(lengths, tf.shape(steps)[1])
        steps = self.keras(kinds.Dropout(0.1), self.keras(kinds.Masking(), steps, mode), mode)
        wide = self.keras(kinds.Dense(4, dtype="mixed_float16"), steps, mode)
        states = [
            self.keras(layer, tf.cast(wide, tf.float32), mode, mask=mask)
            for layer in (kinds.GRU(2), kinds.LSTM(2))
        ]
        pooled = self.keras(kinds.Conv1D(2, 1), steps, mode)
        states.append(self.keras(kinds.GlobalMaxPooling1D(), pooled, mode))
        return self.keras(kinds.Dense(1), tf.concat(states, 1), mode)


def test_a_batch_without_a_step_trains_and_answers():
    spec = feature_specs.parse(DOCUMENT)
    rows = [{"a": [1.0, 2, 3], "b": [1.0, 2], "s": [], "y": 1.0}] * 2
    for mode in ("train", "eval", "infer"):
        with tf.Graph().as_default(), v1.Session() as session:
            v1.train.get_or_create_global_step()
            batch = v1.data.make_one_shot_iterator(input_fn(spec, rows)()).get_next()
            made = Masked(spec)(batch[0], None if mode == "infer" else batch[1], mode)
            trainable = {variable.op.name for variable in v1.trainable_variables()}
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            fetched = made.predictions if mode == "infer" else [made.loss, made.train_op or ()]
            value = session.run(fetched)
        assert "dense/kernel" in trainable and "gru/gru_cell/kernel" in trainable
        if mode == "infer":
            assert np.isfinite(value["y/predictions"]).all() and len(value["y/predictions"]) == 2
        else:
            assert np.isfinite(value[0])
