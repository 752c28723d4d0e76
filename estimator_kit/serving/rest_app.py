"""The REST paths as a WSGI application.

GET  /v1/models/<model>[/versions/<n>|/labels/<label>]            status
GET  /v1/models/<model>[/versions/<n>|/labels/<label>]/metadata   signatures
POST /v1/models/<model>[/versions/<n>|/labels/<label>]:predict    and :classify, :regress
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional

from estimator_kit.serving import answers, json_answers, json_requests
from estimator_kit.serving.errors import HTTP, RequestError, invalid, shortened
from estimator_kit.serving.versions import Models
from feature_specs.files.versions import LARGEST

_log = logging.getLogger("estimator_kit")

# The fewest bytes that a value and its separator take on average. Only bodies that are made to use
# memory and time have smaller values: an empty list takes 3 bytes.
_BYTES_A_VALUE = 8

_VERSION = r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_ASK = re.compile(
    rf"(?i)/v1/models/(?P<model>[^/:]+){_VERSION}:(?P<method>classify|regress|predict)", re.A
)
_LOOK = re.compile(
    rf"(?i)/v1/models(?:/(?P<model>[^/:]+))?{_VERSION}(?:/(?P<more>metadata))?", re.A
)

# What TensorFlow says about an Example with an int64 where the model parses a float.
_INTEGER_FOR_FLOAT = "Data type: int64 but expected type: float"
_WRITE_A_POINT = "In the JSON of `examples`, a number without a point is an int64: write 2.0 for 2."


class _TooLarge(Exception):
    pass


class RestApp:
    """A WSGI application.

    Args:
      models: the models of the server.
      max_bytes: the most bytes of a body, and of all its examples with their context.
      hosts: the names by which requests may call the server, in addition to `localhost` and
        addresses; `*` allows any name. This keeps out web pages whose site's name leads here.
      origins: the hosts whose web pages may send requests; `*` allows any page. A browser sends
        with each POST of a page where the page is from. Pages of this server may always send.
    """

    def __init__(
        self,
        models: Models,
        max_bytes: int,
        hosts: Sequence[str] = (),
        origins: Sequence[str] = (),
    ):
        self._models = models
        self._max_bytes = max_bytes
        self._hosts = {"localhost", *map(_host, hosts)}
        self._origins = {*map(_host, origins)}

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        status, body = self._answered(environ)
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response(status, headers)
        return [body]

    def _answered(self, environ: dict[str, Any]) -> tuple[str, bytes]:
        try:
            return HTTP["OK"], self._answer(environ)
        except _TooLarge as error:
            return "413 Request Entity Too Large", json_answers.error(str(error))
        except RequestError as error:
            return HTTP[error.code], json_answers.error(shortened(error.message))
        except Exception as error:  # A bug of the server or of TensorFlow; the server goes on.
            _log.exception("a request failed")
            message = f"{type(error).__name__}: {error}"
            return HTTP["INTERNAL"], json_answers.error(shortened(message))

    def _answer(self, environ: dict[str, Any]) -> bytes:
        self._check_host(environ.get("HTTP_HOST"))
        self._check_origin(environ.get("HTTP_ORIGIN"), environ.get("HTTP_HOST"))
        verb = environ["REQUEST_METHOD"]
        path = environ["PATH_INFO"]
        if not path.lower().startswith("/v1/"):
            raise RequestError("NOT_FOUND", f"the path {path} does not exist")
        found = (_ASK if verb == "POST" else _LOOK).fullmatch(path)
        if verb not in ("GET", "POST") or found is None:
            raise invalid(f"Malformed request: {verb} {path}")
        asked = _asked(found)
        if verb == "GET":
            return self._look(*asked, more=found["more"])
        if environ.get("HTTP_CONTENT_ENCODING", "identity") != "identity":
            raise invalid("Content-Encoding: this server does not read compressed bodies")
        size = int(environ.get("CONTENT_LENGTH") or 0)
        if size > self._max_bytes:
            raise _TooLarge(
                f"the body has {size:,} bytes, and at most {self._max_bytes:,} are allowed"
            )
        body = environ["wsgi.input"].read(size)
        document = json_requests.parse(body, self._max_bytes // _BYTES_A_VALUE)
        name = json_requests.signature_name(document)
        with self._models.lease(*asked) as model:
            return _ask(model, found["method"].lower(), document, name, self._max_bytes)

    def _check_host(self, given: Optional[str]) -> None:
        if given is None or not self._hosts.isdisjoint({"*", _host(given)}):
            return
        try:
            ipaddress.ip_address(_host(given))
        except ValueError as error:
            raise RequestError(
                "PERMISSION_DENIED",
                f"the host {given[:100]!r} is not allowed. If it is a name of this server, add it "
                "to --serving_allowed_hosts.",
            ) from error

    def _check_origin(self, origin: Optional[str], host: Optional[str]) -> None:
        if origin is None:
            return
        page = origin.partition("://")[2].lower()  # Nothing of `null`, the origin of a file.
        if page and host is not None and page == host.lower():
            return
        if self._origins.isdisjoint({"*", _host(page)} if page else {"*"}):
            raise RequestError(
                "PERMISSION_DENIED",
                f"a web page of {origin[:100]!r} may not send requests. If it is yours, add its "
                "host to --serving_allowed_hosts.",
            )

    def _look(
        self, model: str, version: Optional[int], label: Optional[str], more: Optional[str]
    ) -> bytes:
        from estimator_kit.serving import grpc_service  # Both have the same messages.

        if not more:
            states = self._models.states(model, version, label)
            return json_answers.status(grpc_service.status_message(states))
        with self._models.lease(model, version, label) as leased:
            signatures = grpc_service.signature_map(leased)
            return json_answers.metadata(model, leased.version, signatures)


def _ask(model: Any, method: str, document: Any, signature: str, max_bytes: int) -> bytes:
    if method == "predict":
        known = answers.signature_inputs(model, signature, document)
        inputs, by_row = json_requests.predict_inputs(document, known)
        return json_answers.predictions(answers.predict(model, signature, inputs), by_row)
    examples = answers.with_context(*json_requests.examples(document), max_bytes)
    try:
        if method == "classify":
            return json_answers.classes(*answers.classify(model, signature, examples))
        return json_answers.values(answers.regress(model, signature, examples))
    except RequestError as error:
        if _INTEGER_FOR_FLOAT not in error.message:
            raise
        raise invalid(f"{error.message}. {_WRITE_A_POINT}") from error


def _host(text: str) -> str:
    """A host's name or address, without its port, brackets and final dot."""
    is_bare = text.count(":") > 1 and not text.startswith("[")  # An IPv6 address.
    name = text if is_bare else re.sub(r":\d*\Z", "", text)
    return name.strip("[]").rstrip(".").lower()


def _asked(found: re.Match[str]) -> tuple[str, Optional[int], Optional[str]]:
    version = found["version"]
    number = None
    if version is not None:
        number = int(version) if len(version) <= 19 else LARGEST + 1
        if number > LARGEST:
            raise invalid(f"Failed to convert version: {version[:40]} to numeric.")
    return found["model"] or "", number, found["label"]
