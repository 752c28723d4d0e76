"""The bodies of REST requests: JSON becomes the arrays of a signature, or Examples.

The format and the errors are those that TensorFlow Serving documents for its RESTful API and
implements in tensorflow_serving/util/json_tensor.cc. Predict takes `instances`, a list of rows, or
`inputs`, an array for each input. Classify and regress take `examples` with a common `context`.
Bytes are `{"b64": ...}`. A number with a point or an exponent is a float, any other number an
integer. A float input takes both, and rounds what it cannot hold, if necessary to infinity. An
integer input takes integers. An array has the shape of its lists, whatever the signature says.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from estimator_kit.client import messages, tensors
from estimator_kit.serving import json_parser
from estimator_kit.serving.errors import RequestError, invalid

# The limit of all NumPy releases.
_MOST_DIMENSIONS = 32

_INTEGERS = {
    3: (-(2**31), 2**31),
    4: (0, 2**8),
    5: (-(2**15), 2**15),
    6: (-(2**7), 2**7),
    9: (-(2**63), 2**63),
    22: (0, 2**32),
    23: (0, 2**64),
}


def parse(body: bytes, most_values: int) -> dict[str, Any]:
    """The JSON object of a body.

    Args:
      body: the complete body.
      most_values: the most values (numbers, strings, lists and objects) that it may have.

    Raises:
      RequestError: the body is not a JSON object, or has more values.
    """
    if not body.strip():
        raise invalid("JSON Parse error: The document is empty")
    try:
        document = json_parser.parse(body.decode("utf-8-sig"), most_values)
    except json_parser.TooManyValuesError as error:
        raise invalid(
            f"the body has {error}; send fewer rows at once, or start the server with a larger "
            "--serving_max_request_mib"
        ) from error
    except ValueError as error:  # Also JSONDecodeError and UnicodeDecodeError.
        raise invalid(f"JSON Parse error: {error}") from error
    if not isinstance(document, dict):
        raise invalid(f"JSON Value: {_text(document)} Is not object")
    return document


def signature_name(document: Mapping[str, Any]) -> str:
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(
            f"JSON Value: {_text(document)} not formatted correctly. 'signature_name' key must be "
            "a string value."
        )
    return name


def predict_inputs(
    document: Mapping[str, Any], inputs: Mapping[str, Any]
) -> tuple[dict[str, np.ndarray], bool]:
    """The arrays of a predict request, and whether the request has `instances`.

    Args:
      document: the request.
      inputs: `{input: TensorInfo}` of the signature.
    """
    by_row, by_input = "instances" in document, "inputs" in document
    if by_row and by_input:
        raise invalid(
            f"JSON Value: {_text(document)} Not formatted correctly expecting only one of "
            "'inputs' or 'instances' keys to exist "
        )
    if not by_row and not by_input:
        raise invalid("Missing 'inputs' or 'instances' key")
    if not inputs:
        raise invalid("the signature has no input")
    if by_row:
        return _of_rows(document["instances"], inputs), True
    return _of_inputs(document["inputs"], inputs), False


def examples(document: Mapping[str, Any]) -> tuple[bytes, list[bytes]]:
    """The serialized context and Examples of a classify or regress request."""
    context = _example(document["context"]) if "context" in document else b""
    if "examples" not in document:
        raise invalid(f"JSON Value: {_text(document)} key 'examples' is expected and was not found")
    rows = document["examples"]
    if not isinstance(rows, list):
        raise invalid(f"JSON Value: {_text(rows)} Expecting 'examples' value to be an list/array")
    if not rows:
        raise invalid("JSON Value: [] 'examples' value is an empty array")
    return context, [_example(row) for row in rows]


def _of_rows(rows: Any, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if not isinstance(rows, list):
        raise invalid(f"JSON Value: {_text(rows)} Excepting 'instances' to be an list/array")
    if not rows:
        raise invalid("JSON Value: [] No values in 'instances' array")
    named = _is_object(rows[0])
    if not named and len(inputs) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple input tensors "
            "required as per tensorinfo_map"
        )
    for number, row in enumerate(rows):
        if named and not _is_object(row):
            raise invalid(f"Expecting object but got list at item {number} of input list")
        if not named and _is_object(row):
            raise invalid(f"Expecting value/list but got object at item {number} of input list")
        if named and row.keys() != inputs.keys():
            raise invalid(
                f"Failed to process element: {number} of 'instances' list. JSON object: "
                f"{_text(row)} keys must be equal to: {','.join(sorted(inputs))}"
            )
    if named:
        columns = {name: [row[name] for row in rows] for name in inputs}
    else:
        columns = {next(iter(inputs)): rows}
    return {name: _array(name, values, inputs[name]) for name, values in columns.items()}


def _of_inputs(given: Any, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if not _is_object(given):
        if len(inputs) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input tensors "
                "required as per tensorinfo_map"
            )
        name = next(iter(inputs))
        return {name: _array(name, given, inputs[name])}
    for name in sorted(inputs):
        if name not in given:
            raise invalid(f"Missing named input: {name} in 'inputs' object.")
    for name in sorted(given):  # TensorFlow Serving ignores these, but they may be typos.
        if name not in inputs:
            raise invalid(f"JSON object: does not have named input: {name}")
    return {name: _array(name, given[name], info) for name, info in inputs.items()}


def _array(name: str, value: Any, info: Any) -> np.ndarray:
    kind = tensors.numpy_type(info.dtype)
    convert = _CONVERTERS.get(info.dtype)
    if kind is None or convert is None:
        known = tensors.NAMES.get(info.dtype, str(info.dtype))
        raise RequestError("UNIMPLEMENTED", f"input {name}: no JSON value becomes a {known}")
    shape: list[int] = []
    first = value
    while isinstance(first, list):
        shape.append(len(first))
        if len(shape) > _MOST_DIMENSIONS:
            raise invalid(f"input {name}: lists are nested deeper than {_MOST_DIMENSIONS}")
        first = first[0] if first else None
    flat: list[Any] = []
    try:
        _flatten(value, 0, shape, convert, flat)
    except RequestError as error:
        raise invalid(f"input {name}: {error.message}") from error
    if kind == np.object_:
        strings = np.empty(len(flat), np.object_)
        strings[:] = flat
        return strings.reshape(shape)
    with np.errstate(over="ignore"):
        return np.array(flat, kind).reshape(shape)


def _flatten(
    value: Any, level: int, shape: list[int], convert: Callable[[Any], Any], flat: list[Any]
) -> None:
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid(
                f"JSON Value: {_text(value)} found at incorrect level: {level + 1} in the JSON "
                f"DOM. Expected at level: {len(shape)}"
            )
        flat.append(convert(value))
        return
    if level >= len(shape):
        raise invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise invalid(
            f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: "
            f"{shape[level]}"
        )
    if level == len(shape) - 1:
        for item in value:
            if isinstance(item, list):
                raise invalid(
                    f"Encountered list at unexpected level: {level + 1} expected < {len(shape)}"
                )
            flat.append(convert(item))
        return
    for item in value:
        _flatten(item, level + 1, shape, convert, flat)


def _type_error(value: Any, expected: str) -> RequestError:
    return invalid(
        f"JSON Value: {_text(value)} Type: {_type_name(value)} is not of expected type: {expected}"
    )


def _float_converter(name: str) -> Callable[[Any], float]:
    def convert(value: Any) -> float:
        if type(value) not in (float, int):
            raise _type_error(value, name)
        return float(value)

    return convert


def _integer_converter(dtype: int) -> Callable[[Any], int]:
    low, end = _INTEGERS[dtype]

    def convert(value: Any) -> int:
        if type(value) is not int or not low <= value < end:
            raise _type_error(value, tensors.NAMES[dtype])
        return value

    return convert


def _string(value: Any) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:  # Half of a surrogate pair.
            raise invalid(f"JSON Value: {ascii(value)[:100]} is not text") from error
    if not isinstance(value, dict):
        raise _type_error(value, "string")
    if value.keys() != {"b64"} or not isinstance(value["b64"], str):
        raise invalid(f"JSON Value: {_text(value)} not formatted correctly for base64 data")
    return _unescaped(value["b64"])


def _unescaped(text: str) -> bytes:
    try:
        # TensorFlow Serving also accepts base64 without padding.
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid("Unable to base64 decode") from error


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _type_error(value, "bool")
    return value


_CONVERTERS: dict[int, Callable[[Any], Any]] = {
    1: _float_converter("float"),
    2: _float_converter("double"),
    7: _string,
    10: _boolean,
    **{dtype: _integer_converter(dtype) for dtype in _INTEGERS},
}


def _example(value: Any) -> bytes:
    if not isinstance(value, dict):
        raise invalid(f"Example must be JSON object but got JSON {_type_name(value)}")
    example = messages.message("tensorflow.Example")()
    for name, content in value.items():
        try:
            feature = example.features.feature[name]
        except (UnicodeEncodeError, ValueError) as error:
            raise invalid(f"Feature: {ascii(name)[:100]} is not text") from error
        for item in content if isinstance(content, list) else [content]:
            _add(feature, name, item)
    return example.SerializeToString()


def _add(feature: Any, name: str, value: Any) -> None:
    if value is None or isinstance(value, list):
        raise invalid(f"Feature: {name} has element with unexpected JSON type: {_type_name(value)}")
    if isinstance(value, dict) and (value.keys() != {"b64"} or not isinstance(value["b64"], str)):
        raise invalid(f"Feature: {name} has element with unexpected JSON type: Object")
    item: Any
    if isinstance(value, (str, dict)):
        kind, item = "bytes_list", _string(value)
    elif isinstance(value, float):
        kind, item = "float_list", value
    else:
        kind, item = "int64_list", int(value)
        if not -(2**63) <= item < 2**63:
            raise invalid(f"Feature: {name} has uint64 element. Only int64 is supported.")
    if feature.WhichOneof("kind") not in (None, kind):
        expecting = str(feature.WhichOneof("kind")).partition("_")[0]
        raise invalid(f"Unexpected element type in feature: {name} expecting type: {expecting}")
    getattr(feature, kind).value.append(item)


def _is_object(value: Any) -> bool:
    """Whether a value is an object, and not a string of bytes."""
    is_bytes = isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)
    return isinstance(value, dict) and not is_bytes


def _type_name(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "Null", True: "True", False: "False"}[value]
    for kind, name in ((dict, "Object"), (list, "Array"), (str, "String")):
        if isinstance(value, kind):
            return name
    return "Number"


def _text(value: Any) -> str:
    """A value for a message, shortened if it is long."""
    try:
        text = json.dumps(value) if not isinstance(value, (dict, list)) else _short(value)
    except (RecursionError, ValueError):
        text = _type_name(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _short(value: Any) -> str:
    """The beginning of a list or object, which may be large."""
    parts = []
    length = 0
    for part in json.JSONEncoder().iterencode(value):
        parts.append(part)
        length += len(part)
        if length > 100:
            break
    return "".join(parts)
