"""Fills TensorFlow Serving's messages of requests and responses from the arrays of `answers`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np

from estimator_kit.client import tensors
from estimator_kit.client.tensors import DEFAULT_SIGNATURE
from estimator_kit.serving.errors import RequestError


def fill_spec(spec: Any, model: str, signature: str, version: int) -> None:
    """Fills the `ModelSpec` of a response: what has answered."""
    spec.name = model
    spec.signature_name = signature or DEFAULT_SIGNATURE
    spec.version.value = version


def fill_predict(response: Any, outputs: Mapping[str, np.ndarray]) -> None:
    """Raises RequestError: an output has a type that a message cannot hold."""
    for name, array in outputs.items():
        try:
            tensors.fill_fields(response.outputs[name], array)
        except ValueError as error:
            raise RequestError("UNIMPLEMENTED", f"output {name}: {error}") from error


def fill_classify(
    response: Any, labels: Optional[np.ndarray], scores: Optional[np.ndarray]
) -> None:
    """Fills labels and scores [rows, classes], of which one may be None."""
    shape = next(array.shape for array in (labels, scores) if array is not None)
    for row in range(shape[0]):
        classes = response.result.classifications.add().classes
        for column in range(shape[1]):
            added = classes.add()
            if labels is not None:
                added.label = labels[row, column].decode("utf-8", "replace")
            if scores is not None:
                added.score = scores[row, column]


def fill_regress(response: Any, values: np.ndarray) -> None:
    for value in values.tolist():
        response.result.regressions.add().value = value


def fill_inputs(request: Any, inputs: Mapping[str, np.ndarray]) -> None:
    """Fills a PredictRequest."""
    for name, array in inputs.items():
        tensors.fill(request.inputs[name], array)


def fill_examples(request: Any, examples: Sequence[bytes]) -> None:
    """Fills a ClassificationRequest or RegressionRequest with serialized Examples."""
    for example in examples:
        request.input.example_list.examples.add().ParseFromString(example)
