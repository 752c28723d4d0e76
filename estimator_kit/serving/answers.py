"""Predict, classify and regress with a loaded model: arrays in, arrays out.

Errors of a request have TensorFlow Serving's codes. This module knows the messages of requests, of
the official classes, but no transport.

`warm_up` sends the requests that a version must answer before it is live: those in
`assets.extra/tf_serving_warmup_requests`, a TFRecord file of `PredictionLog`s that TensorFlow
Serving also reads, and one request without rows to each signature that takes rows, which fails if
variables or tables are missing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.client import tensors
from estimator_kit.client.tensors import DEFAULT_SIGNATURE
from estimator_kit.serving.errors import CODES, RequestError, check_names, invalid
from estimator_kit.serving.loaded_model import LoadedModel
from feature_specs.errors import did_you_mean
from input_pipelines.record_files import file_lengths
from input_pipelines.record_files.framing import LARGEST_RECORD
from input_pipelines.transform import checks

# The beginnings of the lines that TensorFlow puts before the reason of an error.
_AROUND = ("Graph execution error:", "Detected at node", "<stack traces unavailable>", "Node: ")


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
            hint = did_you_mean(alias, sorted(definition.outputs))
            raise invalid(f"output_filter: {name} has no output {alias!r}{hint}")
        if list(output_filter).count(alias) > 1:
            raise invalid(f"output_filter: {alias!r} is listed twice")
    for alias in sorted(inputs):
        _check_type(alias, definition.inputs[alias], inputs[alias])
    return _run(model, name, inputs, list(output_filter) or sorted(definition.outputs))


def classify(
    model: LoadedModel, signature: str, examples: Sequence[bytes]
) -> tuple[Optional[np.ndarray], Optional[np.ndarray]]:
    """Labels and scores of serialized Examples, [rows, classes]; None if the signature has none."""
    name, definition = _of_method(model, signature, "classify")
    aliases = [alias for alias in ("classes", "scores") if alias in definition.outputs]
    if not aliases:
        raise RequestError("FAILED_PRECONDITION", f"{name} has no output 'classes' or 'scores'")
    outputs = _run(model, name, {"inputs": _vector(examples)}, aliases)
    for alias, dtype in (("classes", np.object_), ("scores", np.float32)):
        array = outputs.get(alias)
        is_good = array is None or (array.ndim == 2 and len(array) == len(examples))
        _check_output(alias, array, dtype, f"[{len(examples)}, classes]", is_good)
    return outputs.get("classes"), outputs.get("scores")


def regress(model: LoadedModel, signature: str, examples: Sequence[bytes]) -> np.ndarray:
    """The values of serialized Examples, float32 [rows]."""
    name, definition = _of_method(model, signature, "regress")
    if "outputs" not in definition.outputs:
        raise RequestError("FAILED_PRECONDITION", f"{name} has no output 'outputs'")
    values = _run(model, name, {"inputs": _vector(examples)}, ["outputs"])["outputs"]
    rows = len(examples)
    is_good = values.shape in ((rows,), (rows, 1))
    _check_output("outputs", values, np.float32, f"[{rows}] or [{rows}, 1]", is_good)
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
    model: LoadedModel, request: Any
) -> tuple[Optional[np.ndarray], Optional[np.ndarray]]:
    """`classify` for a `ClassificationRequest`."""
    return classify(model, request.model_spec.signature_name, _examples(request.input))


def regress_message(model: LoadedModel, request: Any) -> np.ndarray:
    """`regress` for a `RegressionRequest`."""
    return regress(model, request.model_spec.signature_name, _examples(request.input))


def with_context(context: bytes, examples: Sequence[bytes]) -> list[bytes]:
    """Serialized examples, each with the common context."""
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
    definition, inputs = _definition(model, signature)[1], document.get("inputs")
    sent = inputs if isinstance(inputs, Mapping) else {}
    return {
        alias: info
        for alias, info in definition.inputs.items()
        if alias not in definition.defaults or alias in sent
    }


def _examples(message: Any) -> list[bytes]:
    kind = message.WhichOneof("kind")
    if kind == "example_list":
        return [example.SerializeToString() for example in message.example_list.examples]
    both = message.example_list_with_context
    examples = [example.SerializeToString() for example in both.examples]
    return with_context(both.context.SerializeToString(), examples)


def _definition(
    model: LoadedModel, signature: str, code: str = "INVALID_ARGUMENT"
) -> tuple[str, Any]:
    """The name and definition of a signature; an empty name means the default one."""
    name = signature or DEFAULT_SIGNATURE
    if name not in model.signatures:
        hint = did_you_mean(name, sorted(model.signatures))
        raise RequestError(code, f"unknown signature {name!r}{hint}")
    return name, model.signatures[name]


def _to_predict(model: LoadedModel, signature: str, inputs: Mapping[str, Any]) -> tuple[str, Any]:
    """The name and definition of a signature with exactly these inputs, and those with defaults."""
    name, definition = _definition(model, signature, "FAILED_PRECONDITION")
    check_names(f"inputs of {name}", {*inputs, *definition.defaults}, definition.inputs)
    return name, definition


def _of_method(model: LoadedModel, signature: str, method: str) -> tuple[str, Any]:
    name, definition = _definition(model, signature)
    if definition.method_name != f"tensorflow/serving/{method}":
        raise invalid(f"{name} is a signature for {definition.method_name}, not for {method}")
    check_names(f"inputs of {name}", definition.inputs, ["inputs"])
    return name, definition


def _vector(examples: Sequence[bytes]) -> np.ndarray:
    if not examples:
        raise invalid("expected at least one example, got none")
    array = np.empty(len(examples), np.object_)
    array[:] = examples
    return array


def _check_output(
    alias: str, array: Optional[np.ndarray], dtype: Any, expected: str, is_good: bool
) -> None:
    if array is not None and not (is_good and array.dtype == dtype):
        raise invalid(
            f"output {alias}: expected {np.dtype(dtype)} of the shape {expected}, got "
            f"{array.dtype} of the shape {list(array.shape)}"
        )


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


# TensorFlow Serving has the same limit.
_MOST_RECORDS = 1000


def warm_up(model: LoadedModel) -> int:
    """Sends the requests to a version; returns the number of warm-up requests.

    Raises:
      RequestError, ValueError, tf.errors.OpError: the version did not answer.
    """
    if not model.signatures:
        raise ValueError("it has no signature")
    for name in sorted(model.signatures):
        _ask_without_rows(model, name)
    path = os.path.join(model.path, "assets.extra", "tf_serving_warmup_requests")
    if not tf.io.gfile.exists(path):
        return 0
    return _replay(model, path)


def _ask_without_rows(model: LoadedModel, name: str) -> None:
    signature = model.signatures[name]
    inputs = {}
    for alias, info in signature.inputs.items():
        shape = [dim.size for dim in info.tensor_shape.dim]
        dtype = tensors.numpy_type(info.dtype)
        if info.tensor_shape.unknown_rank or not shape or shape[0] >= 0 or dtype is None:
            return
        inputs[alias] = np.zeros([0, *(max(size, 1) for size in shape[1:])], dtype)
    if not inputs:
        return
    # A model may refuse a request without rows. Damage causes other errors.
    with contextlib.suppress(tf.errors.InvalidArgumentError):
        model.run(name, inputs, sorted(signature.outputs))


def _replay(model: LoadedModel, path: str) -> int:
    from tensorflow_serving.apis import prediction_log_pb2

    if file_lengths.has_too_large(path):
        raise ValueError(f"a request of {path} has more than {LARGEST_RECORD:,} bytes")
    count = 0
    for record in tf.compat.v1.io.tf_record_iterator(path):
        if count == _MOST_RECORDS:
            break
        log = prediction_log_pb2.PredictionLog.FromString(record)
        kind = log.WhichOneof("log_type")
        try:
            if kind == "predict_log":
                predict_message(model, log.predict_log.request)
            elif kind == "classify_log":
                classify_message(model, log.classify_log.request)
            elif kind == "regress_log":
                regress_message(model, log.regress_log.request)
            else:
                raise ValueError(f"this server does not answer {kind}")
        except (RequestError, ValueError, tf.errors.OpError) as error:
            raise ValueError(f"warm-up request {count} of {path}: {error}") from error
        count += 1
    return count
