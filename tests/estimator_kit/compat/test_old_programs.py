"""Old programs use names that TensorFlow 2.15 no longer has, and string columns of pandas 3."""

import contextlib
import importlib
import sys

import numpy as np
import pytest

import estimator_kit.compat  # noqa: F401  # isort: skip  # before TensorFlow: which Keras
import tensorflow as tf

from estimator_kit.compat import estimator_patches, removed_names, versions

pytestmark = pytest.mark.skipif(
    versions.read().has_own_estimator, reason="on 2.15 nothing is put in place"
)

v1 = tf.compat.v1

LAUNCHER = "`python -m estimator_kit.compat --tf1 PROGRAM.py`"
CONTRIB = (
    f": tf.contrib ended with TensorFlow 1.15. {LAUNCHER} runs the program with the part of it "
    "that Estimator programs use."
)


def of_tensorflow_1(name):
    return (
        f": {name} is a name of TensorFlow 1. Run the program with {LAUNCHER}, or upgrade its code "
        "with tf_upgrade_v2."
    )


TREES = (
    ": tensorflow-estimator 2.15 no longer has boosted trees. Train them with YDF (pip install "
    "ydf), XGBoost or LightGBM."
)


@pytest.mark.parametrize(
    ("module", "name", "end"),
    [
        (tf, "contrib", CONTRIB),
        (v1, "contrib", CONTRIB),
        (tf.compat.v2, "contrib", CONTRIB),
        (tf.estimator, "BoostedTreesClassifier", TREES),
        (v1.estimator, "BoostedTreesRegressor", TREES),
        (tf, "app", of_tensorflow_1("tf.app")),
        (tf, "logging", of_tensorflow_1("tf.logging")),
        (tf, "flags", of_tensorflow_1("tf.flags")),
        (tf.train, "Optimizer", of_tensorflow_1("tf.train.Optimizer")),
        (tf.compat.v2.train, "Optimizer", of_tensorflow_1("tf.train.Optimizer")),
        (tf.nn, "rnn_cell", of_tensorflow_1("tf.nn.rnn_cell")),
        (tf.metrics, "accuracy", of_tensorflow_1("tf.metrics.accuracy")),
        (tf.estimator, "inputs", of_tensorflow_1("tf.estimator.inputs")),
        (tf, "no_such_name", ""),
        (tf.train, "no_such_name", ""),
        (v1, "no_such_name", ""),
        (tf.estimator, "no_such_name", ""),
    ],
)
def test_a_missing_attribute_says_what_to_use(module, name, end):
    assert not hasattr(module, name)
    with pytest.raises(AttributeError) as error:
        getattr(module, name)
    assert str(error.value).endswith(f" has no attribute {name!r}{end}")


@pytest.mark.parametrize("name", ["tensorflow", "tensorflow.compat.v1"])
def test_an_import_of_contrib_says_what_to_use(name):
    with pytest.raises(ModuleNotFoundError) as error:
        importlib.import_module(f"{name}.contrib.layers")
    assert str(error.value) == f"No module named '{name}.contrib'{CONTRIB}"
    assert error.value.name == f"{name}.contrib"
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'tensorflow\.contribs'$"):
        importlib.import_module("tensorflow.contribs")


def test_a_failed_installation_takes_messages_and_functions_away():
    inputs = sys.modules["tensorflow_estimator.python.estimator.inputs.pandas_io"]
    before, finders = inputs.pandas_input_fn, list(sys.meta_path)
    explained = vars(tf)["__getattr__"]
    del tf.__getattr__
    try:
        with contextlib.ExitStack() as undo:
            removed_names.explain(undo)
            estimator_patches.install_pandas_strings(undo)
            assert inputs.pandas_input_fn is not before and "__getattr__" in vars(tf)
        assert inputs.pandas_input_fn is v1.estimator.inputs.pandas_input_fn is before
        assert sys.meta_path == finders and "__getattr__" not in vars(tf)
    finally:
        tf.__getattr__ = explained


def test_classes_have_their_api_names_and_only_lists_of_names_lack_them():
    from tensorflow.python.util import tf_export

    estimator = v1.estimator
    for symbol, name in ((tf.estimator.Estimator, "Estimator"), (estimator.Exporter, "Exporter")):
        canonical = tf_export.get_canonical_name_for_symbol(symbol, api_name="estimator")
        assert canonical == f"estimator.{name}"
        # The one thing that tensorflow-estimator's own tests miss; see docs/guides/longevity.md.
        assert tf_export.get_v1_names(symbol) == []


def batch_of(x, y):
    with tf.Graph().as_default():
        batch = v1.estimator.inputs.pandas_input_fn(x, y, batch_size=2, shuffle=False)()
        with v1.train.MonitoredSession() as session:
            return session.run(batch)


def test_string_columns_of_pandas():
    pandas = pytest.importorskip("pandas", minversion="3")
    frame = pandas.DataFrame({"city": ["rome", "oslo"], "n": [1, 2]}, index=["a", "b"])
    labels = pandas.Series(["yes", "no"], index=["a", "b"])
    assert str(frame.dtypes["city"]) == "str"
    features, label = batch_of(frame, labels)
    np.testing.assert_array_equal(features["city"], [b"rome", b"oslo"])
    np.testing.assert_array_equal(features["n"], [1, 2])
    np.testing.assert_array_equal(label, [b"yes", b"no"])
    assert str(frame.dtypes["city"]) == "str"  # The caller's frame has not changed.


def test_missing_words_of_pandas_are_refused():
    pandas = pytest.importorskip("pandas", minversion="3")
    frame = pandas.DataFrame({"city": ["rome", None, "oslo"]})
    with pytest.raises(ValueError) as error:
        batch_of(frame, None)
    assert str(error.value) == (
        "pandas_input_fn: column 'city' of x: expected strings, got 1 missing values of 3. Fill "
        "them, for example with fillna('')."
    )


class Words:
    """A fake pandas Series of strings, so that the test does not need pandas."""

    def __init__(self, values, dtype="str", index="int64"):
        self.values, self.dtype = values, type("Type", (), {"name": dtype})
        self.index = type("Index", (), {"dtype": type("Type", (), {"name": index})})

    def __len__(self):
        return len(self.values)

    def isna(self):
        return np.array([value is None for value in self.values])

    def astype(self, dtype):
        return Words(self.values, np.dtype(dtype).name)


def test_words_become_objects():
    assert estimator_patches._plain(Words(["a"]), "y").dtype.name == "object"
    numbers = Words([1], "int64")
    assert estimator_patches._plain(numbers, "y") is numbers
    assert estimator_patches._plain(None, "y") is None
    with pytest.raises(ValueError, match=r"^pandas_input_fn: y: expected strings, got 1 missing"):
        estimator_patches._plain(Words(["a", None]), "y")


@pytest.mark.filterwarnings("ignore:`tf.keras.backend.set_learning_phase`")
def test_a_model_of_keras_3_is_named_in_the_error(tmp_path):
    import keras

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    for convert in (tf.keras.estimator.model_to_estimator, v1.keras.estimator.model_to_estimator):
        with pytest.raises(TypeError) as error:
            convert(model, model_dir=str(tmp_path))
        assert str(error.value) == (
            "model_to_estimator: keras_model: expected a model of tf.keras, which is Keras 2, got "
            "Sequential of Keras 3. `import keras` is Keras 3. Write `from tensorflow import "
            "keras` or `import tf_keras as keras`."
        )
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse")
    assert tf.keras.estimator.model_to_estimator(model, model_dir=str(tmp_path / "2"))
