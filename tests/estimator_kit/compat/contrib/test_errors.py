"""A name that is not here: the error of an import or an attribute says what to use instead."""

import pytest

from estimator_kit.compat.contrib._finder import Finder

FINDER = Finder()

DATASETS = "Use tf.keras.datasets, for example tf.keras.datasets.mnist.load_data()."


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("boosted_trees", "Train trees with YDF (pip install ydf), XGBoost or LightGBM."),
        ("learn.python.learn.datasets.mnist", DATASETS),
        ("learn.python.learn.datasets", DATASETS),
        ("crf.CrfForwardRnnCell", "Use crf_log_norm."),
    ],
)
def test_an_import_gives_the_remedy(name, remedy):
    path = f"tensorflow.contrib.{name}"
    with pytest.raises(ModuleNotFoundError) as raised:
        FINDER.find_spec(path, None)
    assert str(raised.value) == f"No module named {path!r}: {remedy}"
    # `from tensorflow.contrib import boosted_trees` would hide an error with its own name.
    assert raised.value.name == "tensorflow.contrib"


def test_an_unknown_name_has_none():
    with pytest.raises(ModuleNotFoundError) as raised:
        FINDER.find_spec("tensorflow.contrib.nope", None)
    assert str(raised.value) == "No module named 'tensorflow.contrib.nope'"
    assert FINDER.find_spec("tensorflow.contrib.crf.nope", None) is None


@pytest.mark.parametrize(
    "path",
    [
        "tpu.python.tpu.tpu_config",
        "tpu.python.tpu",
        "training.python.training.hparam",
        "learn.learn_runner",
        "learn.python.learn.utils.saved_model_export_utils",
    ],
)
def test_an_old_path_is_a_module(path):
    spec = FINDER.find_spec(f"tensorflow.contrib.{path}", None)
    assert spec.name == f"tensorflow.contrib.{path}"


def test_an_old_path_shows_private_names():
    spec = FINDER.find_spec("tensorflow.contrib.tpu.python.tpu.tpu_context", None)
    module = FINDER.create_module(spec)
    assert module._get_tpu_context.__module__.endswith(".tpu_context")
    with pytest.raises(AttributeError) as raised:
        _ = module.keras_to_tpu_model
    assert str(raised.value) == (
        "module 'tensorflow.contrib.tpu.python.tpu.tpu_context' has no attribute "
        "'keras_to_tpu_model': Build the Keras model under tf.distribute.TPUStrategy, or train the "
        "model itself on a CPU or GPU."
    )
