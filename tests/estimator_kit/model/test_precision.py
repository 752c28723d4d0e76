"""Products in 16 bits: their values, their gradients, and what does not change."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model import computing
from estimator_kit.model.computing import Computing
from estimator_kit.models import find_model
from tests import rounding
from tests.conftest import make_rows
from tests.estimator_kit.small_training import batch_of
from tests.placed import without_place

ModeKeys = tf.estimator.ModeKeys


def products(kind, x, kernel, upstream):
    """(outputs, gradient of x, gradient of the kernel) of a product in a precision."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        a, w = tf.constant(x), tf.constant(kernel)
        with computing.lowered(kind, "Model"):
            y = computing.product(a, w)
        assert y.dtype == tf.float32
        return session.run([y, *tf.gradients(y, [a, w], tf.constant(upstream))])


def drawn(*shape, scale=1.0):
    return np.random.default_rng(sum(shape)).normal(0, scale, shape).astype(np.float32)


@pytest.mark.parametrize(("kind", "bits"), [("bfloat16", 8), ("float16", 11)])
@pytest.mark.parametrize("shape", [(64, 20), (8, 3, 20)])
def test_products_are_those_of_numpy_to_the_bits_of_the_type(kind, bits, shape):
    x, kernel = drawn(*shape), drawn(20, 16)
    upstream = drawn(*shape[:-1], 16)
    flat, above = x.reshape(-1, 20), upstream.reshape(-1, 16)
    for found, expected in zip(
        products(kind, x, kernel, upstream),
        [x @ kernel, upstream @ kernel.T, flat.T @ above],
    ):
        # Each factor and each result is rounded to the type; TensorFlow 2.15 also adds in it.
        assert np.abs(found - expected).max() < 8 * 2.0**-bits * np.abs(expected).max()
        assert np.abs(found - expected).max() > 0


@pytest.mark.parametrize("size", [1e-12, 1e-7, 1.0, 1e8])
def test_gradients_of_any_size_survive_float16(size):
    """Without a scale, 1e-12 would become 0 and 1e8 infinite."""
    x, kernel, upstream = drawn(512, 20), drawn(20, 16), drawn(512, 16, scale=size)
    _, of_x, of_kernel = products("float16", x, kernel, upstream)
    assert np.abs(of_x - upstream @ kernel.T).max() < 1e-2 * np.abs(upstream @ kernel.T).max()
    assert np.abs(of_kernel - x.T @ upstream).max() < 1e-2 * np.abs(x.T @ upstream).max()


@pytest.mark.parametrize("size", [1e-3, 1.0, 300.0, 1e3, 6e4, 1e7])
def test_inputs_of_any_size_survive_float16(size):
    """Without a scale, the sums of 512 rows would be infinite from inputs of 300 on."""
    x, kernel = np.abs(drawn(512, 20, scale=size)), drawn(20, 16)
    upstream = np.abs(drawn(512, 16))
    y, of_x, of_kernel = products("float16", x, kernel, upstream)
    for found, expected in (
        (y, x @ kernel),
        (of_x, upstream @ kernel.T),
        (of_kernel, x.T @ upstream),
    ):
        # TensorFlow 2.15 adds the 512 positive numbers in float16, too.
        assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


BITS = {"bfloat16": 8, "float16": 11}


