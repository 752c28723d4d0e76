"""The line of a TensorFlow error that says what is wrong."""

from __future__ import annotations

import shutil

import pytest
import tensorflow as tf

from estimator_kit.errors import tensorflow_reason
from estimator_kit.serving.loaded_model import LoadedModel
from tests.estimator_kit.serving.small_models import write_version


def test_what_a_damaged_export_is_refused_for(tmp_path):
    good = write_version(tmp_path, 3)
    data = "variables/variables.data-00000-of-00001"

    def refused(name, content):
        path = shutil.copytree(good, tmp_path / name)
        (path / data).unlink()
        if content is not None:
            (path / data).write_bytes(content)
        with pytest.raises(Exception) as error:
            LoadedModel(str(path), 3)
        with pytest.raises(Exception) as eager:
            tf.saved_model.load(str(path))
        assert tensorflow_reason(eager.value) == tensorflow_reason(error.value)
        return tensorflow_reason(error.value)

    whole = (good / data).read_bytes()
    flipped = bytearray(whole)
    flipped[1000] ^= 1
    assert refused("short", whole[:2000]) == "Read less bytes than requested"
    assert refused("gone", None) == f"{tmp_path}/gone/{data}; No such file or directory"
    assert ": Checksum does not match: stored " in refused("flipped", flipped)


def test_the_lines_of_an_error():
    assert tensorflow_reason(ValueError()) == ""
    assert tensorflow_reason(ValueError("it has no signature\nmore")) == "it has no signature"
    assert tensorflow_reason(ValueError("x" * 500)) == "x" * 400
    assert tensorflow_reason(ValueError("Node: 'a'")) == "Node: 'a'"
    inner = "Graph execution error:\n\nNode: 'a'\n{}\n\t [[{{{{node a}}}}]]\n\nOriginal"
    assert tensorflow_reason(ValueError(inner.format("{{node a}} bad"))) == "bad"
    two = inner.format("2 root error(s) found.\n  (0) NOT_FOUND: x; No such file\n  (1) y")
    assert tensorflow_reason(ValueError(f"Outer.\n\n{two}")) == "NOT_FOUND: x; No such file"
    found = "Detected at node {} defined at (most recent call last):\n{}\n"
    file, none = '  File "a.py", line 1, in <module>\n    f()\n', "<stack traces unavailable>"
    eager = f"Graph execution error:\n\n{found.format('a', file)}{found.format('b', none)}"
    assert tensorflow_reason(ValueError(eager)) == "Graph execution error:"
    assert tensorflow_reason(ValueError(f"{eager}bad\n\t [[{{{{node a}}}}]]")) == "bad"
