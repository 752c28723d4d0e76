"""Signatures and outputs that cannot classify or regress get TensorFlow Serving's errors."""

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
        ({"classes": 0, "scores": 0, "more": 0}, "INVALID_ARGUMENT",
         "Expected one or two output Tensors, found 3"),
        ({"logits": 0}, "FAILED_PRECONDITION",
         "Expected classification signature outputs to contain at least one of \"classes\" or "
         '"scores". Signature was: s'),
        ({"classes": WORDS[:, 0]}, "INVALID_ARGUMENT",
         "Expected Tensor shape: [batch_size num_classes] but got [2]"),
        ({"classes": SCORES}, "INVALID_ARGUMENT",
         "Expected classes Tensor of another type. Got: float32"),
        ({"scores": SCORES.astype(float)}, "INVALID_ARGUMENT",
         "Expected scores Tensor of another type. Got: float64"),
        ({"classes": WORDS, "scores": SCORES[:1]}, "INVALID_ARGUMENT",
         "Expected scores output batch size of 2. Got: 1"),
    ],
)  # fmt: skip
def test_outputs_that_are_no_classes(outputs, code, message):
    with pytest.raises(RequestError) as error:
        answers.classify(Model("classify", outputs), "s", TWO)
    assert (error.value.code, str(error.value)) == (code, message)


@pytest.mark.parametrize(
    ("outputs", "code", "message"),
    [
        ({"outputs": 0, "more": 0}, "INVALID_ARGUMENT", "Expected one output Tensor."),
        ({"logits": 0}, "FAILED_PRECONDITION", "No regression outputs found in SignatureDef: s"),
        ({"outputs": np.zeros([2, 2], np.float32)}, "INVALID_ARGUMENT",
         "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got [2,2]"),
        ({"outputs": SCORES[:1]}, "INVALID_ARGUMENT",
         "Input batch size did not match output batch size: 2 vs. 1"),
        ({"outputs": SCORES.astype(float)}, "INVALID_ARGUMENT",
         "Expected output Tensor of DT_FLOAT.  Got: float64"),
    ],
)  # fmt: skip
def test_outputs_that_are_no_values(outputs, code, message):
    with pytest.raises(RequestError) as error:
        answers.regress(Model("regress", outputs), "s", TWO)
    assert (error.value.code, str(error.value)) == (code, message)


@pytest.mark.parametrize(
    ("model", "signature", "code", "message"),
    [
        (Model("regress", {"outputs": 0}), "t", "INVALID_ARGUMENT",
         "No signature was found with the name: t"),
        (Model("predict", {"outputs": 0}), "s", "INVALID_ARGUMENT",
         "Expected regression signature method_name to be tensorflow/serving/regress. Was: "
         "tensorflow/serving/predict"),
        (Model("regress", {"outputs": 0}, inputs=("a", "b")), "s", "INVALID_ARGUMENT",
         "Expected one input Tensor."),
        (Model("regress", {"outputs": 0}, inputs=("a",)), "s", "FAILED_PRECONDITION",
         "No regression inputs found in SignatureDef: s"),
    ],
)  # fmt: skip
def test_a_signature_that_cannot_regress(model, signature, code, message):
    with pytest.raises(RequestError) as error:
        answers.regress(model, signature, TWO)
    assert (error.value.code, str(error.value)) == (code, message)


def test_no_example_is_an_error():
    with pytest.raises(RequestError, match=r"^Input is empty\.$"):
        answers.regress(Model("regress", {"outputs": SCORES}), "s", [])


def test_classes_or_scores_alone_are_enough():
    classes, scores = answers.classify(Model("classify", {"scores": SCORES}), "s", TWO)
    assert classes is None and scores.tolist() == [[0.5], [0.25]]
    classes, scores = answers.classify(Model("classify", {"classes": WORDS}), "s", TWO)
    assert scores is None and classes.tolist() == [["a"], ["b"]]
    assert answers.regress(Model("regress", {"outputs": SCORES}), "s", TWO).tolist() == [0.5, 0.25]
