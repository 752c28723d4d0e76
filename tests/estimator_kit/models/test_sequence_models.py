"""Layers over steps, compared with loops in NumPy. Padded steps change nothing."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.models import MODELS, din, sequence_model, transformer
from estimator_kit.models.normalization import ACTIVATIONS
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.estimator_kit.models.graphs import evaluate, mlp, sigmoid, softmax

RNG = np.random.default_rng(4)
STEPS = RNG.normal(size=(4, 5, 3)).astype(np.float32)
LENGTHS = np.array([5, 2, 0, 1], np.int64)
TARGET = RNG.normal(size=(4, 3)).astype(np.float32)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("pooling", "expected"), [("last", 3), ("max", 5), ("mean", 3), ("sum", 9)]
)
def test_pooling_by_hand(pooling, expected):
    rows = np.float32([[[1], [5], [3], [99]], [[-2], [-1], [7], [7]], [[4], [4], [4], [4]]])
    lengths = np.array([3, 1, 0], np.int64)
    found, _ = evaluate(lambda s, n: sequence_model.pool_steps(s, n, pooling), rows, lengths)
    np.testing.assert_array_equal(found, [[expected], [-2], [0]])


def gru_loop(x, v, scope, attention=None):
    kernel, bias = v[f"{scope}/recurrent_kernel"], v[f"{scope}/recurrent_bias"]
    h, n = np.zeros(len(bias)), len(bias)
    for s, t in enumerate(x):
        gates, rec = t @ v[f"{scope}/input/kernel"] + v[f"{scope}/input/bias"], h @ kernel
        r, z = sigmoid(gates[:n] + rec[:n]), sigmoid(gates[n : 2 * n] + rec[n : 2 * n])
        z = 1 - (1 - z) * (1 if attention is None else attention[s])
        h = z * h + (1 - z) * np.tanh(gates[2 * n :] + r * (rec[2 * n :] + bias))
        yield h


def lstm_loop(x, v, scope):
    kernel = v[f"{scope}/recurrent_kernel"]
    n = kernel.shape[0]
    h = c = np.zeros(n)
    for t in x:
        gates = t @ v[f"{scope}/input/kernel"] + v[f"{scope}/input/bias"] + h @ kernel
        i, f, new, o = np.split(gates, 4)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(new)
        h = sigmoid(o) * np.tanh(c)
        yield h


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_recurrent_layers_are_loops_over_the_true_steps(name):
    layer = {"gru": sequence_model.gru_layer, "lstm": sequence_model.lstm_layer}[name]
    loop = {"gru": gru_loop, "lstm": lstm_loop}[name]

    def build(x, n):
        return layer(layer(x, n, 6, "one"), n, 2, "two")

    found, v = evaluate(build, STEPS, LENGTHS)
    for row, (x, length) in enumerate(zip(STEPS, LENGTHS)):
        one = np.array(list(loop(x[:length], v, "one"))).reshape(length, 6)
        two = np.array(list(loop(one, v, "two"))).reshape(length, 2)
        close(found[row, :length], two)
        last = two[-1] if length else np.zeros(2)
        close(found[row, length:], np.tile(last, (5 - length, 1)))


@pytest.mark.parametrize(
    "name",
    [pytest.param("gru", marks=pytest.mark.nightly), pytest.param("lstm", marks=pytest.mark.ci)],
)
def test_recurrent_gradients_are_finite_differences(name):
    layer = {"gru": sequence_model.gru_layer, "lstm": sequence_model.lstm_layer}[name]

    def build(x, n):
        y = tf.reduce_sum(layer(x, n, 2, "one") ** 2)
        return y, tf.gradients(y, x)[0]

    (_, gradient), _ = evaluate(build, STEPS, LENGTHS)
    for row, step in ((0, 0), (0, 4), (1, 1)):
        moved = []
        for sign in (1, -1):
            x = STEPS.copy()
            x[row, step, 1] += sign * 1e-2
            moved.append(evaluate(build, x, LENGTHS)[0][0])
        # Each float32 sum of about 1 is rounded by 1e-7, which is divided by 2e-2.
        slope = (moved[0] - moved[1]) / 2e-2
        assert gradient[row, step, 1] == pytest.approx(slope, rel=2e-2, abs=2e-5)
    np.testing.assert_array_equal(gradient[1, 2:], 0)
    np.testing.assert_array_equal(gradient[2], 0)


@pytest.mark.parametrize("weighted", [False, True])
def test_interest_is_a_sum_over_the_true_steps(weighted):
    def build(s, n, t):
        return din.interest(s, n, t, hidden_units=(4,), activation="tanh", softmax=weighted)

    found, v = evaluate(build, STEPS, LENGTHS, TARGET)
    for row, length in enumerate(LENGTHS):
        e, t = STEPS[row, :length], np.tile(TARGET[row], (length, 1))
        pairs = np.concatenate([e, t, e - t, e * t], axis=1)
        scores = mlp(pairs, v, "attention/", 1, np.tanh)
        if weighted and length:
            scores = softmax(scores, axis=0)
        close(found[row], (scores * e).sum(0))


def test_interests_evolve_by_their_attention_to_the_target():
    model = MODELS["dien"](feature_specs.parse(DOCUMENT), {"recurrent_units": 4})
    found, v = evaluate(lambda s, n, t: model.history(s, n, t, "infer"), STEPS, LENGTHS, TARGET)
    for row, length in enumerate(LENGTHS):
        states = np.array(list(gru_loop(STEPS[row, :length], v, "interests"))).reshape(length, 4)
        if not length:
            close(found[row], np.zeros(4))
            continue
        weights = softmax(states @ (TARGET[row] @ v["attention/kernel"]))
        close(found[row], list(gru_loop(states, v, "evolution", weights))[-1])


def test_the_next_step_is_told_from_one_of_another_row():
    states = np.float32(
        [[[1, 0], [2, 1], [9, 9]], [[0, 1], [9, 9], [9, 9]], [[1, 1], [0, 2], [9, 9]]]
    )
    after = np.float32(
        [[[9, 9], [1, 2], [3, 0]], [[9, 9], [9, 9], [9, 9]], [[9, 9], [2, 1], [9, 9]]]
    )
    lengths = np.array([3, 1, 2], np.int64)
    found, _ = evaluate(din.next_step_loss, states, after, lengths)
    # Scores of the true steps: 1, 6 and 3. Row 0 also has the first step of row 2, which scores 2.
    # Row 1 has no next step, so row 2 is not compared with it.
    losses = -np.log(sigmoid(np.array([1, 6, 3, -2])))
    close(found, losses.sum() / 3)


@pytest.mark.parametrize(("weight", "count"), [(0.5, 1), (0, 0)])
def test_only_training_has_the_auxiliary_loss(weight, count):
    model = MODELS["dien"](feature_specs.parse(DOCUMENT), {"auxiliary_weight": weight})
    for mode, expected in (("train", count), ("eval", 0), ("infer", 0)):
        with tf.Graph().as_default():
            model.logits(Transform(model.spec).features(tf.constant([record("a", "b")])), mode)
            assert len(tf.compat.v1.losses.get_regularization_losses()) == expected


def test_self_attention():
    x = RNG.normal(size=(4, 5, 4)).astype(np.float32)
    found, v = evaluate(lambda s, n: transformer.self_attention(s, n, "a", heads=2), x, LENGTHS)
    for row, length in enumerate(LENGTHS):
        if not length:
            continue  # Pooling has zeros for it.
        s = x[row, :length]
        q, k, value = (s @ v[f"a/{n}/kernel"] for n in ("query", "key", "value"))
        q, value = q + v["a/query/bias"], value + v["a/value/bias"]
        heads = [
            softmax(q[:, h] @ k[:, h].T / np.sqrt(2)) @ value[:, h]
            for h in (slice(0, 2), slice(2, 4))
        ]
        expected = np.concatenate(heads, axis=1) @ v["a/output/kernel"] + v["a/output/bias"]
        close(found[row, :length], expected)


def test_positions_count_back_from_the_last_step():
    codes, _ = evaluate(lambda n: transformer.position_codes(n, 3, 4), np.array([3, 1], np.int64))
    back = np.array([[2, 1, 0], [0, -1, -2]])[:, :, None] / np.array([1, 100])
    close(codes, np.concatenate([np.sin(back), np.cos(back)], axis=2))


DOCUMENT = {
    "features": {
        "seen": {"dtype": "string", "shape": "variable"},
        "stay": {"dtype": "float32", "shape": "variable"},
        "item": {"dtype": "string"},
        "price": {"dtype": "float32"},
        "city": {"dtype": "string"},
    },
    "embedding_tables": {"items": {"dimension": 4}},
    "columns": {
        "seen": {"hash_bucket": "seen", "size": 20, "sequence": True},
        "item": {"hash_bucket": "item", "size": 20},
        "stay": {"sequence_numeric": "stay"},
        "price": {"numeric": "price"},
        "seen_emb": {"embedding": "seen", "table": "items"},
        "item_emb": {"embedding": "item", "table": "items"},
        "city": {"hash_bucket": "city", "size": 5},
        "city_emb": {"embedding": "city", "dimension": 2},
    },
    "groups": {
        "steps": ["seen_emb", "stay"], "target": ["item_emb", "price"],
        "deep": ["city_emb", "item_emb"],
    },
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}  # fmt: skip


def record(*seen):
    row = {"seen": list(seen), "stay": [len(s) * 0.3 for s in seen], "item": "a", "price": 2.0,
           "city": "rome"}  # fmt: skip
    return writing.example(row).SerializeToString()


@pytest.mark.parametrize("pooling", ["last", "max"])
@pytest.mark.parametrize("name", ["dien", "din", "gru", "lstm", "transformer"])
def test_a_row_does_not_depend_on_the_rows_beside_it(name, pooling):
    """So that steps which are there in other rows alone change nothing; nor does a lack of any."""
    params = {} if name in ("dien", "din") else {"pooling": pooling}
    params = {"hidden_units": [16], **params}
    model = MODELS[name](feature_specs.parse(DOCUMENT), params)
    rows = [record("a", "bb"), record(), record("c", "a", "dd", "eee", "a"), record("bb")]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)  # Or all units of a layer may start off.
        serialized = tf.compat.v1.placeholder(tf.string, [None])
        logits = model.logits(Transform(model.spec).features(serialized), "infer")
        gradients = tf.gradients(tf.reduce_sum(logits**2), tf.compat.v1.trainable_variables())
        gradients = [tf.reduce_sum(tf.convert_to_tensor(g)) for g in gradients if g is not None]
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.tables_initializer())
        together = session.run(logits, {serialized: rows})
        alone = [session.run(logits, {serialized: [row]}) for row in rows]
        assert np.isfinite(session.run(gradients, {serialized: [record()]})).all()
    np.testing.assert_allclose(np.concatenate(alone), together, atol=1e-5)
    assert len(np.unique(np.round(together, 6))) == 4


def test_every_variable_of_a_sequence_model_learns():
    spec = feature_specs.parse(DOCUMENT)
    for name in ("dien", "din", "gru", "lstm", "transformer"):
        model = MODELS[name](spec, {"hidden_units": [4]})
        with tf.Graph().as_default():
            logits = model.logits(
                Transform(spec).features(tf.constant([record("a", "b"), record()])), "train"
            )
            variables = tf.compat.v1.trainable_variables()
            loss = tf.reduce_sum(logits) + tf.compat.v1.losses.get_regularization_loss()
            gradients = tf.gradients(loss, variables)
        assert [v.op.name for v, g in zip(variables, gradients) if g is None] == []


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"target": ["price", "item_emb"]},
         "group 'target': column 'price' has the width 1, but this model pairs it with 'seen_emb' "
         "of group 'steps', which has the width 4. Make the widths equal, or list both groups in "
         "the same order."),
        ({"target": ["item_emb"], "deep": ["city_emb", "price"]},
         "group 'target' has 1 columns, but group 'steps' has 2. This model pairs them in order. "
         "List equally many in both."),
    ],
)  # fmt: skip
def test_targets_that_do_not_fit_the_steps(groups, message):
    document = copy.deepcopy(DOCUMENT)
    document["groups"].update(groups)
    for name in ("dien", "din"):
        with pytest.raises(ek.ConfigError) as error:
            MODELS[name](feature_specs.parse(document))
        assert str(error.value) == message


def test_heads_that_do_not_divide_the_width_of_a_step():
    """As of `sasrec`, whose width is by default the width of the steps."""
    with pytest.raises(ek.ConfigError, match=r"heads: got 2, expected a number that divides .*, 3"):
        evaluate(lambda s, n: transformer.self_attention(s, n, "a", heads=2), STEPS, LENGTHS)


def test_heads_that_do_not_divide_the_width():
    with pytest.raises(
        ek.ConfigError, match="width must be even and a multiple of heads, 4, got 10"
    ):
        MODELS["transformer"](feature_specs.parse(DOCUMENT), {"width": 10, "heads": 4})


def test_an_attention_may_have_any_activation():
    assert "prelu" in ACTIVATIONS
    params = {"attention_activation": "prelu", "attention_units": [3]}
    model = MODELS["din"](feature_specs.parse(DOCUMENT), params)
    with tf.Graph().as_default():
        model.logits(Transform(model.spec).features(tf.constant([record("a")])), "train")
        names = {v.op.name for v in tf.compat.v1.global_variables()}
    assert "dnn/attention/hiddenlayer_0/alpha" in names
