"""Losses that a model adds, and what it puts into the collections of TensorFlow 1."""

from __future__ import annotations

import glob
import inspect
import math
import re

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.checkpoints.model_outline import outline
from estimator_kit.model.names import read_metrics
from input_pipelines.input_fns import PADDING
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conftest import make_rows
from tests.estimator_kit.model.test_model_fn import Constant, build

v1 = tf.compat.v1
KEYS = v1.GraphKeys
ModeKeys = tf.estimator.ModeKeys
P = 1 / (1 + math.exp(-0.5))


@pytest.fixture
def spec(document):
    return feature_specs.parse(document)


def prices(rows):
    return np.array([math.log1p(row["price"]) for row in rows])


def cross_entropy(labels):
    return np.mean([-math.log(P if label else 1 - P) for label in labels])


def of_heads(rows):
    """The loss of a model that answers 0.5 for all rows."""
    bought = [row["buy"] for row in rows if row["click"]]
    return cross_entropy([row["click"] for row in rows]) + 0.5 * cross_entropy(bought)


def batches(spec, rows, size):
    """An input_fn of batches of `size` rows and a last one of fewer."""
    records = [writing.example(row).SerializeToString() for row in rows]

    def make():
        parse = tf.autograph.experimental.do_not_convert(Transform(spec).features_and_labels)
        return tf.data.Dataset.from_tensor_slices(records).batch(size).map(parse)

    return make


class Adds(Constant):
    """Adds the price of a row as its loss, and again with other weights."""

    def logits(self, features, mode):
        price = features["price"]
        self.add_loss("price", price)
        self.add_loss("weighted", price[:, 0], tf.cast(price[:, 0] > 1, tf.float32) / 2)
        return super().logits(features, mode)


class Still(Adds):
    """Its training changes nothing, so that its numbers follow from the rows."""

    def optimizers(self):
        return [("", self.make_optimizer("sgd", 1e-12))]


def test_training_and_evaluation_in_uneven_batches_by_hand(spec):
    rows = make_rows(30)
    price = prices(rows)
    high = price[price > 1]
    assert 0 < len(high) < 30
    expected = of_heads(rows) + price.mean() + high.mean()
    with tf.Graph().as_default(), v1.Session() as session:
        loss = build(Still(spec), ModeKeys.TRAIN, rows=30).loss
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        assert session.run(loss) == pytest.approx(expected, rel=1e-5)
    model = tf.estimator.Estimator(Still(spec))
    model.train(batches(spec, rows, 30), steps=1)
    metrics = read_metrics(model.evaluate(batches(spec, rows, 7)))
    assert metrics["added_loss/price"] == pytest.approx(price.mean(), rel=1e-5)
    assert metrics["added_loss/weighted"] == pytest.approx(high.mean(), rel=1e-5)
    assert metrics["loss"] == pytest.approx(expected, rel=1e-5)
    assert set(next(model.predict(batches(spec, rows, 5)))) >= {"click/logits"}


@pytest.mark.parametrize("reduction", ["mean", "sum", "sum_over_batch_size"])
def test_masked_rows_and_padding_count_as_in_the_loss_of_the_objective(document, reduction):
    del document["objectives"]["click"], document["labels"]["click"]
    document["features"]["w"] = {"dtype": "float32"}
    document["labels"]["buy"]["weight"] = "w"  # It masks the rows without a click.
    document["objectives"]["buy"]["reduction"] = reduction
    spec = feature_specs.parse(document)
    rows = [{**row, "w": float(row["click"])} for row in make_rows(30)]
    price = prices([row for row in rows if row["click"]])
    divisor = {"mean": len(price), "sum": 1, "sum_over_batch_size": 30}[reduction]
    with tf.Graph().as_default(), v1.Session() as session:
        v1.train.get_or_create_global_step()
        records = [writing.example(row).SerializeToString() for row in rows]
        features, labels = Transform(spec).features_and_labels(tf.constant(records))
        padding = v1.placeholder_with_default(False, [])
        made = Still(spec)(features, {**labels, PADDING: padding}, ModeKeys.EVAL)
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        session.run(v1.tables_initializer())
        value, update = made.eval_metric_ops["added_loss/price"]
        session.run(update)
        assert session.run(made.loss, {padding: True}) == 0
        session.run(update, {padding: True})
        found = session.run(value)
    if reduction != "sum_over_batch_size":  # The rows of padding are rows.
        assert found == pytest.approx(price.sum() / divisor, rel=1e-5)


