"""The bodies of REST answers, in TensorFlow Serving's format.

orjson writes the numbers, because Python's own module often takes longer than the model. Floats
have the fewest digits that read back as the same float32 or float64. NaN and infinities are `NaN`,
`Infinity` and `-Infinity`. These are not JSON, but TensorFlow Serving writes them too.
"""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Iterable, Mapping
from typing import Any, Optional

import numpy as np
import orjson
from google.protobuf import json_format

from estimator_kit.serving.errors import invalid

# The strings of an output whose name ends so are bytes; other strings are text.
_BYTES_SUFFIX = "_bytes"


def predictions(outputs: Mapping[str, np.ndarray], by_row: bool) -> bytes:
    """The body for predict: a list of rows, or an array for each output.

    If there is only one output, its values are not in objects.
    """
    values = {name: _values(name, outputs[name]) for name in sorted(outputs)}
    only = next(iter(values.values())) if len(values) == 1 else None
    if not by_row:
        document = {"outputs": values if only is None else only}
        return _dumps(document, outputs.values(), orjson.OPT_INDENT_2)
    shapes = {name: array.shape for name, array in sorted(outputs.items())}
    if not all(shapes.values()) or len({shape[0] for shape in shapes.values()}) > 1:
        raise invalid(f"the outputs differ in rows, so ask with `inputs`: got the shapes {shapes}")
    if only is not None:
        return _dumps({"predictions": only}, outputs.values())
    rows = [dict(zip(values, row)) for row in zip(*values.values())]
    return _dumps({"predictions": rows}, outputs.values())


def classes(labels: Optional[np.ndarray], scores: Optional[np.ndarray]) -> bytes:
    """The body for classify: a list of `[label, score]` for each row."""
    shape = next(array.shape for array in (labels, scores) if array is not None)
    names = np.full(shape, b"", np.object_) if labels is None else labels
    numbers = np.zeros(shape, np.float32) if scores is None else scores
    texts, floats = _values("classes", names), _values("scores", numbers)
    rows = [[list(pair) for pair in zip(*row)] for row in zip(texts, floats)]
    return _dumps({"results": rows}, [numbers])


def values(array: np.ndarray) -> bytes:
    """The body for regress: a number for each row."""
    return _dumps({"results": _values("outputs", array)}, [array])


def error(message: str) -> bytes:
    return json.dumps({"error": message}).encode()


def metadata(name: str, version: int, signature_map: Any) -> bytes:
    """The body for the path `metadata`."""
    return json.dumps(
        {
            "model_spec": {"name": name, "signature_name": "", "version": str(version)},
            "metadata": {"signature_def": _message(signature_map)},
        },
        indent=1,
    ).encode()


def status(response: Any) -> bytes:
    """The body for the path of a model: a `GetModelStatusResponse`."""
    return json.dumps(_message(response), indent=1).encode()


def _dumps(document: Any, arrays: Iterable[np.ndarray], option: int = 0) -> bytes:
    """The JSON of a document made from the arrays. orjson would write NaN as null."""
    if all(_is_finite(array) for array in arrays):
        return orjson.dumps(document, option=option)
    return json.dumps(document).encode()


def _is_finite(array: np.ndarray) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _message(message: Any) -> Any:
    # protobuf 5 renamed the option.
    parameters = inspect.signature(json_format.MessageToDict).parameters
    names = ("always_print_fields_with_no_presence", "including_default_value_fields")
    options = {name: True for name in names if name in parameters}
    return json_format.MessageToDict(message, preserving_proto_field_name=True, **options)


def _values(name: str, array: np.ndarray) -> Any:
    kind = array.dtype.kind
    if kind == "f":
        if array.dtype == np.float64:
            return array.tolist()
        # Through text, which has the fewest digits of the float32.
        array = array.astype(np.float32)
        if not array.ndim or not _is_finite(array):
            return array.astype("U32").astype(np.float64).tolist()
        contiguous = np.ascontiguousarray(array)
        return orjson.loads(orjson.dumps(contiguous, option=orjson.OPT_SERIALIZE_NUMPY))
    if kind in "iub":
        return array.tolist()
    if kind != "O":
        raise invalid(f"the output {name} has the type {array.dtype}, which JSON cannot hold")
    flat = [_text(name, item) for item in array.ravel().tolist()]
    texts = np.empty(len(flat), np.object_)
    texts[:] = flat
    return texts.reshape(array.shape).tolist()


def _text(name: str, item: bytes) -> Any:
    if name.endswith(_BYTES_SUFFIX):
        return {"b64": base64.b64encode(item).decode()}
    try:
        return item.decode()
    except UnicodeDecodeError as problem:
        raise invalid(
            f"the output {name} has bytes that are not UTF-8, which JSON cannot hold. Use gRPC, or "
            f"export it with a name that ends in {_BYTES_SUFFIX}.",
        ) from problem
