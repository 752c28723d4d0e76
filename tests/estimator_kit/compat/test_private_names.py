"""The table of private names agrees with tensorflow-estimator's source."""

import importlib
from pathlib import Path

import pytest

from estimator_kit.compat import private_names, versions
from estimator_kit.compat.tpu import private_names as tpu_names
from tests.estimator_kit.compat.support import ROOT, run_code
from tools import tensorflow_report

pytestmark = pytest.mark.skipif(
    versions.read().has_own_estimator, reason="on 2.15 no private name is used"
)


def test_no_name_is_missing_here():
    assert private_names.missing() == []
    assert private_names.missing(tpu_names.NAMES) == []


def test_the_counts_of_the_document():
    text = (ROOT / "docs" / "guides" / "longevity.md").read_text(encoding="utf-8")
    ours, estimators = len(private_names.OURS), len(private_names.ESTIMATORS)
    assert (
        f"{ours} that the kit uses, {estimators} that tensorflow-estimator imports, and "
        f"{len(tpu_names.NAMES)} that only TPUEstimator imports" in " ".join(text.split())
    )


def test_missing_finds_modules_and_attributes():
    names = private_names.names(
        ("tensorflow.python.no_such_module", "anything", "a test"),
        ("tensorflow.python.framework.ops", "no_such_name uid", "a test"),
    )
    assert private_names.missing(names) == [
        "tensorflow.python.no_such_module.anything is missing: a test",
        "tensorflow.python.framework.ops.no_such_name is missing: a test",
    ]


def test_no_name_is_listed_twice():
    names = private_names.ESTIMATORS + tpu_names.NAMES
    listed = [(n.module, n.attribute) for n in names]
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
    of_tpus = {file for file in files if file.parent.name == "tpu"}
    assert len(files - of_tpus) > 60
    assert {"tpu_config.py", "tpu_context.py", "tpu_estimator.py"} < {f.name for f in of_tpus}
    listed = _full(private_names.ESTIMATORS)
    assert _private(files - of_tpus) == {n for n in listed if not n.startswith("tf_keras.")}
    assert _private(of_tpus) - listed == _full(tpu_names.NAMES)


def _private(files):
    """The private names that the source in `files` mentions and that TensorFlow has to have."""
    prefixes = ("tensorflow.python.", "tensorflow.core.", "tensorflow.tools.")
    mentioned = set()
    for name in tensorflow_report.names(files):
        # Importing a public module would make a second copy of TensorFlow's API.
        module, attribute = _split(name) if name.startswith(prefixes) else (name, None)
        if attribute:
            mentioned.add(f"{module}.{attribute}")
    return {n for n in mentioned if not n.startswith(tuple(private_names.SUPPLIED))}


def _full(names):
    return {f"{n.module}.{n.attribute}" for n in names}


def _split(name):
    """The longest prefix of a dotted name that is a module, and the rest of the name."""
    parts = name.split(".")
    for count in range(2, len(parts) + 1):
        try:
            importlib.import_module(".".join(parts[:count]))
        except ImportError:
            return ".".join(parts[: count - 1]), parts[count - 1]
    return name, None
