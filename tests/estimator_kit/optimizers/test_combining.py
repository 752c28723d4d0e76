"""Combinations of losses, compared with NumPy and values by hand; errors."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.checkpoints.model_outline import outline
from estimator_kit.models import MODELS
from estimator_kit.optimizers.combining import GradNorm, parse_combination
from estimator_kit.optimizers.combining.pcgrad import order, products, projected_sum
from estimator_kit.optimizers.sparse import on_common_rows
from estimator_kit.tf_estimator import ModeKeys
from tests.conftest import make_rows
from tests.estimator_kit.model.test_model_fn import Constant, build


@pytest.fixture
def spec(document):
    del document["labels"]["buy"]["weight"]
    return feature_specs.parse(document)


class OneNumber(ek.ModelFn):
    """Logits 2 v and -v of a variable v that both objectives share, and one of each own."""

    def logits(self, features, mode):
        v = tf.compat.v1.get_variable("shared", [], initializer=tf.constant_initializer(0.5))
        rows = tf.shape(features["user"])[0]
        logits = {}
        for name, factor in (("click", 2.0), ("buy", -1.0)):
            own = tf.compat.v1.get_variable(f"own_{name}", [], initializer=tf.zeros_initializer())
            logits[name] = tf.fill([rows, 1], factor * v + own)
        return logits


def train(model, *, steps=1, rows=40):
    """(values of all variables before each step and at the end, losses of each step)."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        result = build(model, ModeKeys.TRAIN, rows=rows)
        variables = {v.op.name: v for v in tf.compat.v1.global_variables()}
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.tables_initializer())
        history, losses = [session.run(variables)], []
        for _ in range(steps):
            losses.append(session.run((result.loss, result.train_op))[0])
            history.append(session.run(variables))
    return history, losses


def cross_entropy(z, share):
    """(mean loss, its derivative by z) of the logit z for a share of rows of label 1."""
    p = 1 / (1 + np.exp(-z))
    return -(share * np.log(p) + (1 - share) * np.log(1 - p)), p - share


def shares(rows=40):
    return {name: np.mean([row[name] for row in make_rows(rows)]) for name in ("click", "buy")}


SGD = {"optimizer": "sgd", "learning_rate": 0.1}


def test_uncertainty_is_learned_with_the_model(spec):
    history, losses = train(Constant(spec, {**SGD, "combine": "uncertainty"}), steps=2)
    names = [f"combined_losses/log_variance/{name}" for name in ("click", "buy")]
    value, s = np.full(2, 0.5), np.zeros(2)
    weight = np.array([1, 0.5])
    for before, after, loss in zip(history, history[1:], losses):
        np.testing.assert_allclose([before[name] for name in names], s, atol=1e-6)
        parts = [cross_entropy(z, share) for z, share in zip(value, shares().values())]
        own, slope = np.array(parts).T
        assert loss == pytest.approx(np.sum(weight * (np.exp(-s) * own + s / 2)), rel=1e-5)
        value = value - 0.1 * weight * np.exp(-s) * slope
        s = s - 0.1 * weight * (0.5 - np.exp(-s) * own)
        np.testing.assert_allclose(after["value"], value, atol=1e-6)
    np.testing.assert_allclose([history[-1][name] for name in names], s, atol=1e-6)


def test_uncertainty_learns_nothing_from_a_batch_without_weight(document):
    document["labels"]["buy"]["weight"] = "none"
    document["features"]["none"] = {"dtype": "float32", "default": 0.0}
    document["columns"]["none"] = {"numeric": "none"}
    document["groups"]["deep"].append("none")
    model = Constant(feature_specs.parse(document), {**SGD, "combine": "uncertainty"})
    history, _ = train(model, steps=3)
    assert history[-1]["combined_losses/log_variance/buy"] == 0
    assert history[-1]["combined_losses/log_variance/click"] != 0


def test_uncertainty_of_numbers_has_half_the_squared_error(document):
    document["objectives"]["buy"]["head"] = "regression"
    spec = feature_specs.parse(document)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        total = parse_combination("uncertainty").total(
            {"click": tf.constant(2.0), "buy": tf.constant(3.0)}, spec
        )
        session.run(tf.compat.v1.global_variables_initializer())
        for variable, value in zip(tf.compat.v1.global_variables(), (0.5, 0.2)):
            variable.load(value, session)
        click, buy = 2 * np.exp(-0.5) + 0.25, 0.5 * 3 * np.exp(-0.2) + 0.1
        assert click == pytest.approx(1.4631, abs=1e-4)
        assert session.run(total) == pytest.approx(click + 0.5 * buy, rel=1e-6)