def assert_rounded_by_its_terms(kind, found, a, b):
    """Each number of a @ b, to the bits of a type that also adds in it, and to 30 bits less than 1.

    Other rows and columns do not count: the bound contains the terms of this number alone, and the
    range of float16 for the largest term of its row and its column.
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    bound = rounding.of_product(a, b, 2.0 ** -BITS[kind])
    largest = np.abs(b).max(1)
    rows = (np.abs(a) * largest).max(1, keepdims=True)
    columns = np.divide(np.abs(b), largest[:, None], where=largest[:, None] > 0,
                        out=np.zeros_like(b)).sum(0)  # fmt: skip
    bound += 2.0**-24 * rows * columns
    rounding.assert_within(found, a @ b, bound)


@pytest.mark.parametrize("kind", BITS)
def test_one_row_does_not_round_other_rows(kind):
    x, kernel, upstream = drawn(16, 20), drawn(20, 8), drawn(16, 8)
    alone = products(kind, x, kernel, upstream)
    large = x.copy()
    large[5] *= 1.7e9
    found = products(kind, large, kernel, upstream)
    others = np.arange(16) != 5
    np.testing.assert_array_equal(found[0][others], alone[0][others])
    np.testing.assert_array_equal(found[1], alone[1])
    assert_rounded_by_its_terms(kind, found[0], large, kernel)
    # A row without weight has no gradient. Then the kernel's gradient does not see its inputs.
    upstream[5] = 0
    of_kernel = products(kind, large, kernel, upstream)[2]
    np.testing.assert_array_equal(of_kernel, products(kind, x, kernel, upstream)[2])
    # A row that is not a number stays the only one.
    large[5] = np.nan
    found = products(kind, large, kernel, upstream)
    np.testing.assert_array_equal(found[0][others], alone[0][others])
    assert np.isnan(found[0][5]).all()


@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("size", [1.0, 300.0, 1e5, 1e9])
def test_products_above_65504_are_not_infinite(kind, size):
    """1,000 terms of 255 or more, and a kernel whose numbers float16 does not have either."""
    for x, kernel in (
        (np.full((4, 1000), 255, np.float32), np.full((1000, 8), size, np.float32)),
        (np.full((4, 1000), size, np.float32), np.full((1000, 8), 1, np.float32)),
    ):
        upstream = np.full((4, 8), size, np.float32)
        y, of_x, of_kernel = products(kind, x, kernel, upstream)
        assert_rounded_by_its_terms(kind, y, x, kernel)
        assert_rounded_by_its_terms(kind, of_x, upstream, kernel.T)
        assert_rounded_by_its_terms(kind, of_kernel, x.T, upstream)


@pytest.mark.parametrize("kind", BITS)
def test_rows_columns_and_terms_of_any_size_are_rounded_by_their_own_terms(kind):
    """The sizes differ by 24 decimal digits within a matrix."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        a, b = (tf.compat.v1.placeholder(tf.float32, shape) for shape in ([9, 30], [30, 8]))
        upstream = tf.compat.v1.placeholder(tf.float32, [9, 8])
        with computing.lowered(kind, "Model"):
            y = computing.product(a, b)
        fetched = [y, *tf.gradients(y, [a, b], upstream)]
        rng = np.random.default_rng(4)

        def sizes(*shape):
            return 10.0 ** rng.uniform(-6, 6, shape)

        for _ in range(50):
            inner = sizes(30)
            x = (rng.normal(size=(9, 30)) * sizes(9, 1) * inner).astype(np.float32)
            kernel = (rng.normal(size=(30, 8)) / inner[:, None] * sizes(8)).astype(np.float32)
            above = (rng.normal(size=(9, 8)) * sizes(9, 1) / sizes(8)).astype(np.float32)
            above[rng.integers(9)] = 0
            y, of_x, of_kernel = session.run(fetched, {a: x, b: kernel, upstream: above})
            assert_rounded_by_its_terms(kind, y, x, kernel)
            assert_rounded_by_its_terms(kind, of_x, above, kernel.T)
            assert_rounded_by_its_terms(kind, of_kernel, x.T, above)


def test_inputs_of_zeros_stay_zero():
    zeros = np.zeros((4, 20), np.float32)
    y, _, of_kernel = products("float16", zeros, drawn(20, 16), drawn(4, 16))
    assert not y.any() and not of_kernel.any()


