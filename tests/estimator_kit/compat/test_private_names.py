"""The table of private names agrees with tensorflow-estimator's source."""

import importlib
from pathlib import Path

import pytest

from estimator_kit.compat import private_names, versions
from tests.estimator_kit.compat.support import ROOT, run_code
from tools import tensorflow_report

pytestmark = pytest.mark.skipif(
    versions.read().has_own_estimator, reason="on 2.15 no private name is used"
)


def test_no_name_is_missing_here():
    assert private_names.missing() == []


def test_the_counts_of_the_document():
    text = (ROOT / "docs" / "guides" / "longevity.md").read_text(encoding="utf-8")
    ours, estimators = len(private_names.OURS), len(private_names.ESTIMATORS)
    assert f"{ours} that the kit uses and {estimators} that tensorflow-estimator imports" in text


def test_missing_finds_modules_and_attributes():
    names = private_names._names(
        ("tensorflow.python.no_such_module", "anything", "a test"),
        ("tensorflow.python.framework.ops", "no_such_name uid", "a test"),
    )
    assert private_names.missing(names) == [
        "tensorflow.python.no_such_module.anything is missing: a test",
        "tensorflow.python.framework.ops.no_such_name is missing: a test",
    ]


def test_no_name_is_listed_twice():
    listed = [(n.module, n.attribute) for n in private_names.ESTIMATORS]
    assert sorted(listed) == sorted(set(listed))


def test_table_is_what_the_loaded_source_imports():
    printed = run_code(
        """
        import sys
        import estimator_kit.compat
        import tensorflow as tf
        from tensorflow_estimator.python.estimator import keras_lib  # tf.keras.estimator
        for name, module in sorted(sys.modules.items()):
            if name.startswith("tensorflow_estimator") and getattr(module, "__file__", None):
                print(module.__file__)
        """
    )
    files = {Path(line) for line in printed.splitlines()}
    prefixes = ("tensorflow.python.", "tensorflow.core.", "tensorflow.tools.")
    mentioned = set()
    for name in tensorflow_report.names(files):
        module, attribute = _split(name)
        if name.startswith(prefixes) and attribute:
            mentioned.add(f"{module}.{attribute}")
    listed = {f"{n.module}.{n.attribute}" for n in private_names.ESTIMATORS}
    supplied = {n for n in mentioned if n.startswith(tuple(private_names.SUPPLIED))}
    assert len(files) > 70
    assert mentioned - supplied == {n for n in listed if not n.startswith("tf_keras.")}


def _split(name):
    """The longest prefix of a dotted name that is a module, and the rest of the name."""
    parts = name.split(".")
    for count in range(2, len(parts) + 1):
        try:
            importlib.import_module(".".join(parts[:count]))
        except ImportError:
            return ".".join(parts[: count - 1]), parts[count - 1]
    return name, None
