"""tf_slim finds every name of TensorFlow that it uses, and no module is imported twice."""

import importlib
import importlib.util
from pathlib import Path

import pytest

from estimator_kit.compat import private_paths
from tools import tensorflow_report


@pytest.mark.parametrize(("old", "new"), private_paths.MODULES.items())
def test_a_module_is_the_same_at_both_places(old, new):
    found = importlib.import_module(f"tensorflow.python.{old}")
    assert found is private_paths._module(new) or found.__name__ == f"tensorflow.python.{old}"


def test_tf_slim_finds_every_name():
    """tf_slim 1.1.0 is older than TensorFlow 2.14, which moved ten names that it uses."""
    root = Path(importlib.util.find_spec("tf_slim").submodule_search_locations[0])
    files = [file for file in root.rglob("*.py") if not file.stem.endswith("test")]
    mentioned = tensorflow_report.names(files)
    assert len(mentioned) > 400
    assert [name for name in sorted(mentioned) if tensorflow_report.first_missing(name)] == []
