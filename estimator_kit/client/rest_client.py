"""The client for the REST paths. For requests it needs only Python and NumPy.

The JSON of an answer contains neither its version nor the types of its outputs. So `predict` first
asks for the state of the versions, which is a small request, and for the metadata of a version that
is new. Then it asks this version by its number. It keeps as many open connections as it has had
requests at the same time.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, Optional

import numpy as np

from .base import Classes, Client, Target
from .connections import TIMEOUTS, Connection, ServingError
from .tensors import DEFAULT_SIGNATURE, Metadata, TensorForm, signature_of_json

_CODES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "RESOURCE_EXHAUSTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class RestClient(Client):
    """A model on a REST server.

    The variable `http_proxy` of the environment has no effect, as with GrpcClient.

    Args:
      url: for example `http://host:8501`, with the path before `/v1` if a proxy adds one.
      model: the name of the model on the server.
      options: see `Client`.
    """

    def __init__(self, url: str, model: str, **options: Any):
        super().__init__(model, **options)
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"got {url!r}, expected http://host:port")
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._host, self._port = parts.hostname, parts.port
        self._path = f"{parts.path.rstrip('/')}/v1/models/{urllib.parse.quote(model, safe='')}"
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closings = 0

    _answers_say_their_version = False

    def metadata(self) -> Metadata:
        answer = self._call("GET", "/metadata")
        definitions = answer["metadata"]["signature_def"]["signature_def"]
        self._metadata = Metadata(
            int(answer["model_spec"]["version"]),
            {name: signature_of_json(definitions[name]) for name in sorted(definitions)},
        )
        return self._metadata

    def status(self) -> dict[int, str]:
        answer = self._call("GET", "")
        return {int(e["version"]): e["state"] for e in answer["model_version_status"]}

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
            self._closings += 1
        for connection in idle:
            connection.close()

    def _predict(
        self, arrays: Mapping[str, np.ndarray], target: Target
    ) -> tuple[Optional[int], dict[str, np.ndarray]]:
        metadata = target.metadata
        assert metadata is not None, "an answer in JSON has no types"
        inputs = {name: _json(array) for name, array in arrays.items()}
        body = {**_named(target.signature), "inputs": inputs}
        outputs = self._call("POST", ":predict", body, target.version)["outputs"]
        name = target.signature or DEFAULT_SIGNATURE
        signature = metadata.signatures.get(name)
        forms = {} if signature is None else signature.outputs
        if len(forms) == 1:
            outputs = {next(iter(forms)): outputs}
        try:
            if not isinstance(outputs, dict) or set(outputs) != set(forms):
                raise ValueError(f"expected {', '.join(sorted(forms)) or 'no output'}")
            return target.version, {key: _array(outputs[key], form) for key, form in forms.items()}
        except (ValueError, TypeError, OverflowError) as error:
            raise ServingError(
                "ABORTED",
                f"the outputs of {name} differ from the metadata of version {metadata.version}: "
                f"{error}. Do not replace the files of a version that is served, and make a new "
                "client.",
            ) from error

    def _classify(self, examples: list[Any], target: Target) -> tuple[Optional[int], Classes]:
        results = self._examples(":classify", examples, target)
        labels = np.array([[label.encode() for label, _ in row] for row in results], np.object_)
        scores = np.array([[score for _, score in row] for row in results], np.float32)
        return target.version, Classes(labels, scores)

    def _regress(self, examples: list[Any], target: Target) -> tuple[Optional[int], np.ndarray]:
        values = self._examples(":regress", examples, target)
        return target.version, np.array(values, np.float32)

    def _examples(self, method: str, examples: list[Any], target: Target) -> Any:
        body = {
            **_named(target.signature),
            "examples": [_features(example) for example in examples],
        }
        return self._call("POST", method, body, target.version)["results"]

    def _call(self, verb: str, path: str, body: Any = None, version: Optional[int] = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        version = self._version if version is None else version
        if version is not None:
            path = f"/versions/{version}{path}"
        elif self._label is not None:
            path = f"/labels/{urllib.parse.quote(self._label, safe='')}{path}"
        return self._retries.call(lambda seconds: self._attempt(verb, path, data, seconds))

    def _attempt(self, verb: str, path: str, data: Optional[bytes], seconds: float) -> Any:
        with self._connection(seconds) as connection:
            status, text = _exchange(connection, verb, self._path + path, data, seconds)
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if status == 200 and isinstance(answer, dict):
            return answer
        message = text[:300].decode("utf-8", "replace")
        if isinstance(answer, dict) and "error" in answer:
            message = str(answer["error"])
        raise ServingError(_CODES.get(status, "UNKNOWN"), message)

    @contextlib.contextmanager
    def _connection(self, seconds: float) -> Iterator[Connection]:
        """A connection that no other request uses until the block ends."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
            closings = self._closings
        if connection is None:
            connection = Connection(self._host, self._port, self._tls)
        connection.deadline = time.monotonic() + seconds
        try:
            yield connection
        except BaseException:
            connection.close()  # It may be in the middle of an answer. It can connect again.
            raise
        finally:
            with self._lock:
                if self._closings == closings:
                    self._idle.append(connection)
                else:
                    connection.close()


