"""An error in a user's model names the class, the place, and what is wrong."""

from __future__ import annotations

import os
import re

import pytest
import tensorflow as tf
from absl import flags

import estimator_kit as ek
import feature_specs
from estimator_kit.checkpoints.model_outline import outline
from estimator_kit.model import input_layer, session_errors, user_code
from estimator_kit.models import MODELS
from tests.estimator_kit.model.test_model_fn import Constant, build

ModeKeys = tf.estimator.ModeKeys
HERE = re.escape(__file__)


@pytest.fixture
def spec(document):
    return feature_specs.parse(document)


class WrongFeature(Constant):
    def logits(self, features, mode):
        del mode
        return features["prise"]


class WrongHead(Constant):
    def loss(self, losses):
        return losses["returned"]


class WrongPrediction(Constant):
    def example_losses(self, labels, predictions, weights, features):
        return {"click": predictions["click/logit"]}


class OwnDict(Constant):
    """The key is near a feature, but the dict is the model's own."""

    def logits(self, features, mode):
        return {"price": 1}["prise"]


class OfTensorFlow(Constant):
    def logits(self, features, mode):
        return self.product(features["price"])

    def product(self, x):
        return x @ tf.ones([3, 2])


class Ignores(Constant):
    def loss(self, losses):
        return tf.constant(1.0)


class OfTheKit(Constant):
    def logits(self, features, mode):
        return self.dense_input(features, "wide")


class NoGroup(Constant):
    def logits(self, features, mode):
        return self.dense_input(features, "wade")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            NoGroup,
            r"NoGroup\.logits: the model needs a group 'wade', but .* only has .*\bwide\b.*",
        ),
        (
            WrongFeature,
            r"WrongFeature\.logits: the key 'prise' does not exist\. Did you mean 'price'\? "
            r"`features` has the keys .*\bprice\b.*\.",
        ),
        (
            WrongHead,
            r"WrongHead\.loss: the key 'returned' does not exist\. `losses` has the keys buy, "
            r"click\.",
        ),
        (
            WrongPrediction,
            r"WrongPrediction\.example_losses: the key 'click/logit' does not exist\. Did you mean "
            r"'click/logits'\? `predictions` has the keys .*\.",
        ),
        (OwnDict, r"OwnDict\.logits: KeyError: 'prise'\."),
        (
            OfTensorFlow,
            rf"OfTensorFlow\.logits: ValueError: Dimensions must be equal, .*\. It was called at "
            rf"{HERE}:\d+\.",
        ),
        (
            Ignores,
            r"Ignores\.loss returned <tf\.Tensor .*>, which does not depend on its argument\. "
            r"Combine the losses of the objectives, and use self\.add_loss in logits for others\.",
        ),
        (
            OfTheKit,
            r"OfTheKit\.logits: group 'wide': column 'user' is hash_bucket, which has no .*",
        ),
    ],
)
def test_an_error_names_the_class_the_line_and_the_reason(spec, model, message):
    with tf.Graph().as_default(), pytest.raises(ek.ConfigError) as error:
        build(model(spec), ModeKeys.TRAIN)
    assert re.fullmatch(rf"{HERE}:\d+: {message}", str(error.value), re.S), str(error.value)


def test_an_error_of_the_kit_and_one_with_an_exit_status_stay(spec, monkeypatch):
    monkeypatch.setattr(input_layer, "dense_columns", None)
    with tf.Graph().as_default(), pytest.raises(TypeError):
        build(MODELS["dnn"](spec), ModeKeys.TRAIN)
    away = tf.errors.UnavailableError(None, None, "away")
    for kept in (MemoryError(), away, KeyboardInterrupt()):
        with pytest.raises(type(kept)), user_code.explained(Constant, "logits"):
            raise kept


