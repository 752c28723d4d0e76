"""Runs a SavedModel with TensorFlow's C API, without TensorFlow's Python code.

Servers and other languages use the same C++ loader, so a SavedModel that answers here needs no
Python. The module runs as a separate program (`verification` starts it), so it imports nothing from
this project:

    python c_session.py <folder of tensorflow> < job.json > answers.json

A job is {"export": folder, "requests": [request]}. There are two kinds of requests, with arrays in
the form of `encoded`:

    {"signature": name, "inputs": {name: array}, "tensors": [name]}   answer: {name: array}
        "tensors" are tensors of the graph to return in addition to the outputs.
    {"together": [signature], "value": array}   answer: {signature: {name: array}}
        The signatures take the same single tensor.

The result is {"answers": [answer], "load_seconds": s, "run_seconds": s} or {"error": text}.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import glob
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np

# tensorflow/core/framework/types.proto
_DTYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    9: "int64",
    10: "bool",
    17: "uint16",
    19: "float16",
    22: "uint32",
    23: "uint64",
}
_NUMBERS = {np.dtype(name): number for number, name in _DTYPES.items()}
_STRING = 7
_TSTRING_BYTES = 24

# ConfigProto with allow_soft_placement.
_CONFIG = b"\x38\x01"


class CApiError(Exception):
    """An error of TensorFlow's C API, or TensorFlow has no C API."""


class _Output(ctypes.Structure):
    _fields_ = (("oper", ctypes.c_void_p), ("index", ctypes.c_int))


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("deallocator", ctypes.c_void_p),
    )


def library_path(tensorflow_dir: str) -> Optional[str]:
    """The shared library with the C API of an installed TensorFlow, or None."""
    for pattern in ("libtensorflow_cc.so.2", "libtensorflow_cc.2.dylib", "libtensorflow_cc.so*"):
        paths = sorted(glob.glob(os.path.join(glob.escape(tensorflow_dir), pattern)))
        if paths:
            return paths[0]
    return None


def load_library(path: str) -> Any:
    """Loads the library and declares the types of the functions that this module uses."""
    lib = ctypes.CDLL(path)
    pointer, text, count, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
    prototypes: dict[str, tuple[Any, list[Any]]] = {
        "TF_Version": (text, []),
        "TF_NewStatus": (pointer, []),
        "TF_DeleteStatus": (None, [pointer]),
        "TF_GetCode": (count, [pointer]),
        "TF_Message": (text, [pointer]),
        "TF_NewGraph": (pointer, []),
        "TF_DeleteGraph": (None, [pointer]),
        "TF_NewSessionOptions": (pointer, []),
        "TF_SetConfig": (None, [pointer, text, size, pointer]),
        "TF_DeleteSessionOptions": (None, [pointer]),
        "TF_NewBuffer": (ctypes.POINTER(_Buffer), []),
        "TF_DeleteBuffer": (None, [ctypes.POINTER(_Buffer)]),
        "TF_LoadSessionFromSavedModel": (
            pointer,
            [
                pointer,
                pointer,
                text,
                ctypes.POINTER(text),
                count,
                pointer,
                ctypes.POINTER(_Buffer),
                pointer,
            ],
        ),
        "TF_CloseSession": (None, [pointer, pointer]),
        "TF_DeleteSession": (None, [pointer, pointer]),
        "TF_GraphOperationByName": (pointer, [pointer, text]),
        "TF_SessionRun": (
            None,
            [
                pointer,
                pointer,
                ctypes.POINTER(_Output),
                ctypes.POINTER(pointer),
                count,
                ctypes.POINTER(_Output),
                ctypes.POINTER(pointer),
                count,
                pointer,
                count,
                pointer,
                pointer,
            ],
        ),
        "TF_AllocateTensor": (pointer, [count, ctypes.POINTER(ctypes.c_int64), count, size]),
        "TF_DeleteTensor": (None, [pointer]),
        "TF_TensorData": (pointer, [pointer]),
        "TF_TensorType": (count, [pointer]),
        "TF_TensorByteSize": (size, [pointer]),
        "TF_NumDims": (count, [pointer]),
        "TF_Dim": (ctypes.c_int64, [pointer, count]),
        "TF_StringInit": (None, [pointer]),
        "TF_StringCopy": (None, [pointer, text, size]),
        "TF_StringDealloc": (None, [pointer]),
        "TF_StringGetDataPointer": (pointer, [pointer]),
        "TF_StringGetSize": (size, [pointer]),
    }
    for name, (result, arguments) in prototypes.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


