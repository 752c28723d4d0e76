"""The ModelFn contract: a plain model_fn, what a subclass may change, and what it may not break."""

from __future__ import annotations

import re
from typing import Optional

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.checkpoints.model_outline import outline, weights_of
from estimator_kit.models import MODELS, find_model
from input_pipelines.input_fns import PADDING
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conftest import make_rows
from tests.estimator_kit.small_training import batch_of
from tests.placed import without_place

ModeKeys = tf.estimator.ModeKeys


@pytest.fixture
def spec(document):
    return feature_specs.parse(document)


def build(model, mode, rows=5, **kwargs):
    """The EstimatorSpec of a model over real rows, in the current graph."""
    tf.compat.v1.train.get_or_create_global_step()
    records = [writing.example(row).SerializeToString() for row in make_rows(rows)]
    features, labels = Transform(model.spec).features_and_labels(tf.constant(records))
    return model(features, None if mode == ModeKeys.PREDICT else labels, mode, **kwargs)


class Constant(ek.ModelFn):
    """One trainable logit for each objective, whatever the features."""

    class Params(ek.ModelParams):
        start: float = 0.5
        note: Optional[str] = None

    def logits(self, features, mode):
        value = tf.compat.v1.get_variable(
            "value", [self.logits_dimension], initializer=tf.constant_initializer(self.params.start)
        )
        return tf.tile(value[tf.newaxis], [tf.shape(features["user"])[0], 1])


def test_the_loss_is_the_weighted_sum_of_the_objectives(spec):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        result = build(Constant(spec), ModeKeys.EVAL, rows=40)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.tables_initializer())
        loss = session.run(result.loss)
    rows = make_rows(40)
    p = 1 / (1 + np.exp(-0.5))

    def cross_entropy(labels):
        return np.mean([-np.log(p if label else 1 - p) for label in labels])

    clicks = [row["click"] for row in rows]
    bought = [row["buy"] for row in rows if row["click"]]
    expected = cross_entropy(clicks) + 0.5 * cross_entropy(bought)
    assert loss == pytest.approx(expected, rel=1e-6)


def test_metrics_are_always_named_with_their_objective(spec):
    metrics = outline(Constant(spec)).metrics
    assert {"auc/click", "auc/buy", "loss/click", "accuracy/buy", "rows", "loss"} <= metrics
    assert not {name for name in metrics if "/" not in name} - {"rows", "loss", "global_step"}


def test_signatures_of_a_prediction(spec):
    with tf.Graph().as_default():
        result = build(Constant(spec), ModeKeys.PREDICT)
    assert set(result.export_outputs) == {
        "serving_default",
        "predict_examples", "predict/click", "classify/click", "regress/click",
        "predict/buy", "classify/buy", "regress/buy",
    }  # fmt: skip
    assert set(result.predictions) == {
        f"{objective}/{key}"
        for objective in ("click", "buy")
        for key in ("logits", "logistic", "probabilities", "class_ids", "classes")
    }


def test_metrics_that_a_program_adds_are_given_labels_and_predictions(spec, tmp_path):
    rows = make_rows(40)

    def metric_fn(labels, predictions):
        error = predictions["click/logistic"][:, 0] - tf.cast(labels["click"], tf.float32)
        return {"my_error": tf.compat.v1.metrics.mean(error)}

    model = tf.estimator.Estimator(Constant(spec), model_dir=str(tmp_path))
    model = tf.estimator.add_metrics(model, metric_fn)
    model.train(batch_of(spec, rows), steps=1)
    value = model.get_variable_value("value")[0]
    metrics = model.evaluate(batch_of(spec, rows))
    expected = 1 / (1 + np.exp(-value)) - np.mean([row["click"] for row in rows])
    assert metrics["my_error"] == pytest.approx(expected, abs=1e-6)
    assert metrics["rows"] == 80  # The same 40 rows twice.


def test_an_added_output_is_a_prediction_and_nothing_that_a_meta_graph_would_hold(spec, caplog):
    class Double(Constant):
        def logits(self, features, mode):
            logits = super().logits(features, mode)
            self.add_output("double", 2 * logits)
            return logits

    for mode in (ModeKeys.PREDICT, ModeKeys.TRAIN):
        with tf.Graph().as_default(), caplog.at_level("WARNING"):
            result = build(Double(spec), mode)
            tf.compat.v1.train.export_meta_graph()
        if mode == ModeKeys.PREDICT:
            assert result.predictions["double"].shape.as_list() == [5, 2]
            assert set(result.export_outputs["double"].outputs) == {"double"}
    assert "Issue encountered when serializing" not in caplog.text


