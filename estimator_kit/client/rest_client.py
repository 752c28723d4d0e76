"""The client for the REST paths. For requests it needs only Python and NumPy.

It requests the metadata of a model once, because the JSON of an answer does not contain the types
of outputs. It keeps as many open connections as it has had requests at the same time.
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

from . import signatures
from .base import Classes, Client
from .connections import TIMEOUTS, Connection
from .errors import ServingError
from .signatures import Metadata

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
        path = f"{parts.path.rstrip('/')}/v1/models/{urllib.parse.quote(model, safe='')}"
        if self._version is not None:
            path += f"/versions/{self._version}"
        if self._label is not None:
            path += f"/labels/{urllib.parse.quote(self._label, safe='')}"
        self._path = path
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closings = 0

    def metadata(self) -> Metadata:
        answer = self._call("GET", "/metadata")
        known = answer["metadata"]["signature_def"]["signature_def"]
        self._metadata = Metadata(
            int(answer["model_spec"]["version"]),
            {name: signatures.of_json(known[name]) for name in sorted(known)},
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

    def _predict(self, arrays: Mapping[str, np.ndarray], signature: str) -> dict[str, np.ndarray]:
        inputs = {name: _json(array) for name, array in arrays.items()}
        answer = self._call("POST", ":predict", {**_named(signature), "inputs": inputs})
        outputs = answer["outputs"]
        forms = self._outputs(signature, outputs)
        if not isinstance(outputs, dict) or len(forms) == 1:
            outputs = {next(iter(forms)): outputs}
        return {name: _array(outputs[name], form) for name, form in forms.items()}

    def _outputs(self, signature: str, outputs: Any) -> Mapping[str, signatures.TensorForm]:
        """Names and types of the outputs; requests metadata again if an answer has other names."""
        for known in (self._metadata, None):
            forms = (known or self.metadata()).signatures[signature or "serving_default"].outputs
            if len(forms) == 1 or (isinstance(outputs, dict) and set(outputs) == set(forms)):
                break
        return forms

    def _classify(self, examples: list[Any], signature: str) -> Classes:
        results = self._examples(":classify", examples, signature)
        labels = np.array([[label.encode() for label, _ in row] for row in results], np.object_)
        return Classes(labels, np.array([[s for _, s in row] for row in results], np.float32))

    def _regress(self, examples: list[Any], signature: str) -> np.ndarray:
        return np.array(self._examples(":regress", examples, signature), np.float32)

    def _examples(self, method: str, examples: list[Any], signature: str) -> Any:
        body = {**_named(signature), "examples": [_features(example) for example in examples]}
        return self._call("POST", method, body)["results"]

    def _call(self, verb: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
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


def _array(value: Any, form: signatures.TensorForm) -> np.ndarray:
    is_string = form.numpy == np.object_
    array = np.array(_strings(value) if is_string else value, form.numpy)
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
    made = {}
    for name, feature in sorted(example.features.feature.items()):
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value) if kind else []
        if kind == "bytes_list":
            values = [{"b64": base64.b64encode(value).decode()} for value in values]
        made[name] = values
    return made