class CSession:
    """A SavedModel in TensorFlow's C++ loader.

    Args:
      lib: of `load_library`.
      export_dir: the SavedModel, with the tag `serve`.

    Attributes:
      signatures: `{name: {"inputs": {key: tensor}, "outputs": {key: tensor}, "method": text}}`.

    Raises:
      CApiError: it cannot be loaded.
    """

    def __init__(self, lib: Any, export_dir: str):
        self._lib = lib
        self._graph = lib.TF_NewGraph()
        options, meta = lib.TF_NewSessionOptions(), lib.TF_NewBuffer()
        try:
            with self._status() as status:
                lib.TF_SetConfig(options, _CONFIG, len(_CONFIG), status)
            with self._status() as status:
                self._session = lib.TF_LoadSessionFromSavedModel(
                    options,
                    None,
                    os.fsencode(export_dir),
                    (ctypes.c_char_p * 1)(b"serve"),
                    1,
                    self._graph,
                    meta,
                    status,
                )
            self.signatures = signatures_in(
                ctypes.string_at(meta.contents.data, meta.contents.length)
            )
        finally:
            lib.TF_DeleteSessionOptions(options)
            lib.TF_DeleteBuffer(meta)

    def close(self) -> None:
        with self._status() as status:
            self._lib.TF_CloseSession(self._session, status)
        with self._status() as status:
            self._lib.TF_DeleteSession(self._session, status)
        self._lib.TF_DeleteGraph(self._graph)

    def ask(
        self, signature: str, inputs: Mapping[str, Any], tensors: Sequence[str] = ()
    ) -> dict[str, np.ndarray]:
        """The outputs of a signature by key, and tensors of the graph by name.

        Raises:
          CApiError: the signature or an input does not exist, or the request fails.
        """
        if signature not in self.signatures:
            raise CApiError(
                f"no signature {signature!r}. Use one of: {', '.join(self.signatures)}."
            )
        info = self.signatures[signature]
        if set(inputs) != set(info["inputs"]):
            raise CApiError(
                f"signature {signature!r} takes {', '.join(sorted(info['inputs']))}, got "
                f"{', '.join(sorted(inputs))}"
            )
        feeds = {info["inputs"][key]: value for key, value in inputs.items()}
        keys = [*info["outputs"], *tensors]
        values = self.run(feeds, [*info["outputs"].values(), *tensors])
        return dict(zip(keys, values))

    def ask_together(
        self, signatures: Sequence[str], value: Any
    ) -> dict[str, dict[str, np.ndarray]]:
        """The outputs of several signatures that take the same single tensor, in one run.

        Raises:
          CApiError: a signature does not exist or takes something else, or the request fails.
        """
        unknown = [name for name in signatures if name not in self.signatures]
        inputs = {t for n in signatures if n not in unknown for t in self._inputs(n)}
        if unknown or len(inputs) != 1:
            what = f"no signatures {', '.join(unknown)}" if unknown else "not one input"
            raise CApiError(f"{what}. Use one of: {', '.join(self.signatures)}.")
        places = [(n, key, t) for n in signatures for key, t in self._outputs(n).items()]
        values = self.run({inputs.pop(): value}, [tensor for _, _, tensor in places])
        answers: dict[str, dict[str, np.ndarray]] = {name: {} for name in signatures}
        for (name, key, _), array in zip(places, values):
            answers[name][key] = array
        return answers

    def _inputs(self, signature: str) -> list[str]:
        return list(self.signatures[signature]["inputs"].values())

    def _outputs(self, signature: str) -> dict[str, str]:
        outputs: dict[str, str] = self.signatures[signature]["outputs"]
        return outputs

    def run(self, feeds: Mapping[str, Any], fetches: Sequence[str]) -> list[np.ndarray]:
        """Runs the graph like a TensorFlow 1 `Session`, with tensors by name."""
        lib = self._lib
        into = (_Output * len(feeds))(*map(self._output, feeds))
        outof = (_Output * len(fetches))(*map(self._output, fetches))
        tensors = [self._tensor(value) for value in feeds.values()]
        values = (ctypes.c_void_p * len(fetches))()
        try:
            with self._status() as status:
                lib.TF_SessionRun(
                    self._session,
                    None,
                    into,
                    (ctypes.c_void_p * len(tensors))(*tensors),
                    len(tensors),
                    outof,
                    values,
                    len(fetches),
                    None,
                    0,
                    None,
                    status,
                )
            return [self._array(tensor) for tensor in values]
        finally:
            for tensor in tensors:
                self._delete_given(tensor)
            for tensor in values:
                if tensor:
                    lib.TF_DeleteTensor(tensor)

    @contextlib.contextmanager
    def _status(self) -> Iterator[Any]:
        status = self._lib.TF_NewStatus()
        try:
            yield status
            if self._lib.TF_GetCode(status):
                raise CApiError(self._lib.TF_Message(status).decode(errors="replace"))
        finally:
            self._lib.TF_DeleteStatus(status)

    def _output(self, tensor: str) -> _Output:
        name, _, index = tensor.partition(":")
        operation = self._lib.TF_GraphOperationByName(self._graph, name.encode())
        if not operation:
            raise CApiError(f"the graph has no {name!r}")
        return _Output(operation, int(index or 0))

    def _tensor(self, value: Any) -> Any:
        lib, array = self._lib, np.asarray(value)
        dims = (ctypes.c_int64 * array.ndim)(*array.shape)
        if array.dtype.kind not in "OSU":
            tensor = lib.TF_AllocateTensor(_NUMBERS[array.dtype], dims, array.ndim, array.nbytes)
            if array.nbytes:
                ctypes.memmove(lib.TF_TensorData(tensor), array.tobytes(), array.nbytes)
            return tensor
        words = [w.encode() if isinstance(w, str) else bytes(w) for w in array.ravel().tolist()]
        tensor = lib.TF_AllocateTensor(_STRING, dims, array.ndim, _TSTRING_BYTES * len(words))
        for place, word in zip(self._strings(tensor, len(words)), words):
            lib.TF_StringInit(place)
            lib.TF_StringCopy(place, word, len(word))
        return tensor

    def _delete_given(self, tensor: Any) -> None:
        if self._lib.TF_TensorType(tensor) == _STRING:
            count = self._lib.TF_TensorByteSize(tensor) // _TSTRING_BYTES
            for place in self._strings(tensor, count):
                self._lib.TF_StringDealloc(place)
        self._lib.TF_DeleteTensor(tensor)

    def _strings(self, tensor: Any, count: int) -> list[int]:
        start = self._lib.TF_TensorData(tensor) or 0
        return [start + _TSTRING_BYTES * i for i in range(count)]

    def _array(self, tensor: Any) -> np.ndarray:
        lib = self._lib
        shape = [lib.TF_Dim(tensor, i) for i in range(lib.TF_NumDims(tensor))]
        kind = lib.TF_TensorType(tensor)
        if kind == _STRING:
            count = int(np.prod(shape, dtype=np.int64))
            words = np.empty(count, object)
            for i, place in enumerate(self._strings(tensor, count)):
                words[i] = ctypes.string_at(
                    lib.TF_StringGetDataPointer(place), lib.TF_StringGetSize(place)
                )
            return words.reshape(shape)
        if kind not in _DTYPES:
            raise CApiError(f"an output has TensorFlow's dtype {kind}, which NumPy does not have")
        size = lib.TF_TensorByteSize(tensor)
        data = ctypes.string_at(lib.TF_TensorData(tensor), size) if size else b""
        return np.frombuffer(data, _DTYPES[kind]).reshape(shape)