def test_a_subclass_may_change_loss_and_optimizers(spec):
    class Doubled(Constant):
        def loss(self, losses):
            return 2 * losses["click"]

        def optimizers(self):
            return [("", ek.make_optimizer("sgd", 1.0))]

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        model = Doubled(spec, {"start": 0.0})
        result = build(model, ModeKeys.TRAIN, rows=30)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.tables_initializer())
        loss, _ = session.run((result.loss, result.train_op))
        value = session.run(tf.compat.v1.trainable_variables()[0])
    assert loss == pytest.approx(2 * np.log(2), rel=1e-6)
    clicks = np.mean([row["click"] for row in make_rows(30)])
    np.testing.assert_allclose(value, [-2 * (0.5 - clicks), 0.0], atol=1e-6)


def test_regularization_losses_are_added(spec):
    class Penalized(Constant):
        def logits(self, features, mode):
            tf.compat.v1.losses.add_loss(tf.constant(7.0), "regularization_losses")
            return super().logits(features, mode)

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        losses = []
        for model in (Constant(spec), Penalized(spec)):
            with tf.compat.v1.variable_scope(type(model).__name__):
                losses.append(build(model, ModeKeys.EVAL).loss)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.tables_initializer())
        plain, penalized = session.run(losses)
    assert penalized == pytest.approx(plain + 7)


def test_parameters_given_by_the_estimator_override_those_of_the_instance(spec):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        result = build(Constant(spec), ModeKeys.PREDICT, params={"start": 3.0})
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.tables_initializer())
        assert session.run(result.predictions["click/logits"]).max() == 3.0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"strat": 1}, "model Constant: unknown parameter 'strat'. Did you mean 'start'?"),
        ({"start": "x"}, "model Constant: start: got 'x', expected a valid number, "
                         "unable to parse string as a number"),
        ({"learning_rate": 0}, "model Constant: learning_rate: got 0, expected greater than 0"),
        ({"freeze": [3]}, "model Constant: freeze.0: got 3, expected a valid string"),
        ({"freeze": ["("]}, "model Constant: freeze.0: got '(', '(' is not a regular expression: "
                            "missing ), unterminated subpattern at position 0"),
        ({"optimizer": "adm"}, "unknown optimizer 'adm'. Did you mean 'adam'?"),
        ({"schedule": 5, "optimizers": {"": 3}},
         "model Constant: optimizers.: got 3, expected a name or {name: {field: value}}; "
         "schedule: got 5, expected a name or {name: {field: value}}"),
        ({"freeze": "dnn/"}, "model Constant: freeze: got 'dnn/', expected a list, as in "
                             "freeze=[dnn/]"),
    ],
)  # fmt: skip
def test_parameters_are_checked(spec, params, message):
    with pytest.raises(ek.ConfigError) as error:
        Constant(spec, params)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (lambda n: tf.zeros([5, 3]),
         "returned the shape (5, 3), expected [rows, 2] for click, buy"),
        (lambda n: {"click": tf.zeros([5, 1])},
         "returned no logits for buy, got logits for click. Return logits for all objectives of "
         "the spec: click, buy."),
        (lambda n: {name: tf.zeros([5, 1]) for name in ("click", "view", "buy")},
         "returned logits for view, but the spec has no such objective. Use one of: click, buy."),
        (lambda n: {"click": tf.zeros([5, 1]), "buy": None},
         "returned None for buy, expected a float32 tensor"),
        (lambda n: {"click": tf.zeros([5, 1]), "buy": tf.zeros([5])},
         "returned the shape (5,) for 'buy', expected [rows, 1]"),
    ],
)  # fmt: skip
def test_logits_that_do_not_fit_the_objectives_are_refused(spec, logits, message):
    class Wrong(ek.ModelFn):
        def logits(self, features, mode):
            return logits(self.logits_dimension)

    with tf.Graph().as_default(), pytest.raises(ek.ConfigError) as error:
        build(Wrong(spec), ModeKeys.EVAL)
    assert without_place(error.value) == f"Wrong.logits {message}"


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ([0], "hidden_units.0: got 0, expected greater than or equal to 1"),
        ([], "hidden_units: got [], expected at least 1 item"),
    ],
)
def test_a_wrong_item_of_a_list_is_one_problem(spec, units, message):
    with pytest.raises(ek.ConfigError) as error:
        find_model("dnn")(spec, {"hidden_units": units})
    assert str(error.value) == f"model DNNModel: {message}"