def test_an_own_absl_flag_is_refused_with_a_remedy(spec):
    defined = flags.FlagValues()
    flags.DEFINE_integer("units", 3, "For a test.", flag_values=defined)

    class Reads(Constant):
        def logits(self, features, mode):
            return tf.ones([defined.units])

    with tf.Graph().as_default(), pytest.raises(ek.ConfigError) as error:
        build(Reads(spec), ModeKeys.TRAIN)
    assert re.fullmatch(
        rf"{HERE}:\d+: Reads\.logits: the absl flag --units is read, but the kit does not parse "
        r"flags that a model's module defines\. Make it a field of the class Params, read "
        r"self\.params\.units, and set it with --model_params=units=value\. In your own program, "
        r"parse the flags before ek\.run\.",
        str(error.value),
    )
    defined(["program", "--units=2"])  # Another program has parsed it.
    with tf.Graph().as_default(), pytest.raises(ek.ConfigError, match=r"the shape \(2,\)"):
        build(Reads(spec), ModeKeys.TRAIN)


def test_the_arguments_of_methods_are_dicts_for_tensorflow_too():
    features = user_code.Named({"b": tf.constant(2), "a": tf.constant(1)}, "features")
    assert isinstance(features, dict) and dict(features) == {**features}
    doubled = tf.nest.map_structure(lambda x: 2 * x, features)
    assert {name: int(x) for name, x in doubled.items()} == {"a": 2, "b": 4}
    summed = tf.function(lambda given: given["a"] + given["b"])(features)
    assert int(summed) == 3
    with pytest.raises(KeyError):
        doubled["c"]
    assert features.get("c") is None and "c" not in features


def half(x):
    return x[: tf.shape(x)[0] // 2]


class TooFew(Constant):
    how = "losses"

    def logits(self, features, mode):
        logits = super().logits(features, mode)
        if self.how == "add_loss":
            self.add_loss("mine", half(logits[:, 0]))
        return half(logits) if self.how == "logits" else logits

    def checked_labels(self, labels, weights):
        return {**labels, "click": half(labels["click"])} if self.how == "labels" else labels

    def example_losses(self, labels, predictions, weights, features):
        losses = tf.square(predictions["click/logits"][:, 0])
        if self.how == "own weights":
            return {"click": (losses, half(losses))}
        if self.how == "one":
            return {"click": tf.reduce_mean(losses, keepdims=True)}
        return {"click": half(losses) if self.how == "losses" else losses}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("losses", r"TooFew\.example_losses: the losses of 'click' do not have the shape of their "
                   r"weights, got .*\(120,\).* and .*\(240,\).*\. Return one loss for each row\."),
        ("one", r"TooFew\.example_losses: the losses of 'click' do not have the shape of .*"),
        ("own weights", r"TooFew\.example_losses: the losses of 'click' do not have the shape .*"),
        ("add_loss", r"TooFew\.add_loss: expected one loss and one weight for each row for 'mine', "
                     r"got .*\(120,\).*\. Do not reduce the losses\."),
        ("labels", r"TooFew\.checked_labels: expected the shape \(240,\) for the label 'click', "
                   r"got .*\(120,\).*\. Return one value for each row\."),
        ("logits", r"TooFew\.logits: expected one row of logits for each row, got .*\(1, 1\).* "
                   r"with 1 rows for a batch of 3\. Do not flatten or sum over rows\."),
    ],
)  # fmt: skip
def test_fewer_rows_than_the_batch_are_refused_before_a_training(spec, how, message):
    model = TooFew(spec)
    model.how = how
    with pytest.raises(ek.ConfigError) as error:
        outline(model)
    assert re.fullmatch(rf"{HERE}:\d+: {message}", str(error.value), re.S), str(error.value)