@pytest.mark.parametrize("combine", ["pcgrad", "uncertainty", "gradnorm"])
def test_an_added_loss_trains_with_every_combination(spec, combine):
    class Pulls(Constant):
        def logits(self, features, mode):
            pulled = v1.get_variable("pulled", [], initializer=tf.ones_initializer())
            self.add_loss("pull", pulled * tf.ones_like(features["price"]))
            return super().logits(features, mode)

        def shared_prefix(self):
            return "value"

    params = {"combine": combine, "optimizer": "sgd", "learning_rate": 0.25}
    with tf.Graph().as_default(), v1.Session() as session:
        made = build(Pulls(spec, params), ModeKeys.TRAIN)
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        session.run(made.train_op)
        pulled = next(v for v in v1.trainable_variables() if v.op.name == "pulled")
        assert session.run(pulled) == pytest.approx(0.75)


def losses_of_tensorflow(price):
    """{name: the loss} of each function of tf.compat.v1.losses that adds one."""
    found = {}
    zeros = tf.zeros_like(price)
    for name, function in inspect.getmembers(v1.losses, inspect.isfunction):
        names = inspect.signature(function).parameters
        if "loss_collection" not in names or name in ("add_loss", "get_losses"):
            continue
        classes = tf.concat([zeros, price], 1)
        given = {
            "labels": zeros, "predictions": tf.sigmoid(price), "logits": price, "losses": price,
            "multi_class_labels": zeros, "onehot_labels": tf.ones_like(classes) / 2, "axis": 1,
        }  # fmt: skip
        if name == "sparse_softmax_cross_entropy":
            given |= {"labels": tf.zeros_like(price[:, 0], tf.int64), "logits": classes}
        elif name == "softmax_cross_entropy":
            given["logits"] = classes
        found[name] = function(**{k: v for k, v in given.items() if k in names})
    own = tf.reduce_mean(price) * 3
    v1.losses.add_loss(own)
    return {**found, "add_loss": own}


def test_every_loss_of_tensorflow_that_logits_adds_counts(spec):
    found = {}

    class Old(Constant):
        def logits(self, features, mode):
            found.update(losses_of_tensorflow(features["price"]))
            return super().logits(features, mode)

    rows = make_rows(30)
    for mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
        with tf.Graph().as_default(), v1.Session() as session:
            made = build(Old(spec), mode, rows=30)
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            session.run(v1.tables_initializer())
            values, loss = session.run([found, made.loss])
            assert len(values) >= 10 and values["add_loss"] == pytest.approx(
                3 * prices(rows).mean()
            )
            expected = of_heads(rows) + sum(values.values())
            assert loss == pytest.approx(expected, rel=1e-5)
            if mode == ModeKeys.EVAL:
                value, update = made.eval_metric_ops["total_loss"]
                session.run(update)
                assert session.run(value) == pytest.approx(expected, rel=1e-5)


def test_losses_of_tensorflow_may_be_the_losses_of_rows(spec):
    class Rows(Constant):
        def example_losses(self, labels, predictions, weights, features):
            click = tf.cast(labels["click"], tf.float32)
            made = v1.losses.absolute_difference(
                click, predictions["click/logistic"][:, 0], reduction="none"
            )
            return {"click": made}

    outline(Rows(spec))


class Scalar(Constant):
    def logits(self, features, mode):
        self.add_loss("mine", tf.reduce_mean(features["price"]))
        return super().logits(features, mode)


class Number(Constant):
    def logits(self, features, mode):
        self.add_loss("mine", features["price"], 0.5)
        return super().logits(features, mode)


class Twice(Constant):
    def logits(self, features, mode):
        self.add_loss("mine", features["price"])
        self.add_loss("mine", features["price"])
        return super().logits(features, mode)


class OfRows(Constant):
    def logits(self, features, mode):
        v1.losses.absolute_difference(features["price"], features["price"] * 2, reduction="none")
        return super().logits(features, mode)


class Unused(Constant):
    def example_losses(self, labels, predictions, weights, features):
        v1.losses.mean_squared_error(features["price"], features["price"] * 2)
        return {}


class Keeps(Constant):
    def logits(self, features, mode):
        self.kept = tf.reduce_mean(features["price"])
        return super().logits(features, mode)

    def loss(self, losses):
        return super().loss(losses) + self.kept


def filling(key):
    class Fills(Constant):
        def logits(self, features, mode):
            v1.add_to_collection(getattr(KEYS, key), tf.no_op("mine"))
            return super().logits(features, mode)

    return Fills