def test_defaults_of_parameters_are_checked(spec):
    class Wrong(Constant):
        class Params(ek.ModelParams):
            start: float = "half"  # type: ignore[assignment]

    with pytest.raises(ek.ConfigError, match=r"^model Wrong: start: got 'half', expected a valid"):
        Wrong(spec)


def test_logits_of_other_rows_than_the_batch_has_are_refused(spec):
    class Mean(Constant):
        def logits(self, features, mode):
            mean = tf.reduce_mean(super().logits(features, mode), axis=0, keepdims=True)
            return tf.compat.v1.placeholder_with_default(mean, [None, 2])

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        result = build(Mean(spec), ModeKeys.TRAIN)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.tables_initializer())
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=r"check: \S+:\d+: Mean.logits: expected one row of logits for \S+ for each row "
            r"of the batch, got\] \[1\] \[rows for a batch of\] \[5\]",
        ):
            session.run(result.train_op)


@pytest.mark.parametrize(
    "params", [{"batch_norm": True, "moving_average": 0.9}, {"combine": "gradnorm"}]
)
def test_the_evaluation_graph_has_the_shapes_of_the_training_graph(spec, params):
    model = find_model("dnn")(spec, {"hidden_units": [4], **params})
    whole, weights = outline(model), weights_of(model)
    assert set(weights.shapes) == whole.weights < set(whole.variables)
    assert weights.shapes == {name: whole.variables[name] for name in whole.weights}
    statistics = {name for name in whole.variables if name.endswith("moving_mean")}
    assert statistics <= set(weights.shapes) and bool(statistics) == ("batch_norm" in params)


def test_variables_of_evaluation_alone_are_refused(spec):
    class Late(Constant):
        def logits(self, features, mode):
            logits = super().logits(features, mode)
            return logits if mode == ModeKeys.TRAIN else ek.dense_layer(logits, 2, "late")

    with pytest.raises(ek.ConfigError) as error:
        outline(Late(spec))
    assert str(error.value) == (
        "Late makes the variables late/bias, late/kernel only in evaluation, so no checkpoint "
        "would have them. Make the same variables in every mode."
    )


def test_variables_of_prediction_alone_are_refused(spec):
    class Late(Constant):
        def logits(self, features, mode):
            logits = super().logits(features, mode)
            return ek.dense_layer(logits, 2, "late") if mode == ModeKeys.PREDICT else logits

    with pytest.raises(ek.ConfigError, match="late/bias, late/kernel only in prediction, so no"):
        outline(Late(spec))


@pytest.mark.parametrize("collection", [False, True])
@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
def test_a_loss_that_is_added_in_one_mode_alone_is_refused(spec, mode, collection):
    class Sometimes(Constant):
        def logits(self, features, where):
            logits = super().logits(features, where)
            if where == mode and collection:
                tf.compat.v1.losses.add_loss(tf.reduce_mean(logits**2))
            elif where == mode:
                self.add_loss("size", logits[:, 0] ** 2)
            return logits

    name = "number 0 in GraphKeys.LOSSES" if collection else "size"
    only = "training" if mode == ModeKeys.TRAIN else "evaluation"
    with pytest.raises(
        ek.ConfigError, match=rf"Sometimes.logits adds the loss '{name}' only in {only}, so "
    ):
        outline(Sometimes(spec))


def test_an_op_with_the_name_of_the_loss_is_refused(spec):
    class Same(Constant):
        def logits(self, features, mode):
            tf.constant(123.0, name="estimator_kit/loss")
            return super().logits(features, mode)

    with pytest.raises(ek.ConfigError, match="Same makes an op with the name estimator_kit/loss, "):
        outline(Same(spec))


def test_logits_by_objective_are_the_same_as_side_by_side(spec):
    class Named(Constant):
        def logits(self, features, mode):
            both = super().logits(features, mode)
            return {"buy": both[:, 1:], "click": both[:, :1]}

    with tf.Graph().as_default():
        result = build(Named(spec), ModeKeys.PREDICT)
        assert result.predictions["buy/logits"].shape.as_list() == [5, 1]


