"""Private names of TensorFlow at their old places."""

from __future__ import annotations

import contextlib
import importlib

import pytest

import estimator_kit.compat  # noqa: F401  # isort: skip  # before TensorFlow: which Keras
import tensorflow as tf

from estimator_kit.compat import private_paths

MOVES = list(private_paths._moves())


@pytest.fixture(autouse=True, scope="module")
def installed():
    """On TensorFlow 2.15 only tf1 installs them."""
    with contextlib.ExitStack() as undo:
        private_paths.install(undo)
        yield


def test_no_new_place_is_missing_here():
    assert private_paths.unknown() == []


@pytest.mark.parametrize(("old", "name", "new", "found"), MOVES, ids=lambda value: value)
def test_the_old_place_has_the_name(old, name, new, found):
    holder = importlib.import_module(f"tensorflow.python.{old}")
    assert getattr(holder, name) is getattr(private_paths._module(new), found)


def test_modules_that_are_gone():
    from tensorflow.python.training import training_ops

    assert callable(training_ops.resource_apply_adam)
    assert private_paths._module("training.no_such_module") is None


def test_what_they_are():
    from tensorflow.python.framework import ops
    from tensorflow.python.layers.normalization import BatchNormalization
    from tensorflow.python.util import nest

    assert ops.Tensor is tf.Tensor and ops.IndexedSlices is tf.IndexedSlices
    assert BatchNormalization is tf.compat.v1.layers.BatchNormalization
    assert nest.is_sequence([1]) and not nest.is_sequence(1)


def test_a_name_that_moved_again_stays_missing(monkeypatch):
    moved = (("ops.math_ops", "ops.no_such_module", "a b"), ("ops.math_ops", "ops.nn", "no_such"))
    monkeypatch.setattr(private_paths, "NAMES", moved)
    with contextlib.ExitStack() as undo:
        private_paths.install(undo)
    assert private_paths.unknown() == [
        "ops.no_such_module.a",
        "ops.no_such_module.b",
        "ops.nn.no_such",
    ]


def test_a_failed_installation_takes_them_away():
    from tensorflow.python.ops import math_ops

    with contextlib.ExitStack() as undo:
        private_paths.install(undo)
        before = set(vars(math_ops))
        with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as inner:
            patch.setattr(private_paths, "NAMES", (("ops.math_ops", "ops.nn", "relu=our_relu"),))
            private_paths.install(inner)
            assert math_ops.our_relu is tf.nn.relu
        assert set(vars(math_ops)) == before
