"""Signatures and outputs that cannot classify or regress are errors."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from estimator_kit.serving import answers
from estimator_kit.serving.errors import RequestError

TWO = [b"first", b"second"]
WORDS = np.array([["a"], ["b"]], object)
SCORES = np.array([[0.5], [0.25]], np.float32)


class Model:
    """A loaded model with one signature, `s`, whose outputs do not depend on its inputs.

    Args:
      method: what it is for, such as `classify`.
      outputs: its outputs.
      inputs: the names of its inputs.
    """

    def __init__(self, method, outputs, inputs=("inputs",)):
        self._outputs = outputs
        self.signatures = {
            "s": SimpleNamespace(
                method_name=f"tensorflow/serving/{method}",
                inputs=dict.fromkeys(inputs), outputs=dict.fromkeys(outputs),
            )
        }  # fmt: skip

    def run(self, name, inputs, outputs):
        assert name == "s" and list(inputs["inputs"]) == TWO
        return {alias: self._outputs[alias] for alias in outputs}


@pytest.mark.parametrize(
    ("outputs", "code", "message"),
    [
        ({"logits": 0}, "FAILED_PRECONDITION", "s has no output 'classes' or 'scores'"),
        ({"classes": WORDS[:, 0]}, "INVALID_ARGUMENT",
         "output classes: expected object of the shape [2, classes], got object of the shape [2]"),
        ({"scores": SCORES.astype(float)}, "INVALID_ARGUMENT",
         "output scores: expected float32 of the shape [2, classes], got float64 of the shape "
         "[2, 1]"),
        ({"classes": WORDS, "scores": SCORES[:1]}, "INVALID_ARGUMENT",
         "output scores: expected float32 of the shape [2, classes], got float32 of the shape "
         "[1, 1]"),
    ],
)  # fmt: skip
def test_outputs_that_are_no_classes(outputs, code, message):
    with pytest.raises(RequestError) as error:
        answers.classify(Model("classify", outputs), "s", TWO)
    assert (error.value.code, str(error.value)) == (code, message)


@pytest.mark.parametrize(
    ("model", "signature", "code", "message"),
    [
        (Model("regress", {"logits": 0}), "s", "FAILED_PRECONDITION", "s has no output 'outputs'"),
        (Model("regress", {"outputs": np.zeros([2, 2], np.float32)}), "s", "INVALID_ARGUMENT",
         "output outputs: expected float32 of the shape [2] or [2, 1], got float32 of the shape "
         "[2, 2]"),
        (Model("regress", {"outputs": 0}), "t", "INVALID_ARGUMENT",
         "unknown signature 't'. Use one of: s."),
        (Model("predict", {"outputs": 0}), "s", "INVALID_ARGUMENT",
         "s is a signature for tensorflow/serving/predict, not for regress"),
        (Model("regress", {"outputs": 0}, inputs=("a", "b")), "s", "INVALID_ARGUMENT",
         "inputs of s: expected the names inputs, got a, b"),
    ],
)  # fmt: skip
def test_a_signature_that_cannot_regress(model, signature, code, message):
    with pytest.raises(RequestError) as error:
        answers.regress(model, signature, TWO)
    assert (error.value.code, str(error.value)) == (code, message)


def test_no_example_is_an_error():
    with pytest.raises(RequestError, match="expected at least one example, got none"):
        answers.regress(Model("regress", {"outputs": SCORES}), "s", [])


def test_classes_or_scores_alone_are_enough():
    classes, scores = answers.classify(Model("classify", {"scores": SCORES}), "s", TWO)
    assert classes is None and scores.tolist() == [[0.5], [0.25]]
    classes, scores = answers.classify(Model("classify", {"classes": WORDS}), "s", TWO)
    assert scores is None and classes.tolist() == [["a"], ["b"]]
    assert answers.regress(Model("regress", {"outputs": SCORES}), "s", TWO).tolist() == [0.5, 0.25]