def test_a_step_of_gradnorm_by_hand():
    def stepped(weights, norms, losses, firsts):
        arrays = (np.array(x, np.float32) for x in (weights, norms, losses, firsts))
        found = GradNorm(learning_rate=0.1).stepped(*map(tf.constant, arrays))
        return found.numpy()

    np.testing.assert_allclose(
        stepped([1, 1], [3, 1], [2, 2], [2, 2]), [0.7 / 0.9, 1.1 / 0.9], rtol=1e-6
    )
    # Paces 1 and 0.25 are 1.6 and 0.4 of their mean; targets 2 * 1.6^1.5 = 4.05 and 0.51.
    np.testing.assert_allclose(
        stepped([1, 1], [3, 1], [4, 1], [4, 4]), [1.3 / 1.1, 0.9 / 1.1], rtol=1e-6
    )
    # A task without a loss in the batch, and a weight that would fall below 0.
    np.testing.assert_allclose(stepped([1.5, 0.5], [3, 0], [2, 0], [2, 2]), [1.5, 0.5])
    low = stepped([0.1, 1.9], [9, 0.1], [2, 2], [2, 2])
    np.testing.assert_allclose(low, np.array([0.001, 1.91]) * 2 / 1.911, rtol=1e-5)


def test_gradnorm_in_training(spec):
    combine = {"gradnorm": {"shared": "shared", "learning_rate": 0.2}}
    history, losses = train(OneNumber(spec, {**SGD, "combine": combine}), steps=3)
    w = np.array([1, 0.5]) * 2 / 1.5
    v, own = 0.5, np.zeros(2)
    firsts = None
    factor = np.array([2.0, -1.0])
    for after, loss in zip(history[1:], losses):
        found = [cross_entropy(z, s) for z, s in zip(factor * v + own, shares().values())]
        value, slope = np.array(found).T
        firsts = value if firsts is None else firsts
        assert loss == pytest.approx(np.sum(w * value), rel=1e-5)
        norms = np.abs(factor * slope)
        v, own = v - 0.1 * np.sum(w * factor * slope), own - 0.1 * w * slope
        pace = value / firsts
        target = np.mean(w * norms) * (pace / pace.mean()) ** 1.5
        w = w - 0.2 * np.sign(w * norms - target) * norms
        w *= 2 / w.sum()
        names = ("click", "buy")
        np.testing.assert_allclose(
            [after[f"combined_losses/weight/{name}"] for name in names], w, rtol=1e-4
        )
        np.testing.assert_allclose(
            [after[f"combined_losses/first_loss/{name}"] for name in names], firsts, rtol=1e-5
        )
        np.testing.assert_allclose(after["shared"], v, rtol=1e-5)


def surgery(gradients, order):
    """Algorithm 1 of the paper as it is written there."""
    total = np.zeros_like(gradients[0])
    for i, g in enumerate(gradients):
        g = g.copy()
        for j in order[i]:
            if j != i and g @ gradients[j] < 0:
                g -= g @ gradients[j] / (gradients[j] @ gradients[j]) * gradients[j]
        total += g
    return total


def test_pcgrad_by_hand():
    found = projected_sum(
        products([[tf.constant([1.0, 0.0]), tf.constant([-1.0, 1.0])]]),
        tf.constant([[0, 1], [1, 0]]),
    )
    g = found[0] * np.array([1.0, 0.0]) + found[1] * np.array([-1.0, 1.0])
    np.testing.assert_allclose(g, [0.5, 1.5], rtol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_pcgrad_of_several_objectives_in_any_order(seed):
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(4, 6)).astype(np.float32)
    orders = np.array([rng.permutation(4) for _ in range(4)], np.int32)
    parts = [[tf.constant(g[:2]) for g in gradients], [tf.constant(g[2:]) for g in gradients]]
    factors = projected_sum(products(parts), tf.constant(orders))
    # A sum of numbers of about 1, which may be near 0.
    np.testing.assert_allclose(
        factors.numpy() @ gradients, surgery(gradients, orders), rtol=1e-4, atol=1e-5
    )


