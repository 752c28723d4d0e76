"""An error in a method that a model overrides names its file, line, class and method.

The methods are those that `ModelFn` and `KerasModelFn` list to be overridden. Each raises errors of
several kinds and returns values of several types, in a training, an evaluation and an export. None
ends as a bug, and what the graphs show is refused before a file is written.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import re
import shutil
import sys

import pytest

import estimator_kit as ek
from estimator_kit import exit_codes
from estimator_kit.model.model_fn import OVERRIDABLE
from tests.conformance.idioms import run as idioms

MODULE = "models_with_errors"

HEADER = """
import tensorflow as tf

import estimator_kit as ek


class OfLayers(ek.ModelFn):
    def logits(self, features, mode):
        return ek.dense_layer(self.dense_input(features, "deep"), self.logits_dimension, "logits")

    def shared_prefix(self):
        return "logits"


class OfKeras(ek.KerasModelFn):
    def keras_model(self):
        inputs = tf.keras.Input((4,), name="deep")
        made = tf.keras.Model(inputs, [tf.keras.layers.Dense(1, name=n)(inputs) for n in "yz"])
        made.compile("sgd", tf.keras.losses.BinaryCrossentropy(from_logits=True))
        return made


def helper():
    return [][0]
"""

# What a method does, by a name for it.
RAISES = {
    "TypeError": "return 1 + 'a'",
    "KeyError": "return {'a': 1}['b']",
    "ValueError": "raise ValueError('mine')",
    "AttributeError": "return None.shape",
    "AssertionError": "assert False",
    "StopIteration": "return next(iter(()))",
    "IndexError": "return helper()",
    "ImportError": "import no_such_package",
    "of an op": "return tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))",
    "InvalidArgumentError": "raise tf.errors.InvalidArgumentError(None, None, 'mine')",
    "OutOfRangeError": "raise tf.errors.OutOfRangeError(None, None, 'mine')",
    "of the kit": "return ek.dense_layer(None, 3, 'mine')",
}
RETURNS = {
    "None": "None",
    "a number": "3",
    "a text": "'text'",
    "a list": "[3]",
    "pairs": "[('a', 3)]",
    "a dict": "{'y': 3}",
    "an empty dict": "{}",
    "an unknown name": "{'mine': tf.zeros([2])}",
    "a scalar": "tf.constant(1.0)",
    "a vector": "tf.zeros([7])",
    "strings": "{'y': tf.constant(['a']), 'z': tf.constant(['a'])}",
    "vectors": "{'y': tf.zeros([7]), 'z': tf.zeros([7])}",
    "scalars": "{'y': tf.constant(1.0), 'z': tf.constant(1.0)}",
    "a function": "len",
    "an object": "object()",
}
DOES = {**RAISES, **{f"returns {name}": f"return {value}" for name, value in RETURNS.items()}}

MODES = ("train", "evaluate", "export")
# An evaluation and an export do not call these methods.
ONLY_TRAIN = {"optimizers", "train_op", "first_values", "shared_prefix"}


def overridable(kind):
    """The names of the methods in the section `To override` of a class."""
    section = inspect.getsource(kind).partition("# --- To override")[2].partition("    # --- ")[0]
    return re.findall(r"^    def (\w+)\(", section, re.M)


METHODS = {
    "OfLayers": ["__init__", *overridable(ek.ModelFn)],
    "OfKeras": ["__init__", "loss", *overridable(ek.KerasModelFn)],
}
CELLS = {
    f"{base}_{method.strip('_')}_{does}_{mode}".replace(" ", "_"): (base, method, does, mode)
    for base, methods in METHODS.items()
    for method in methods
    for does in DOES
    for mode in MODES
    if does in RAISES or mode != "export"  # An export builds the graphs of an evaluation, too.
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the module of all models, the spec and the data."""
    folder = tmp_path_factory.mktemp("errors")
    text = HEADER
    for base, methods in METHODS.items():
        for method in methods:
            for does, statement in DOES.items():
                name = class_name(base, method, does)
                text += f"\n\nclass {name}({base}):\n    def {method}(self, *args, **named):\n"
                text += f"        {statement}\n"
    (folder / f"{MODULE}.py").write_text(text)
    (folder / "spec.yaml").write_text(str(DOCUMENT).replace("'", '"'))
    x, y = idioms.rows()
    rows = [{"x": list(map(float, a)), "y": int(b), "z": 0} for a, b in zip(x, y)]
    ek.write_examples(str(folder / "rows.tfrecord"), rows)
    sys.path.insert(0, str(folder))
    try:
        importlib.import_module(MODULE)
        yield folder
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(MODULE, None)


@pytest.fixture(scope="module")
def trained(folder):
    """A function that gives the folder of a trained model without errors."""

    @functools.cache
    def train(base, combine):
        model_dir = folder / f"{base} {combine}"
        ek.run(config_of(folder, base, "train", model_dir, combine))
        return model_dir

    return train


def class_name(base, method, does):
    words = re.findall(r"\w+", f"{base} {method.strip('_')} {does}".replace("_", " "))
    return "".join(word[0].upper() + word[1:] for word in words)


DOCUMENT = {
    **idioms.DOCUMENT,
    "labels": {"y": {"dtype": "int64"}, "z": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}, "z": {"head": "binary"}},
}


def config_of(folder, model, mode, model_dir, combine):
    data = (str(folder / "rows.tfrecord"),)
    fields = {
        "train": {"train_files": data, "batch_size": 16, "max_steps": 2, "report": "off"},
        "evaluate": {"eval_files": data},
        "export": {},
    }
    return ek.ExperimentConfig(
        mode=mode, spec=str(folder / "spec.yaml"), model=f"{MODULE}:{model}",
        model_dir=str(model_dir), model_params={"combine": combine}, **fields[mode],
    )  # fmt: skip


def place(name, does):
    """`file:line` that an error of a model must name."""
    module = sys.modules[MODULE]
    if does == "IndexError":
        line = inspect.getsourcelines(module.helper)[1] + 1
    else:
        # Of the statement that fails, or of the method whose result is refused.
        line = inspect.getsourcelines(getattr(module, name))[1] + (2 if does in RAISES else 1)
    return f"{module.__file__}:{line}"


def files_in(folder):
    return sorted(os.path.join(to, name) for to, _, names in os.walk(folder) for name in names)


def in_stages():
    """An error of each method in ci, all cells in nightly."""
    for cell, (_, _, does, mode) in CELLS.items():
        in_ci = does == "TypeError" and mode == "train"
        yield pytest.param(cell, marks=pytest.mark.ci if in_ci else pytest.mark.nightly)


def test_the_kit_knows_its_overridable_methods():
    assert set(OVERRIDABLE) == set(overridable(ek.ModelFn))


@pytest.mark.parametrize("cell", list(in_stages()))
def test_an_error_of_a_method_names_its_place(cell, folder, trained, tmp_path):
    base, method, does, mode = CELLS[cell]
    combine = "gradnorm" if method == "shared_prefix" else "weights"
    if mode != "train":
        shutil.copytree(trained(base, combine), tmp_path / "model")
    before = files_in(tmp_path)
    name = class_name(base, method, does)
    try:
        ek.run(config_of(folder, name, mode, tmp_path / "model", combine))
    except Exception as error:
        assert exit_codes.exit_code(error) == exit_codes.BAD_CONFIG, repr(error)
        assert str(error).startswith(f"{place(name, does)}: {name}.{method}"), error
        assert files_in(tmp_path) == before
    else:
        assert does not in RAISES or (method in ONLY_TRAIN and mode != "train")