@pytest.mark.parametrize("name", MODELS)
def test_built_in_models_say_which_group_they_cannot_take(document, name):
    document["groups"] = {"other": document["groups"]["wide"] + document["groups"]["deep"]}
    document["groups"]["other"] = list(dict.fromkeys(document["groups"]["other"]))
    spec = feature_specs.parse(document)
    with pytest.raises(ek.ConfigError) as error:
        MODELS[name](spec)
    message = re.fullmatch(
        r"the model needs a group '(\w+)', but <dict> only has other\. Add the group, or name "
        r"another one with the model parameter (\w+)(, as in --model_params=\2=other)?"
        r"(\. \2=null reads no group for it)?\.",
        str(error.value),
    )
    assert message, str(error.value)
    field = MODELS[name].Params.model_fields[message[2]]  # It is a parameter with this default.
    assert field.default == message[1]
    assert bool(message[4]) == (field.annotation == Optional[str])


def test_columns_that_a_part_cannot_take_are_refused(document):
    document["groups"]["deep"].append("user")
    with pytest.raises(ek.ConfigError) as error:
        MODELS["dnn"](feature_specs.parse(document))
    assert str(error.value) == (
        "group 'deep': column 'user' is hash_bucket, which has no dense form. Put an embedding or "
        "indicator column of it into the group instead."
    )
    document["groups"]["deep"].remove("user")
    document["groups"]["wide"].append("user_emb")
    with pytest.raises(ek.ConfigError) as error:
        MODELS["linear"](feature_specs.parse(document))
    assert str(error.value) == (
        "group 'wide': column 'user_emb' is embedding, which a linear model cannot read. Put "
        "'user' itself into the group instead."
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dnnn", "unknown model 'dnnn'. Did you mean 'dnn'? Write your own model as "
                 "package.module:ClassName."),
        ("no_such_package.x:Y", "model 'no_such_package.x:Y': cannot import 'no_such_package.x': "
                                "No module named 'no_such_package'. Install its package, or put "
                                "its folder on PYTHONPATH."),
        ("tests.estimator_kit.model.test_model_fn:Constnt",
         "model 'tests.estimator_kit.model.test_model_fn:Constnt': "
         "'tests.estimator_kit.model.test_model_fn' has no 'Constnt'. Did you mean 'Constant'?"),
        ("__main__:Gone", "model '__main__:Gone': '__main__' has no 'Gone'. Other processes "
                          "cannot import a class of a script. Move it to a module."),
        ("tests.conftest:make_rows", "model 'tests.conftest:make_rows' is not a subclass of "
                                     "estimator_kit.ModelFn. Make it one."),
    ],
)  # fmt: skip
def test_a_model_that_cannot_be_found(name, message):
    with pytest.raises(ek.ConfigError) as error:
        find_model(name)
    assert str(error.value) == message


def test_a_model_that_is_given_as_a_class_is_found_by_its_name():
    for model in (Constant, MODELS["dnn"]):
        config = ek.ExperimentConfig(mode="validate", spec="s", model=model)
        assert find_model(config.model) is model


def test_a_model_outside_the_package_is_found():
    found = find_model("tests.estimator_kit.model.test_model_fn:Constant")
    assert found.__name__ == "Constant" and issubclass(found, ek.ModelFn)


def test_a_batch_of_padding_changes_nothing(document):
    """A task that has read its shard repeats a batch, so that the other tasks can step."""
    document["columns"]["user_emb"]["l2"] = 0.1
    spec = feature_specs.parse(document)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.get_or_create_global_step()
        records = [writing.example(row).SerializeToString() for row in make_rows(20)]
        features, labels = Transform(spec).features_and_labels(tf.constant(records))
        model = find_model("dnn")(spec, {"hidden_units": [4], "optimizer": "sgd"})
        padding = tf.compat.v1.placeholder_with_default(True, [])
        made = model(features, {**labels, PADDING: padding}, mode=ModeKeys.TRAIN)
        session.run(
            [tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()]
        )
        weights = tf.compat.v1.trainable_variables()
        before = session.run(weights)
        loss, _ = session.run([made.loss, made.train_op])
        after = session.run(weights)
        assert loss == 0
        for one, other in zip(before, after):
            np.testing.assert_array_equal(one, other)
        assert session.run([made.loss, made.train_op], {padding: False})[0] > 0