def test_sparse_gradients_have_the_products_of_dense_ones():
    """Of a table with more rows than could ever be made dense."""
    size = tf.constant([10**12, 2], tf.int64)

    def rows(values, ids):
        return tf.IndexedSlices(tf.constant(values), tf.constant(ids, tf.int64), size)

    first = rows([[1.0, 2.0], [3.0, 4.0], [1.0, 1.0]], [7, 10**11, 7])
    second = rows([[-1.0, 1.0]], [7])
    third = rows([[5.0, 0.0]], [3])
    found = products([[first, second, third, None]])
    # Row 7 of the first is (2, 3).
    np.testing.assert_array_equal(
        found, [[4 + 9 + 25, 1, 0, 0], [1, 2, 0, 0], [0, 0, 25, 0], [0, 0, 0, 0]]
    )
    assert [part.shape[0] for part in on_common_rows([first, third])] == [3, 3]


def test_the_order_is_random_seeded_and_another_one_each_step():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.train.get_or_create_global_step()
        orders = [order(5, seed, step) for seed in (1, 1, 2)]
        session.run(tf.compat.v1.global_variables_initializer())
        first, again, other = session.run(orders)
        session.run(tf.compat.v1.assign_add(step, 1))
        later = session.run(orders[0])
    assert np.sort(first, axis=1).tolist() == [[0, 1, 2, 3, 4]] * 5
    assert (first == again).all() and (first != other).any() and (first != later).any()


def test_pcgrad_projects_what_is_shared_and_leaves_the_rest(spec):
    history, _ = train(OneNumber(spec, {**SGD, "combine": "pcgrad"}))
    slope = [cross_entropy(z, s)[1] for z, s in zip((1.0, -0.5), shares().values())]
    gradients = [np.array([2.0 * slope[0]]), np.array([-0.5 * slope[1]])]
    expected = surgery(gradients, [[0, 1], [0, 1]])
    # Two numbers of opposite signs leave nothing of each other.
    assert gradients[0] > 0 > gradients[1] and expected == pytest.approx(0, abs=1e-6)
    after = history[1]
    assert after["shared"] == pytest.approx(0.5, abs=1e-6)
    np.testing.assert_allclose(after["own_click"], -0.1 * slope[0], rtol=1e-5)
    np.testing.assert_allclose(after["own_buy"], -0.1 * 0.5 * slope[1], rtol=1e-5)


@pytest.mark.parametrize("name", ["dnn", "shared_bottom", "mmoe", "cgc", "ple", "esmm", "aitm"])
def test_models_of_several_objectives_know_what_they_share(spec, name):
    params = {"experts": 2} if name == "mmoe" else {}
    model = MODELS[name](spec, {"hidden_units": [4, 3], "combine": "gradnorm", **params})
    graphs = outline(model)
    # Like slots, they do not belong to the weights that a warm start takes.
    kept = {n for n in graphs.variables if n.startswith("combined_losses/")}
    assert len(kept) == 4 and not kept & graphs.weights
    found = {n for n in graphs.trainable if re.match(model.shared_prefix(), n)}
    embedding = "dnn/input_from_feature_columns/input_layer/{}_embedding/embedding_weights".format
    tables = {embedding("user"), embedding("tags")}
    layers = {
        "dnn": ["dnn"], "shared_bottom": ["dnn/bottom"],
        "mmoe": [f"dnn/expert_{i}" for i in range(2)],
        "cgc": ["dnn/level_0/expert_shared_0", "dnn/level_0/expert_shared_1"],
        "ple": ["dnn/level_1/expert_shared_0", "dnn/level_1/expert_shared_1"],
    }.get(name)  # fmt: skip
    if layers is None:
        assert found == tables
    else:
        assert found == {f"{x}/hiddenlayer_1/{y}" for x in layers for y in ("bias", "kernel")}


class Penalized(OneNumber):
    def logits(self, features, mode):
        logits = super().logits(features, mode)
        variables = tf.compat.v1.trainable_variables()
        tf.compat.v1.losses.add_loss(3 * variables[0], "regularization_losses")
        return logits