def signatures_in(meta_graph: bytes) -> dict[str, Any]:
    """The signatures of a serialized MetaGraphDef; see `CSession`."""
    signatures = {}
    for number, entry in _fields(meta_graph):
        if number == 5:  # map<string, SignatureDef>
            name, signature = _entry(entry)
            parts: dict[str, Any] = {"inputs": {}, "outputs": {}, "method": ""}
            for field, value in _fields(signature):
                if field in (1, 2):  # map<string, TensorInfo>, of which 1 is the name
                    key, info = _entry(value)
                    tensor = next((v for f, v in _fields(info) if f == 1), b"")
                    parts["inputs" if field == 1 else "outputs"][key] = tensor.decode()
                elif field == 3:
                    parts["method"] = value.decode()
            signatures[name] = parts
    return signatures


def _entry(data: bytes) -> tuple[str, bytes]:
    fields = dict(_fields(data))
    return fields.get(1, b"").decode(), fields.get(2, b"")


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field of a serialized protobuf message."""
    place = 0

    def varint() -> int:
        nonlocal place
        result = shift = 0
        while True:
            byte = data[place]
            place += 1
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return result

    while place < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value: Any = varint()
        else:
            length = varint() if kind == 2 else {1: 8, 5: 4}[kind]
            value = data[place : place + length]
            place += length
        yield key >> 3, value


def encoded(array: Any) -> dict[str, Any]:
    """An array in a form that JSON can hold without loss."""
    array = np.asarray(array)
    if array.dtype.kind in "OSU":
        words = [w.encode() if isinstance(w, str) else bytes(w) for w in array.ravel().tolist()]
        data: Any = [base64.b64encode(word).decode() for word in words]
        return {"dtype": "string", "shape": array.shape, "data": data}
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": str(array.dtype), "shape": array.shape, "data": data}


def decoded(value: Mapping[str, Any]) -> np.ndarray:
    """The array of `encoded`."""
    if value["dtype"] == "string":
        words = np.empty(len(value["data"]), object)
        words[:] = [base64.b64decode(word) for word in value["data"]]
        return words.reshape(value["shape"])
    data = base64.b64decode(value["data"])
    return np.frombuffer(data, value["dtype"]).reshape(value["shape"])


def _answer(lib: Any, job: Mapping[str, Any]) -> dict[str, Any]:
    start = time.monotonic()
    session = CSession(lib, job["export"])
    loaded = time.monotonic()
    answers = []
    for request in job["requests"]:
        if "together" in request:
            group = session.ask_together(request["together"], decoded(request["value"]))
            answers.append(
                {n: {k: encoded(v) for k, v in answer.items()} for n, answer in group.items()}
            )
            continue
        inputs = {key: decoded(value) for key, value in request["inputs"].items()}
        try:
            answer = session.ask(request["signature"], inputs, request.get("tensors", ()))
        except CApiError as error:
            raise CApiError(f"signature {request['signature']}: {error}") from error
        answers.append({key: encoded(value) for key, value in answer.items()})
    ended = time.monotonic()
    session.close()
    return {"answers": answers, "load_seconds": loaded - start, "run_seconds": ended - loaded}


def main(arguments: Sequence[str]) -> int:
    path = library_path(arguments[1])
    if path is None:
        raise CApiError(f"{arguments[1]} has no libtensorflow_cc")
    lib = load_library(path)
    job = json.load(sys.stdin)  # The job arrives when the export is written.
    try:
        result = _answer(lib, job)
    except CApiError as error:
        result = {"error": str(error)}
    bad = [name for name in sys.modules if name.partition(".")[0] == "tensorflow"]
    assert not bad, bad
    json.dump(result, sys.stdout)
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    status = main(sys.argv)
    # Ends at once, because waiting for the library's threads takes seconds.
    os._exit(status)