def trained_by(*keys):
    class Trains(Constant):
        def logits(self, features, mode):
            mine = v1.get_variable(
                "mine", [], initializer=tf.ones_initializer(), trainable=False,
                collections=[KEYS.GLOBAL_VARIABLES, *keys],
            )  # fmt: skip
            return super().logits(features, mode) * mine

    return Trains


def test_a_variable_is_trained_that_only_trainable_resource_variables_has(spec):
    model = trained_by(KEYS.TRAINABLE_RESOURCE_VARIABLES)
    assert "mine" in outline(model(spec)).trainable
    frozen = outline(model(spec, {"freeze": ["mine"]}))  # `freeze` refuses what it does not know.
    assert "mine" in frozen.trainable


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (trained_by(KEYS.TRAINABLE_RESOURCE_VARIABLES, KEYS.TRAINABLE_VARIABLES),
         r"Trains: expected each variable in one collection of trained variables, got mine in "
         r"TRAINABLE_RESOURCE_VARIABLES and another time\. Optimizers would train it twice in each "
         r"step\. Add it once\."),
        (Scalar, r".*test_added_losses\.py:\d+: Scalar\.add_loss: expected a number for each row "
         r"for 'mine', float32 \[rows\], got .*\. Do not reduce the losses, since the kit weights "
         r"each row\."),
        (Number, r".*: Number\.add_loss: expected a number for each row for 'mine', float32 "
         r"\[rows\], got 0\.5\. .*"),
        (Twice, r".*: Twice\.add_loss: got the loss 'mine' twice\. Use another name\."),
        (OfRows, r"OfRows\.logits: expected one number for each loss in tf\.GraphKeys\.LOSSES, got "
         r".*\. Use self\.add_loss\(name, losses\) for the losses of rows\."),
        (Unused, r"Unused: the loss mean_squared_error/value:0 is in tf\.GraphKeys\.LOSSES, but "
         r"the model does not use it, so it would have no effect\. Return it, or use "
         r"self\.add_loss in logits\."),
        (Keeps, r".*: Keeps\.loss: it uses a tensor of the batch, but an evaluation calls it with "
         r"the losses over all rows\. Use self\.add_loss\(name, losses\) in logits, which also "
         r"works in an evaluation\."),
        *(
            (filling(key), rf"Fills\.logits: the collection tf\.compat\.v1\.GraphKeys\.{key} "
             r"replaces what TensorFlow does for all variables, got .*mine.*\. .*\.")
            for key in ("INIT_OP", "LOCAL_INIT_OP", "READY_FOR_LOCAL_INIT_OP", "READY_OP",
                        "SAVERS", "SUMMARY_OP")
        ),
    ],
)  # fmt: skip
def test_what_would_have_no_effect_or_another_is_refused(spec, model, message):
    with pytest.raises(ek.ConfigError) as error:
        outline(model(spec))
    assert re.fullmatch(message, str(error.value), re.S), error.value


def test_the_other_collections_have_the_effect_that_they_have_with_tf_estimator(spec, tmp_path):
    class Old(Constant):
        def logits(self, features, mode):
            counted = v1.get_variable(
                "counted", [], initializer=tf.zeros_initializer(), trainable=False
            )
            v1.add_to_collection(KEYS.UPDATE_OPS, counted.assign_add(1.0))
            start = tf.lookup.KeyValueTensorInitializer(["a"], [7.0])  # In TABLE_INITIALIZERS.
            table = v1.lookup.StaticHashTable(start, -1.0)
            seven = table.lookup(tf.fill([tf.shape(features["user"])[0]], "a"))
            v1.summary.scalar("mine", tf.reduce_mean(seven))
            local = v1.get_variable(
                "local", [], initializer=tf.constant_initializer(2.0), trainable=False,
                collections=[KEYS.LOCAL_VARIABLES, KEYS.METRIC_VARIABLES],
            )  # fmt: skip
            self.add_output("seven", seven + 0 * local)
            return super().logits(features, mode)

    rows = make_rows(6)
    config = tf.estimator.RunConfig(model_dir=str(tmp_path), save_summary_steps=1)
    model = tf.estimator.Estimator(Old(spec), config=config)
    model.train(batches(spec, rows, 2), steps=3)
    assert model.get_variable_value("counted") == 3
    model.evaluate(batches(spec, rows, 2))
    assert model.get_variable_value("counted") == 3
    assert [answer["seven"] for answer in model.predict(batches(spec, rows, 2))] == [7] * 6
    (events,) = glob.glob(f"{tmp_path}/events*")
    summaries = [e.summary.value for e in v1.train.summary_iterator(events)]
    assert [v.simple_value for values in summaries for v in values if v.tag == "mine"] == [7] * 3