@pytest.mark.parametrize(
    "combine", ["weights", "uncertainty", {"gradnorm": {"shared": "shared"}}, "pcgrad"]
)
def test_regularization_is_added_once(spec, combine):
    plain, plain_losses = train(OneNumber(spec, {**SGD, "combine": combine}))
    found, losses = train(Penalized(spec, {**SGD, "combine": combine}))
    assert losses[0] - plain_losses[0] == pytest.approx(3 * 0.5, rel=1e-5)
    assert found[1]["shared"] - plain[1]["shared"] == pytest.approx(-0.1 * 3, rel=1e-5)
    assert found[1]["own_buy"] == plain[1]["own_buy"]


@pytest.mark.ci
def test_evaluation_has_the_fixed_weights_and_shows_the_learned_ones(spec):
    def evaluated(combine):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            result = build(OneNumber(spec, {"combine": combine}), ModeKeys.EVAL, rows=40)
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(tf.compat.v1.tables_initializer())
            shown = {
                name: value
                for name, (value, _) in result.eval_metric_ops.items()
                if name.startswith("loss_factor/")
            }
            return session.run((result.loss, shown))

    plain, none = evaluated("weights")
    assert none == {}
    learned, shown = evaluated("uncertainty")
    assert learned == plain and shown == {"loss_factor/click": 1.0, "loss_factor/buy": 1.0}
    learned, shown = evaluated("gradnorm")
    assert learned == plain
    assert shown == pytest.approx({"loss_factor/click": 4 / 3, "loss_factor/buy": 2 / 3})


class OwnLoss(OneNumber):
    def loss(self, losses):
        return losses["click"]


class OwnStep(OneNumber):
    def train_op(self, loss):
        return super().train_op(loss)


@pytest.mark.parametrize(
    ("model", "combine", "message"),
    [
        (OneNumber, "pcgrd", "unknown combine 'pcgrd'. Did you mean 'pcgrad'?"),
        (OneNumber, {"gradnorm": {"alfa": 1}},
         "combine 'gradnorm': unknown field 'alfa'. Did you mean 'alpha'?"),
        (OwnLoss, "uncertainty",
         "combine: uncertainty would bypass OwnLoss.loss, which combines the losses itself. "
         "Remove the parameter or the method."),
        (OwnStep, "pcgrad",
         "combine: pcgrad makes the gradients itself and would bypass OwnStep.train_op. Remove "
         "the parameter or the method."),
        (OneNumber, "gradnorm",
         "combine: gradnorm: the model does not say which variables its objectives share. Name "
         "the last ones, as in {gradnorm: {shared: dnn/hiddenlayer_1}}."),
        (OneNumber, {"gradnorm": {"shared": "dnn"}},
         "combine: gradnorm: shared: 'dnn' fits no variable that is trained. Use one of: shared, "
         "own_click, own_buy."),
        (OneNumber, {"gradnorm": {"shared": "own"}},
         "combine: gradnorm: objective 'click' does not depend on own_buy. Name variables that "
         "all objectives share, as in {gradnorm: {shared: dnn/hiddenlayer_0}}."),
    ],
)  # fmt: skip
def test_what_cannot_be_combined(spec, model, combine, message):
    with pytest.raises(ek.ConfigError) as error:
        train(model(spec, {"combine": combine}))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("objectives", "combine", "message"),
    [
        ({"click": {"head": "binary"}}, "pcgrad",
         "combine: pcgrad needs several objectives, but the spec has only 'click'. Remove the "
         "parameter."),
        ({"click": {"head": "binary"}, "buy": {"head": "poisson"}}, "uncertainty",
         "combine: uncertainty needs losses that are never negative, but the loss of objective "
         "'buy' may be. Set loss: {poisson: {full: true}}."),
        ({"click": {"head": "binary"},
          "buy": {"head": "ranking", "group_by": "user", "loss": "approx_ndcg"}}, "gradnorm",
         "combine: gradnorm needs losses that are never negative, but approx_ndcg of objective "
         "'buy' always is. Use another loss."),
        ({"click": {"head": "binary"}, "buy": {"head": "binary", "loss_weight": 0}}, "gradnorm",
         "combine: gradnorm: objective 'buy' has loss_weight: 0, but its weight must start above "
         "0. Raise loss_weight, or remove the objective."),
    ],
)  # fmt: skip
def test_objectives_that_cannot_be_combined(document, objectives, combine, message):
    document["objectives"] = objectives
    document["labels"] = {name: {"dtype": "int64"} for name in objectives}
    with pytest.raises(ek.ConfigError) as error:
        OneNumber(feature_specs.parse(document), {"combine": combine})
    assert str(error.value) == message
