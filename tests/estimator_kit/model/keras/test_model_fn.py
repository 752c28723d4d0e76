"""Compiled Keras models in the kit: the same steps as Keras's own fit, and errors."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.exporters import saved_model
from estimator_kit.model.names import read_metrics
from input_pipelines.record_files import writing
from tests.estimator_kit.model.keras.test_layers import estimator, input_fn
from tests.placed import without_place

layers = tf.keras.layers

DOCUMENT = {
    "features": {
        "a": {"dtype": "float32", "shape": [3]},
        "b": {"dtype": "float32"},
        "s": {"dtype": "float32", "shape": "variable"},
    },
    "columns": {"a": {"numeric": "a"}, "b": {"numeric": "b"}, "s": {"sequence_numeric": "s"}},
    "groups": {"deep": ["a", "b"], "steps": ["s"]},
    "labels": {"click": {"dtype": "int64"}, "kind": {"dtype": "int64"}, "price": {
        "dtype": "float32"}},
    "objectives": {
        "click": {"head": "binary"}, "kind": {"head": "multi_class", "num_classes": 3},
        "price": {"head": "regression"},
    },
}  # fmt: skip


def make_rows(count, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        a, b = rng.normal(1, 1, 3), float(rng.normal())
        rows.append(
            {"a": a, "b": b, "s": rng.normal(0, 1, rng.integers(1, 4)), "click": int(a[0] > b),
             "kind": int(np.argmax(a)), "price": float(a.sum())}
        )  # fmt: skip
    return rows


def part(*objectives, groups=("deep",)):
    """The spec with some of the objectives and groups."""
    document = copy.deepcopy(DOCUMENT)
    for key, names in (("labels", objectives), ("objectives", objectives), ("groups", groups)):
        document[key] = {name: document[key][name] for name in names}
    used = {name for group in groups for name in document["groups"][group]}
    for key in ("features", "columns"):
        document[key] = {n: entry for n, entry in document[key].items() if n in used}
    return document


def inner():
    deep, steps = tf.keras.Input((4,), name="deep"), tf.keras.Input((None, 1), name="steps")
    x = layers.BatchNormalization(momentum=0.5)(deep)
    x = layers.Dense(5, activation="relu", kernel_regularizer=tf.keras.regularizers.L2(0.01))(x)
    x = layers.Concatenate()([x, layers.GRU(3)(steps)])
    outputs = {
        "price": layers.Dense(1)(x),
        "click": layers.Dense(1, activation="sigmoid")(x),
        "kind": layers.Activation("softmax")(layers.Dense(3)(x)),
    }
    return tf.keras.Model([deep, steps], outputs)


def compiled():
    model = inner()
    model.compile(
        tf.keras.optimizers.legacy.Adam(0.02, epsilon=1e-5),
        loss={"click": "binary_crossentropy", "price": tf.keras.losses.Huber(2.0),
              "kind": "sparse_categorical_crossentropy"},
        loss_weights={"price": 0.25},
    )  # fmt: skip
    return model


def test_an_evaluation_measures_the_loss_of_the_training(tmp_path):
    def twice(labels, predictions):
        return 2 * tf.keras.losses.categorical_crossentropy(labels, predictions)

    class OfClasses(ek.KerasModelFn):
        def keras_model(self):
            deep = tf.keras.Input((4,), name="deep")
            model = tf.keras.Model([deep], {"kind": layers.Dense(3, activation="softmax")(deep)})
            model.compile("sgd", loss={"kind": twice})
            return model

    document = part("kind")
    document["objectives"]["kind"]["metrics"] = ["log_loss"]
    spec, rows = feature_specs.parse(document), make_rows(32)
    trained = estimator(OfClasses(spec), tmp_path / "model")
    trained.train(input_fn(spec, rows))
    found = read_metrics(trained.evaluate(input_fn(spec, rows)))  # One batch.
    assert found["loss/kind"] == pytest.approx(found["loss"], rel=1e-5)
    assert found["loss/kind"] == pytest.approx(2 * found["log_loss/kind"], rel=1e-5)


class Three(ek.KerasModelFn):
    def keras_model(self):
        return compiled()


@pytest.mark.nightly
def test_the_steps_equal_keras_steps(tmp_path):
    spec, rows = feature_specs.parse(part("click", "kind", "price", groups=("deep", "steps"))), [
        {**row, "s": row["s"][:1]} for row in make_rows(32)
    ]  # fmt: skip
    model = Three(spec)
    assert model.params.optimizer == {
        "adam": {"beta1": pytest.approx(0.9), "beta2": pytest.approx(0.999),
                 "epsilon": pytest.approx(1e-5)}
    }  # fmt: skip
    assert model.params.learning_rate == pytest.approx(0.02)
    start = [w.copy() for w in model._weights_at_start]
    trained = estimator(model, tmp_path / "model")
    trained.train(input_fn(spec, rows, repeat=3))
    # Another instance, as in another process. Its variables have the same names.
    trained = estimator(Three(spec, {"learning_rate": model.params.learning_rate}),
                        tmp_path / "model")  # fmt: skip
    trained.train(input_fn(spec, rows, repeat=2))
    metrics = read_metrics(trained.evaluate(input_fn(spec, rows)))
    predicted = list(trained.predict(input_fn(spec, rows, labels=False)))
    got = [trained.get_variable_value(name) for name in model.first_values()]
    # The export returns the same predictions, for any number of rows.
    predict = tf.saved_model.load(
        saved_model.export_saved_model(trained, spec, str(tmp_path / "export"))
    ).signatures["serving_default"]

    records = [writing.example({k: row[k] for k in "abs"}).SerializeToString() for row in rows]
    served = predict(examples=tf.constant(records))
    one = predict(examples=tf.constant(records[:1]))
    for name in ("click/logistic", "kind/probabilities", "price/predictions"):
        expected = np.array([row[name] for row in predicted])
        np.testing.assert_allclose(served[name], expected, atol=1e-6)
        np.testing.assert_allclose(one[name], expected[:1], atol=1e-6)

    fitted = compiled()
    fitted.set_weights(start)
    x = [np.array([[*r["a"], r["b"]] for r in rows], np.float32),
         np.array([[r["s"]] for r in rows], np.float32).reshape(32, 1, 1)]  # fmt: skip
    y = {"click": np.array([[r["click"]] for r in rows], np.float32),
         "kind": np.array([[r["kind"]] for r in rows]),
         "price": np.array([[r["price"]] for r in rows], np.float32)}  # fmt: skip
    fitted.fit(x, y, batch_size=32, epochs=5, shuffle=False, verbose=0)
    assert len(got) == len(start)
    for ours, expected in zip(got, fitted.get_weights()):
        np.testing.assert_allclose(ours, expected, atol=5e-6)
    evaluated = fitted.evaluate(x, y, batch_size=32, verbose=0, return_dict=True)
    assert metrics["loss"] == pytest.approx(evaluated["loss"], abs=1e-5)
    losses = sorted(v for k, v in evaluated.items() if k != "loss")
    ours = sorted(metrics[f"loss/{name}"] for name in ("click", "kind", "price"))
    np.testing.assert_allclose(ours, losses, atol=1e-5)
    answers = fitted.predict(x, verbose=0)
    np.testing.assert_allclose(
        answers["click"][:, 0], [p["click/logistic"][0] for p in predicted], atol=1e-5
    )
    np.testing.assert_allclose(
        answers["kind"], [p["kind/probabilities"] for p in predicted], atol=1e-5
    )


def sequential(*compile_arguments, name="deep", width=4, last="sigmoid", **compile_keywords):
    model = tf.keras.Sequential(
        [tf.keras.Input((width,), name=name), layers.Dense(1, activation=last)]
    )
    model.compile(*compile_arguments, **compile_keywords)
    return model


def model_of(make):
    return type("Own", (ek.KerasModelFn,), {"keras_model": lambda self: make()})


def test_a_sequential_model_by_the_program(tmp_path):
    """Column inputs, from_logits, SGD with momentum, clipping, and an output with another name."""
    from estimator_kit.checkpoints.model_outline import outline

    spec = feature_specs.parse(part("click"))
    optimizer = tf.keras.optimizers.legacy.SGD(0.1, momentum=0.5, nesterov=True, clipvalue=2.0)
    loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)
    model = model_of(lambda: sequential(optimizer, loss, name="a", width=3, last=None))(spec)
    assert model.params.optimizer == {"momentum": {"momentum": 0.5, "use_nesterov": True}}
    assert model.params.clip_value == 2.0 and model.groups() == ("deep",)
    assert outline(model).weights == {"dense/kernel", "dense/bias"}
    other = model_of(lambda: sequential("rmsprop", loss, last=None))(spec, {"optimizer": "adam"})
    assert (other.params.optimizer, other.params.learning_rate) == ("adam", 0.001)
    every = {"optimizers": {"": "adam"}, "learning_rate": 0.5}
    other = model_of(lambda: sequential("nadam", loss, last=None))(spec, every)
    assert (other.params.optimizers, other.params.learning_rate) == ({"": "adam"}, 0.5)
    # The argument `params` of the Estimator makes another instance while a graph is being built.
    fields = {"name": "a", "width": 3, "last": None, "loss_weights": [0.5]}
    model = model_of(lambda: sequential(optimizer, loss, **fields))(spec)
    assert model.spec.objectives["click"].loss_weight == 0.5
    config = tf.estimator.RunConfig(tf_random_seed=1, model_dir=str(tmp_path))
    trained = tf.estimator.Estimator(model, config=config, params={"learning_rate": 0.5})
    trained.train(input_fn(spec, make_rows(8)), steps=1)
    assert {"dense/kernel", "dense/kernel/Momentum"} <= set(trained.get_variable_names())


BCE = ("sgd", "binary_crossentropy")


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (lambda: sequential(*BCE, name="depe"), {},
         "the Keras model has the inputs depe, but the spec has no depe. Name each tf.keras.Input "
         "after a group (deep) or a dense column (a, b)."),
        (lambda: sequential(*BCE, width=5), {},
         "the input 'deep' of the Keras model has the shape (None, 5), but the spec gives 4 "
         "numbers. Use tf.keras.Input((4,), name='deep')."),
        (lambda: inner(), {}, "Own.keras_model returned a model that is not compiled. Call its "
         "compile(optimizer, loss) first."),
        (lambda: 3, {}, "Own.keras_model returned 3, expected a tf.keras.Model"),
        (lambda: sequential("rmsprop", "binary_crossentropy"), {},
         "the model is compiled with the optimizer RMSprop, expected one of Adadelta, Adagrad, "
         "Adam, Ftrl, SGD. Use another, or set an optimizer of the kit: "
         "--model_params=optimizer=..."),
        (lambda: sequential(tf.keras.optimizers.Adam(clipnorm=1.0), "mse"), {},
         "the model is compiled with Adam with clipnorm=1.0, which the kit does not support. Use "
         "another, or set an optimizer of the kit: --model_params=optimizer=..."),
        (lambda: sequential(
            tf.keras.optimizers.SGD(tf.keras.optimizers.schedules.CosineDecay(0.1, 9)), "mse"), {},
         "the model is compiled with SGD with a schedule as its learning_rate. Use a number, and "
         "set the schedule with --model_params=schedule=..."),
        (lambda: sequential("sgd"), {},
         "the model is compiled without a loss for dense. Add one to compile."),
        (lambda: sequential("sgd", "binary_crosentropy"), {},
         "the model is compiled with the loss 'binary_crosentropy' for dense, expected a name in "
         "tf.keras.losses, a Loss or a function. Did you mean 'binary_crossentropy'?"),
        (lambda: sequential(*BCE), {"positive_penalty": 3},
         "objectives.click: has positive_penalty, but the Keras model is compiled with its own "
         "loss. Remove it from the spec."),
        (lambda: sequential("sgd", tf.keras.losses.BinaryCrossentropy(reduction="sum")), {},
         "the loss binary_crossentropy of 'click' has the reduction sum. Remove it, and set "
         "reduction in the objective."),
    ],
)  # fmt: skip
def test_a_model_that_does_not_fit_is_an_error_at_once(make, change, message):
    document = part("click")
    document["objectives"]["click"].update(change)
    with pytest.raises(ek.ConfigError) as caught:
        model_of(make)(feature_specs.parse(document))
    assert without_place(caught.value, "keras_model") == message


def test_outputs_have_the_names_of_the_objectives():
    def make():
        deep = tf.keras.Input((4,), name="deep")
        outputs = [layers.Dense(1, name=name)(deep) for name in ("click", "cost")]
        model = tf.keras.Model(deep, outputs)
        model.compile("sgd", "mse")
        return model

    with pytest.raises(ek.ConfigError) as caught:
        model_of(make)(feature_specs.parse(part("click", "price")))
    assert without_place(caught.value, "keras_model") == (
        "the Keras model has the outputs click, cost, but the objectives of the spec are click, "
        "price. Name the outputs after the objectives."
    )


class Times(layers.Layer):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def call(self, x):
        return x * self.factor


@pytest.mark.parametrize("nested", [False, True])
def test_a_layer_that_cannot_be_made_again_is_an_error_with_the_remedy(nested):
    def make():
        deep, inside = tf.keras.Input((4,), name="deep"), tf.keras.Input((4,))
        last = tf.keras.Model(inside, Times(2.0)(inside)) if nested else Times(2.0)
        model = tf.keras.Model(deep, layers.Dense(1, activation="sigmoid")(last(deep)))
        model.compile(*BCE)
        return model

    with pytest.raises(ek.ConfigError) as caught:
        model_of(make)(feature_specs.parse(part("click")))
    start, _, end = without_place(caught.value, "keras_model").partition(" (")
    reason, _, end = end.partition("). ")
    assert reason and start == "Keras cannot make the layers of Own.keras_model again in a graph"
    assert end == (
        "Give your layers a get_config that extends the config of Layer by the arguments of "
        "__init__. A layer inside another model also needs "
        "@tf.keras.utils.register_keras_serializable()."
    )


@pytest.mark.parametrize(
    ("last", "logits", "kind", "expects"),
    [(None, False, "BiasAdd", "the output of Sigmoid"), ("sigmoid", True, "Sigmoid", "logits")],
)
def test_a_logit_or_a_probability_is_never_guessed(last, logits, kind, expects):
    from estimator_kit.checkpoints.model_outline import outline

    loss = tf.keras.losses.BinaryCrossentropy(from_logits=logits)
    model = model_of(lambda: sequential("sgd", loss, last=last))(feature_specs.parse(part("click")))
    with pytest.raises(ek.ConfigError) as caught:
        outline(model)
    assert str(caught.value) == (
        f"the output for 'click' ends in {kind}, but its loss binary_crossentropy expects "
        f"{expects}. For the head binary, either end the output in Sigmoid, or use "
        "from_logits=True in the loss, but not both."
    )


@pytest.mark.parametrize("as_dict", [False, True])
def test_losses_in_a_list_belong_to_the_outputs_in_the_order_of_keras(as_dict):
    """Outputs in a list keep their order. Outputs in a dict are sorted by name."""

    def make():
        deep = tf.keras.Input((4,), name="deep")
        outputs = {
            "price": layers.Dense(1, name="price", kernel_initializer="zeros")(deep),
            "click": layers.Dense(1, "sigmoid", name="click", kernel_initializer="zeros")(deep),
        }
        model = tf.keras.Model(deep, outputs if as_dict else list(outputs.values()))
        loss = {"click": "binary_crossentropy", "price": "mse"}
        weight = {"click": 3.0, "price": 0.125}
        order = ("click", "price") if as_dict else ("price", "click")
        model.compile("sgd", [loss[n] for n in order], loss_weights=[weight[n] for n in order])
        return model

    objectives = ("price", "click") if as_dict else ("click", "price")
    model = model_of(make)(feature_specs.parse(part(*objectives)))
    weights = {name: entry.loss_weight for name, entry in model.spec.objectives.items()}
    assert weights == {"click": 3.0, "price": 0.125}
    labels, logits = {"click": [0, 1], "price": [2.0, 4.0]}, tf.zeros([2, 1])
    losses = {
        name: float(objective.loss(logits, tf.constant(labels[name]), tf.ones([2])))
        for name, objective in model.heads.items()
    }
    assert losses == {
        "click": pytest.approx(np.log(2), rel=1e-5),
        "price": pytest.approx(10, rel=1e-5),
    }
    x, y = np.zeros([2, 4]), {n: np.array(v, np.float32)[:, None] for n, v in labels.items()}
    expected = make().evaluate(x, y, verbose=0, return_dict=True)["loss"]
    assert sum(losses[n] * weights[n] for n in losses) == pytest.approx(expected)


def test_the_head_ranking_is_not_supported():
    document = part("price")
    document["features"]["query"] = {"dtype": "string", "default": ""}
    document["objectives"]["price"] = {"head": "ranking", "group_by": "query"}
    with pytest.raises(ek.ConfigError) as caught:
        model_of(lambda: sequential("sgd", "mse"))(feature_specs.parse(document))
    assert str(caught.value) == (
        "objectives.price: the head ranking compares the rows of a group, but a Keras loss is for "
        "single rows. Write a ModelFn, whose self.keras calls Keras layers, or use another head."
    )


def test_a_sparse_loss_may_have_any_name(tmp_path):
    def make():
        deep = tf.keras.Input((4,), name="deep")
        model = tf.keras.Model([deep], {"kind": layers.Dense(3)(deep)})
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, name="ce")
        model.compile("sgd", loss={"kind": loss})
        return model

    model = model_of(make)(feature_specs.parse(part("kind")))
    logits = np.float32([[1, 2, 3], [0, 0, 1]])
    found = model.heads["kind"].loss(tf.constant(logits), tf.constant([2, 0]), tf.ones([2]))
    log_softmax = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert float(found) == pytest.approx(-(log_softmax[0, 2] + log_softmax[1, 0]) / 2, rel=1e-6)


def test_a_column_in_two_inputs_has_one_table(tmp_path):
    """An input may be a group or a column, and they may share columns."""
    document = part("click")
    document["features"]["u"] = {"dtype": "int64", "default": 0}
    document["columns"].update(
        u={"identity": "u", "size": 5}, u_emb={"embedding": "u", "dimension": 2}
    )
    document["features"]["photo"] = {"dtype": "float32", "shape": [2, 2]}
    document["columns"]["photo"] = {"numeric": "photo"}
    document["groups"] = {"deep": ["a", "b", "u_emb", "photo"], "side": ["u_emb", "b"]}

    class Sharing(ek.KerasModelFn):
        def keras_model(self):
            inputs = [tf.keras.Input((n,), name=name)
                      for name, n in (("deep", 10), ("side", 3), ("u_emb", 2))]  # fmt: skip
            photo = tf.keras.Input((2, 2), name="photo")  # As in its feature, not as in the group.
            click = layers.Dense(1)(layers.Concatenate()([*inputs, layers.GRU(2)(photo)]))
            model = tf.keras.Model([*inputs, photo], {"click": click})
            model.compile("sgd", loss=tf.keras.losses.BinaryCrossentropy(from_logits=True))
            return model

    spec = feature_specs.parse(document)
    rows = [{**row, "u": i % 5, "photo": [i, 1, 2, 3.0]} for i, row in enumerate(make_rows(20))]
    trained = estimator(Sharing(spec), tmp_path / "model")
    trained.train(input_fn(spec, rows))
    tables = [name for name in trained.get_variable_names() if name.endswith("embedding_weights")]
    assert tables == ["input_from_feature_columns/input_layer/u_embedding/embedding_weights"]


def test_the_head_next_item_is_not_supported():
    document = part("price", groups=("deep", "steps"))
    document["features"]["items"] = {"dtype": "int64", "shape": "variable"}
    document["columns"].update(
        items={"identity": "items", "size": 3, "sequence": True},
        items_emb={"embedding": "items", "dimension": 2},
    )
    document["groups"]["steps"] = ["items_emb"]
    del document["features"]["s"], document["columns"]["s"]
    document["labels"] = {"price": {"dtype": "int64", "shape": "variable"}}
    document["objectives"]["price"] = {"head": "next_item", "items": "items"}
    with pytest.raises(ek.ConfigError, match="the head next_item compares the items of a catal"):
        model_of(lambda: sequential("sgd", "mse"))(feature_specs.parse(document))


@pytest.mark.parametrize("loss", ["cosine_similarity", tf.keras.losses.Poisson()])
@pytest.mark.parametrize("combine", ["uncertainty", "gradnorm", "pcgrad"])
def test_learned_weights_do_not_support_negative_losses(loss, combine):
    def make():
        deep = tf.keras.Input((4,), name="deep")
        outputs = {"click": layers.Dense(1, "sigmoid")(deep), "price": layers.Dense(1)(deep)}
        model = tf.keras.Model(deep, outputs)
        model.compile("sgd", {"click": "binary_crossentropy", "price": loss})
        return model

    spec = feature_specs.parse(part("click", "price"))
    if combine == "pcgrad":
        assert model_of(make)(spec, {"combine": combine}).params.combine == combine
        return
    with pytest.raises(ek.ConfigError) as caught:
        model_of(make)(spec, {"combine": combine})
    name = loss if isinstance(loss, str) else "poisson"
    assert str(caught.value) == (
        f"combine: {combine} needs losses that are never negative, but {name}, the loss of "
        "objective 'price', may be. Use another loss, or pcgrad or weights."
    )


def test_with_steps_the_keras_loss_is_computed_for_each_step():
    document = part("price")
    document["labels"]["price"]["shape"] = [2]
    document["objectives"]["price"]["steps"] = 2

    def make():
        deep = tf.keras.Input((4,), name="deep")
        model = tf.keras.Model(deep, layers.Dense(2)(deep))
        model.compile("sgd", "mae")
        return model

    objective = model_of(make)(feature_specs.parse(document)).heads["price"]
    logits, labels = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[0.0, 5.0], [3.0, 0.0]])
    np.testing.assert_allclose(objective.row_losses(logits, labels), [1, 3, 0, 4])
    # The last step has weight 3. The step before it has weight 0.
    weights = tf.constant([[1.0, 1.0], [0.0, 3.0]])
    assert float(objective.loss(logits, labels, weights)) == pytest.approx((1 + 3 + 3 * 4) / 5)