def _exchange(
    connection: Connection, verb: str, path: str, data: Optional[bytes], seconds: float
) -> tuple[int, bytes]:
    """Sends a request; returns the status and the content of the answer."""
    headers = {"Content-Type": "application/json"} if data is not None else {}
    response = None
    try:
        try:
            connection.request(verb, path, data, headers)
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a body answers before it has read all of it.
            if connection.sock is None:
                raise
        response = connection.getresponse()
        text = response.read()
    except TIMEOUTS as error:
        message = f"no complete answer in {seconds:.1f} seconds"
        raise ServingError("DEADLINE_EXCEEDED", message) from error
    except (OSError, http.client.HTTPException) as error:
        raise ServingError("UNAVAILABLE", f"{type(error).__name__}: {error}") from error
    finally:
        if response is not None:
            response.close()
    return response.status, text


def _named(signature: str) -> dict[str, str]:
    return {"signature_name": signature} if signature else {}


def _json(array: np.ndarray) -> Any:
    """An array as nested lists; strings become base64, so that no byte is lost."""
    if array.dtype != np.object_:
        return array.tolist()
    encode = [{"b64": base64.b64encode(item).decode()} for item in array.ravel().tolist()]
    wrapped = np.empty(len(encode), np.object_)
    wrapped[:] = encode
    return wrapped.reshape(array.shape).tolist()


def _array(value: Any, form: TensorForm) -> np.ndarray:
    kind = form.numpy
    if kind == np.object_:
        array = np.array(_strings(value), kind)
    else:
        plain = np.array(value)
        if plain.size and plain.dtype.kind == "f" and kind is not None and kind.kind in "iub":
            raise ValueError(f"expected {form.dtype}, got {plain.ravel()[0]}")
        array = plain.astype(kind) if plain.dtype.kind in "iufb" else np.array(value, kind)
    if array.size or form.shape is None or len(form.shape) <= array.ndim:
        return array
    # Empty lists in JSON do not show the sizes of the dimensions that follow.
    missing = [size or 0 for size in form.shape[array.ndim :]]
    return array.reshape([*array.shape, *missing])


def _strings(value: Any) -> Any:
    if isinstance(value, list):
        return [_strings(item) for item in value]
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else str(value).encode()


def _features(example: Any) -> dict[str, Any]:
    """An Example as JSON. A whole float keeps its point, which tells the server its type."""
    features = {}
    for name, feature in sorted(example.features.feature.items()):
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value) if kind else []
        if kind == "bytes_list":
            values = [{"b64": base64.b64encode(value).decode()} for value in values]
        features[name] = values
    return features