def test_rows_that_only_a_session_counts_end_it_with_the_same_words():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        shape = tf.compat.v1.placeholder_with_default([2], [None])
        check = user_code.equal_shapes("mine.py:3: it's wrong, got", shape, tf.constant([3]))
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            session.run(check)
    assert user_code.check_text(error.value) == "mine.py:3: it's wrong, got 2 instead of 3"
    assert user_code.check_text(ValueError("other")) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: tf.debugging.assert_less(x, 1, message="too much"), ".*failed: .too much.*"),
        (lambda x: tf.gather([1, 2], x), "indices = 5 is not in .*"),
        (lambda x: tf.cond(x > 0, lambda: tf.gather([1, 2], x), lambda: 0), "indices = 5 is .*"),
        (lambda x: tf.while_loop(lambda i: i < 1, lambda i: i + tf.gather([1], x), [0]), "ind.*"),
        (lambda x: tf.function(lambda x: tf.gather([1, 2], x))(x), ".*indices = 5 is not in .*"),
    ],
)
def test_an_op_of_a_user_that_fails_in_a_session_is_named_with_its_line(spec, make, message):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        op = make(tf.compat.v1.placeholder_with_default(5, []))
        with pytest.raises(ek.ConfigError) as error, session_errors.explained(spec, []):
            session.run(op)
    told = rf"{HERE}:\d+: an op that this line makes failed in the session: {message}"
    assert re.fullmatch(told, str(error.value)), str(error.value)


def test_a_table_whose_file_does_not_exist_is_named_with_its_line(spec, tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        (tmp_path / "words").write_text("a\n")
        words = tf.lookup.TextFileInitializer(
            str(tmp_path / "words"), tf.string, 0, tf.int64, 1, delimiter=" "
        )
        tf.lookup.StaticHashTable(words, -1)
        (tmp_path / "words").unlink()
        with pytest.raises(ek.ConfigError) as error, session_errors.explained(spec, []):
            session.run(tf.compat.v1.tables_initializer())
    assert re.match(
        rf"{HERE}:\d+: an op that this line makes failed .*words; No such file", str(error.value)
    )


class Reads(Constant):
    how = staticmethod(lambda self, features: None)

    def logits(self, features, mode):
        type(self).how(self, features)
        return super().logits(features, mode)


def shared(scope):
    return tf.compat.v1.variable_scope(scope, reuse=tf.compat.v1.AUTO_REUSE)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("method", "group", "what"),
    [
        ("dense_input", "deep", "the table of the column 'tag_emb'"),
        ("linear_logits", "wide", "the weights of the column 'price'"),
    ],
)
def test_a_group_is_read_once_in_a_scope(spec, method, group, what):
    def read(self, features):
        return getattr(self, method)(features, group)

    def twice(self, features):
        read(self, features)
        read(self, features)

    class Twice(Reads):
        how = staticmethod(twice)

    with pytest.raises(ek.ConfigError) as error:
        outline(Twice(spec))
    assert re.fullmatch(
        rf"{HERE}:\d+: Twice\.logits: {what} exists already as \S+, got a second call for it\. "
        r"Keep the result of the first call\. To read it again, put each call into `with "
        r'tf\.compat\.v1\.variable_scope\("name", reuse=tf\.compat\.v1\.AUTO_REUSE\):`\. Another '
        r"name makes another variable\.",
        str(error.value),
    )

    def in_scopes(*scopes):
        def how(self, features):
            for scope in scopes:
                with shared(scope):
                    read(self, features)

        return outline(type("Scopes", (Reads,), {"how": staticmethod(how)})(spec)).weights

    one = len(in_scopes("a")) - 1  # Without the variable of `Constant`.
    assert len(in_scopes("a", "a")) == one + 1
    assert len(in_scopes("a", "b")) == 2 * one + 1


def test_a_file_of_tensorflows_converted_functions_is_not_a_users():
    def fails(x):
        if tf.reduce_sum(x) > 0:  # Autograph converts the function.
            return x + "a"
        return x

    with pytest.raises(ek.ConfigError) as error, user_code.explained(Constant, "logits"):
        tf.function(fails)(tf.ones([2]))
    assert os.path.basename(str(error.value).partition(":")[0]) == os.path.basename(__file__)