def test_no_rows_have_a_gradient_of_zeros():
    """As a batch in which no row has a step."""
    x, kernel, upstream = (np.zeros([*shape, n], np.float32)
                           for shape, n in (((3, 0), 20), ((20,), 16), ((3, 0), 16)))  # fmt: skip
    outputs, of_x, of_kernel = products("float16", x, kernel + 1, upstream)
    assert outputs.shape == (3, 0, 16) and of_x.shape == (3, 0, 20)
    np.testing.assert_array_equal(of_kernel, np.zeros([20, 16]))


def test_a_gradient_of_zeros_stays_zero():
    zeros = np.zeros((4, 16), np.float32)
    _, of_x, of_kernel = products("float16", drawn(4, 20), drawn(20, 16), zeros)
    assert not of_x.any() and not of_kernel.any()


def test_narrow_layers_stay_in_float32():
    x, kernel = drawn(64, 20), drawn(20, 7)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with computing.lowered("bfloat16", "Model"):
            narrow = computing.product(tf.constant(x), tf.constant(kernel))
            computing.product(tf.constant(x), tf.constant(drawn(20, 8)))
        found = session.run(narrow)
    rounding.assert_within(found, x @ kernel, rounding.of_product(x, kernel))


def built(model, mode):
    """The graph of a model over real rows."""
    graph = tf.Graph()
    with graph.as_default():
        tf.compat.v1.train.get_or_create_global_step()
        dataset = batch_of(model.spec, make_rows(20))()
        features, labels = tf.compat.v1.data.make_initializable_iterator(dataset).get_next()
        model(features, labels, mode)
    return graph


def low_types(graph):
    return {
        tensor.dtype.base_dtype.name
        for op in graph.get_operations()
        for tensor in op.outputs
        if tensor.dtype.base_dtype in (tf.float16, tf.bfloat16)
    }


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_only_training_changes_and_variables_stay_the_same(document, kind):
    spec = feature_specs.parse(document)
    plain, low = (find_model("wide_deep")(spec, {"hidden_units": [16, 8]}) for _ in range(2))
    low.computing = Computing(precision=kind)
    assert low_types(built(low, ModeKeys.TRAIN)) == {kind}
    assert low_types(built(low, ModeKeys.EVAL)) == set()
    assert low_types(built(low, ModeKeys.PREDICT)) == set()
    variables = []
    for model in (plain, low):
        with built(model, ModeKeys.TRAIN).as_default():
            made = tf.compat.v1.global_variables()
            variables.append({v.op.name: (v.dtype, tuple(v.shape)) for v in made})
    assert variables[0] == variables[1]


def test_a_model_without_wide_layers_is_refused(document):
    spec = feature_specs.parse(document)
    for name, params in (("linear", {"group": "wide"}), ("dnn", {"hidden_units": [7]})):
        model = find_model(name)(spec, params)
        model.computing = Computing(precision="bfloat16")
        with pytest.raises(ek.ConfigError) as error:
            built(model, ModeKeys.TRAIN)
        assert str(error.value) == (
            f"--mixed_precision=bfloat16: the model {type(model).__name__} has no dense layer with "
            "at least 8 outputs, so nothing would be computed in 16 bits. Remove the flag, or make "
            "the layers with ek.dense_layer."
        )


class WithKeras(ek.ModelFn):
    """A model with a layer of Keras."""

    def groups(self):
        return ("deep",)

    def logits(self, features, mode):
        inputs = self.dense_input(features, "deep")
        return self.keras(tf.keras.layers.Dense(self.logits_dimension), inputs, mode)


def test_keras_layers_are_refused(document):
    model = WithKeras(feature_specs.parse(document))
    model.computing = Computing(precision="float16")
    with pytest.raises(ek.ConfigError) as error:
        built(model, ModeKeys.TRAIN)
    assert without_place(error.value, "logits") == (
        "--mixed_precision=float16: the model has Keras layers, which compute in their own dtype. "
        "Remove the flag, or make the layers with ek.dense_layer."
    )
