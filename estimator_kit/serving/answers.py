"""Predict, classify and regress with a loaded model: arrays in, arrays out.

Errors of a request have TensorFlow Serving's codes and nearly its messages
(tensorflow_serving/servables/tensorflow: predict_util.cc, classifier.cc, regressor.cc, util.cc).
This module knows the messages of requests, of the official classes, but no transport.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.client import tensors
from estimator_kit.client.signatures import DEFAULT_SIGNATURE
from estimator_kit.serving.errors import CODES, RequestError, invalid
from estimator_kit.serving.loaded_model import LoadedModel
from input_pipelines.transform import checks

# The beginnings of the lines that TensorFlow puts before the reason of an error.
_AROUND = ("Graph execution error:", "Detected at node", "<stack traces unavailable>", "Node: ")

_METHOD = "tensorflow/serving/"
_METHODS = (f"{_METHOD}predict", f"{_METHOD}classify", f"{_METHOD}regress")


def predict(
    model: LoadedModel,
    signature: str,
    inputs: Mapping[str, np.ndarray],
    output_filter: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """The outputs of a signature: all, or those that the filter names."""
    name, definition = _to_predict(model, signature, inputs)
    defaults = {n: tf.make_ndarray(value) for n, value in definition.defaults.items()}
    inputs = {**defaults, **inputs}
    for alias in output_filter:
        if alias not in definition.outputs:
            raise invalid(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in "
                f"the set {{{','.join(sorted(definition.outputs))}}}."
            )
        if list(output_filter).count(alias) > 1:
            raise invalid(f"duplicate output tensor alias: {alias}")
    for alias in sorted(inputs):
        _check_type(alias, definition.inputs[alias], inputs[alias])
    return _run(model, name, inputs, list(output_filter) or sorted(definition.outputs))


def classify(
    model: LoadedModel, signature: str, examples: Sequence[bytes]
) -> tuple[Optional[np.ndarray], Optional[np.ndarray]]:
    """Labels and scores of serialized Examples, [rows, classes]; None if the signature has none."""
    name, definition = _of_method(model, signature, "classify", "classification")
    if len(definition.outputs) not in (1, 2):
        raise invalid(f"Expected one or two output Tensors, found {len(definition.outputs)}")
    aliases = [alias for alias in ("classes", "scores") if alias in definition.outputs]
    if not aliases:
        raise RequestError(
            "FAILED_PRECONDITION",
            "Expected classification signature outputs to contain at least one of "
            f'"classes" or "scores". Signature was: {name}',
        )
    found = _run(model, name, {"inputs": _vector(examples)}, aliases)
    for alias, expected in (("classes", np.object_), ("scores", np.float32)):
        array = found.get(alias)
        if array is None:
            continue
        if array.ndim != 2:
            raise invalid(
                f"Expected Tensor shape: [batch_size num_classes] but got {_text(array.shape)}"
            )
        if array.dtype != expected:
            raise invalid(f"Expected {alias} Tensor of another type. Got: {array.dtype}")
        if len(array) != len(examples):
            raise invalid(
                f"Expected {alias} output batch size of {len(examples)}. Got: {len(array)}"
            )
    return found.get("classes"), found.get("scores")


def regress(model: LoadedModel, signature: str, examples: Sequence[bytes]) -> np.ndarray:
    """The values of serialized Examples, float32 [rows]."""
    name, definition = _of_method(model, signature, "regress", "regression")
    if len(definition.outputs) != 1:
        raise invalid("Expected one output Tensor.")
    if "outputs" not in definition.outputs:
        raise RequestError(
            "FAILED_PRECONDITION", f"No regression outputs found in SignatureDef: {name}"
        )
    values = _run(model, name, {"inputs": _vector(examples)}, ["outputs"])["outputs"]
    if values.ndim != 1 and (values.ndim != 2 or values.shape[1] != 1):
        raise invalid(
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got "
            f"{_text(values.shape)}"
        )
    if len(values) != len(examples):
        raise invalid(
            f"Input batch size did not match output batch size: {len(examples)} vs. {len(values)}"
        )
    if values.dtype != np.float32:
        raise invalid(f"Expected output Tensor of DT_FLOAT.  Got: {values.dtype}")
    return values.reshape(-1)


def predict_message(
    model: LoadedModel, request: Any, max_bytes: Optional[int] = None
) -> dict[str, np.ndarray]:
    """`predict` for a `PredictRequest`. Each of its arrays may take at most `max_bytes` bytes."""
    name = request.model_spec.signature_name
    # Before the arrays are made, so that there are at most as many as the signature has inputs.
    _to_predict(model, name, request.inputs)
    inputs = {}
    for alias in sorted(request.inputs):
        try:
            inputs[alias] = tensors.to_array(request.inputs[alias], max_bytes)
        except ValueError as error:
            raise invalid(f"input {alias}: {error}") from error
    return predict(model, name, inputs, list(request.output_filter))


def classify_message(
    model: LoadedModel, request: Any, max_bytes: Optional[int] = None
) -> tuple[Optional[np.ndarray], Optional[np.ndarray]]:
    """`classify` for a `ClassificationRequest`. Its examples may take at most `max_bytes` bytes."""
    return classify(model, request.model_spec.signature_name, _examples(request.input, max_bytes))


def regress_message(
    model: LoadedModel, request: Any, max_bytes: Optional[int] = None
) -> np.ndarray:
    """`regress` for a `RegressionRequest`. Its examples may take at most `max_bytes` bytes."""
    return regress(model, request.model_spec.signature_name, _examples(request.input, max_bytes))


def with_context(
    context: bytes, examples: Sequence[bytes], max_bytes: Optional[int] = None
) -> list[bytes]:
    """Serialized examples, each with the common context.

    Raises:
      RequestError: together they take more than `max_bytes`.
    """
    size = len(context) * len(examples) + sum(map(len, examples))
    if context and max_bytes is not None and size > max_bytes:
        raise invalid(
            f"{len(examples):,} examples with their context of {len(context):,} bytes each take "
            f"{size:,} bytes, and at most {max_bytes:,} are allowed"
        )
    # Two concatenated messages are one message with the fields of both.
    return [context + example for example in examples]


def reason(error: tf.errors.OpError) -> str:
    """The reason in a TensorFlow error, without the nodes and stacks around it."""
    text = checks.text_of(error)
    if text is not None:
        return text.replace("] [", " ")  # An assertion puts each of its parts in brackets.
    lines = [line.strip() for line in error.message.strip().splitlines()]
    # The reason ends where the failed node is named. Other nodes may be named before it.
    end = next((i for i, line in enumerate(lines) if line.startswith("[[{{node")), len(lines))
    kept = lines[:end]
    starts = [i for i, line in enumerate(kept) if line.startswith(_AROUND)]
    kept = kept[starts[-1] + 1 :] if starts else kept
    return "\n".join(line for line in kept if line) or error.message


def signature_inputs(
    model: LoadedModel, signature: str, document: Mapping[str, Any]
) -> Mapping[str, Any]:
    """`{input: TensorInfo}` of a signature, for reading JSON.

    Inputs with defaults are left out, unless the request has them under `inputs`.
    """
    name = signature or DEFAULT_SIGNATURE
    if name not in model.signatures:
        raise invalid(f'Serving signature name: "{name}" not found in signature def')
    definition, given = model.signatures[name], document.get("inputs")
    sent = given if isinstance(given, Mapping) else {}
    return {
        alias: info
        for alias, info in definition.inputs.items()
        if alias not in definition.defaults or alias in sent
    }


def _examples(given: Any, max_bytes: Optional[int]) -> list[bytes]:
    kind = given.WhichOneof("kind")
    if kind == "example_list":
        return [example.SerializeToString() for example in given.example_list.examples]
    if kind == "example_list_with_context":
        both = given.example_list_with_context
        examples = [example.SerializeToString() for example in both.examples]
        return with_context(both.context.SerializeToString(), examples, max_bytes)
    return []


def _to_predict(model: LoadedModel, signature: str, inputs: Mapping[str, Any]) -> tuple[str, Any]:
    """The name and definition of a signature with exactly these inputs, and those with defaults."""
    name = signature or DEFAULT_SIGNATURE
    definition = model.signatures.get(name)
    if definition is None:
        raise RequestError("FAILED_PRECONDITION", f'Serving signature key "{name}" not found.')
    if definition.method_name not in _METHODS:
        raise RequestError(
            "INTERNAL",
            "Expected prediction signature method_name to be one of "
            f"{{{', '.join(_METHODS)}}}. Was: {definition.method_name}",
        )
    _check_names(definition, {*inputs, *definition.defaults})
    return name, definition


def _of_method(model: LoadedModel, signature: str, method: str, noun: str) -> tuple[str, Any]:
    name = signature or DEFAULT_SIGNATURE
    definition = model.signatures.get(name)
    if definition is None:
        raise invalid(f"No signature was found with the name: {name}")
    if definition.method_name != _METHOD + method:
        raise invalid(
            f"Expected {noun} signature method_name to be {_METHOD}{method}. "
            f"Was: {definition.method_name}"
        )
    if len(definition.inputs) != 1:
        raise invalid("Expected one input Tensor.")
    if "inputs" not in definition.inputs:
        raise RequestError("FAILED_PRECONDITION", f"No {noun} inputs found in SignatureDef: {name}")
    return name, definition


def _vector(examples: Sequence[bytes]) -> np.ndarray:
    if not examples:
        raise invalid("Input is empty.")
    array = np.empty(len(examples), np.object_)
    array[:] = examples
    return array


def _check_names(definition: Any, sent: Collection[str]) -> None:
    sent, known = set(sent), set(definition.inputs)
    extra, missing = ",".join(sorted(sent - known)), ",".join(sorted(known - sent))
    if len(sent) != len(known):
        raise invalid(
            f"input size does not match signature: {len(sent)}!={len(known)} "
            f"len({{{','.join(sorted(sent))}}}) != len({{{','.join(sorted(known))}}}). "
            f"Sent extra: {{{extra}}}. Missing but required: {{{missing}}}."
        )
    if extra:
        raise invalid(
            f"input tensor alias not found in signature: {extra}. Inputs expected to be in the "
            f"set {{{','.join(sorted(known))}}}."
        )


def _text(shape: Sequence[Any]) -> str:
    """A shape in the form of TensorFlow Serving, `[2,3]`."""
    return f"[{','.join(map(str, shape))}]"


def _check_type(alias: str, info: Any, array: np.ndarray) -> None:
    expected = tensors.numpy_type(info.dtype)
    if expected is not None and array.dtype != expected:
        raise invalid(
            f"input {alias}: expected {tensors.NAMES[info.dtype]}, got "
            f"{'string' if array.dtype == np.object_ else array.dtype}"
        )


def _run(
    model: LoadedModel, name: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
) -> dict[str, np.ndarray]:
    try:
        return model.run(name, inputs, outputs)
    except tf.errors.OpError as error:
        raise RequestError(CODES[error.error_code], reason(error)) from error
    except UnicodeDecodeError as error:
        # The message contains bytes of the request that are not UTF-8, so Python cannot read it.
        raise invalid(bytes(error.object).decode("utf-8", "replace")) from error