class Kept(Constant):
    """Keeps a tensor of the first graph."""

    method, kept = "logits", None

    def keep(self, method, value):
        if method != self.method:
            return value
        self.kept = value if self.kept is None else self.kept
        return self.kept

    def logits(self, features, mode):
        logits = super().logits(features, mode)
        self.add_loss("mine", self.keep("add_loss", logits[:, 0] ** 2))
        return self.keep("logits", logits)

    def checked_labels(self, labels, weights):
        return {**labels, "click": self.keep("checked_labels", labels["click"])}

    def example_losses(self, labels, predictions, weights, features):
        return {"click": self.keep("example_losses", predictions["click/logits"][:, 0])}

    def loss(self, losses):
        return self.keep("loss", losses["click"] + losses["buy"])


@pytest.mark.parametrize(
    "method", ["logits", "add_loss", "checked_labels", "example_losses", "loss"]
)
def test_a_tensor_of_another_graph_is_refused(spec, method):
    model = Kept(spec)
    model.method = method
    with tf.Graph().as_default():
        build(model, ModeKeys.TRAIN)
    with tf.Graph().as_default(), pytest.raises(ek.ConfigError) as error:
        build(model, ModeKeys.TRAIN)
    text = rf"{HERE}:\d+: Kept\.{method}: .* belongs to another graph, got .*"
    assert re.fullmatch(text, str(error.value), re.S), str(error.value)


def test_what_is_no_method_in_the_place_of_one_is_refused(spec):
    class Attribute(Constant):
        hooks = ()

    class Property(Constant):
        @property
        def groups(self):
            return ("wide",)

    class Called(Constant):
        def __call__(self, features, labels, mode, params=None, config=None):
            return None

    class Private(Constant):
        def _forward(self, features):
            return features

    class Fine(Constant):
        @staticmethod
        def loss(losses):
            return losses["click"]

        @classmethod
        def groups(cls):
            return ("wide",)

    for kind, text in (
        (Attribute, r"hooks: expected a method, got \(\)\. Write `def hooks\(self, \.\.\.\)`"),
        (Property, "groups: expected a method, got <property"),
        (Called, "__call__: this method of ek.ModelFn connects the other methods, and must not be"),
        (Private, "_forward: this method of ek.ModelFn connects the other methods, and must not"),
    ):
        with pytest.raises(ek.ConfigError, match=rf"{HERE}:\d+: {kind.__name__}\.{text}"):
            kind(spec)
    Fine(spec)


class OutOfBounds(Constant):
    how = "labels"

    def logits(self, features, mode):
        logits = super().logits(features, mode)
        if self.how == "add_loss":
            self.add_loss("mine", logits[:, 0] ** 2, -tf.ones_like(logits[:, 0]))
        return logits

    def checked_labels(self, labels, weights):
        return {**labels, "click": labels["click"] * 2} if self.how == "labels" else labels

    def example_losses(self, labels, predictions, weights, features):
        losses = tf.square(predictions["click/logits"][:, 0])
        return {"click": (losses, -tf.ones_like(losses))} if self.how == "losses" else {}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("labels", "checked_labels: the label 'click' must be in [0, 1]"),
        ("losses", "example_losses: the weights of 'click' must be finite and 0 or more"),
        ("add_loss", "add_loss: the weights of 'mine' must be finite and 0 or more"),
    ],
)
def test_values_of_a_model_are_checked_as_values_of_records_are(spec, how, message):
    model = OutOfBounds(spec)
    model.how = how
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = build(model, ModeKeys.TRAIN, rows=40)
        session.run(
            [tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()]
        )
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            session.run(made.train_op)
    text = user_code.check_text(error.value)
    assert re.fullmatch(rf"{HERE}:\d+: OutOfBounds\.{re.escape(message)}", text), text
