"""The REST server: waitress in a thread, with TensorFlow Serving's paths as a WSGI application.

GET  /v1/models/<model>[/versions/<n>|/labels/<label>]            status
GET  /v1/models/<model>[/versions/<n>|/labels/<label>]/metadata   signatures
POST /v1/models/<model>[/versions/<n>|/labels/<label>]:predict    and :classify, :regress
GET  /metrics, /monitoring/prometheus/metrics                     with --serving_log_dir

`RestServer` stops without dropping a request.
"""

from __future__ import annotations

import functools
import ipaddress
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Optional

import waitress
import waitress.wasyncore

from estimator_kit.serving import answers, filled_messages, json_answers, json_requests
from estimator_kit.serving.errors import HTTP, RequestError, invalid, shortened
from estimator_kit.serving.live_versions import Models
from estimator_kit.serving.request_log import Entry, RequestLog

# waitress reads a body that is this many times too large to its end, because a client that is cut
# off while it sends does not read the answer.
_READ_TO_ITS_END = 8


class RestServer:
    """Serves a WSGI application at a bound socket.

    Args:
      app: the application.
      sock: a bound socket; the server closes it.
      threads: the number of requests that are answered at the same time; others wait.
      max_bytes: the most bytes of a request's body, which the application checks.
      connections: the most open connections. Further ones wait until others are closed, and the log
        says so. waitress closes those that have been silent for two minutes.
    """

    def __init__(
        self, app: Any, sock: socket.socket, *, threads: int, max_bytes: int, connections: int
    ):
        # Under load, requests often wait for a thread. This does not need a warning each time.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._map: dict[int, Any] = {}
        self._server: Any = waitress.create_server(
            app,
            map=self._map,
            sockets=[sock],
            threads=threads,
            ident=None,
            max_request_body_size=_READ_TO_ITS_END * max_bytes,
            connection_limit=connections,
            clear_untrusted_proxy_headers=True,
        )
        self._thread = threading.Thread(target=self._run, name="rest", daemon=True)
        self._ending = threading.Event()
        self._end = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self, grace: float) -> None:
        """Closes the port, answers open requests for at most `grace` seconds, and returns."""
        self._end = time.monotonic() + grace
        if self._thread.is_alive():
            self._server.trigger.pull_trigger(self._ending.set)  # Its thread sets the event.
            self._thread.join()
        else:
            self._close()

    def _run(self) -> None:
        while not self._ending.is_set():
            self._turn(1.0)
        waitress.wasyncore.dispatcher.close(self._server)  # Closes the port; connections stay open.
        self._turn(0.05)  # Reads the requests that have arrived.
        while self._is_busy() and time.monotonic() < self._end:
            self._turn(0.05)
        self._close()

    def _turn(self, seconds: float) -> None:
        waitress.wasyncore.loop(timeout=seconds, use_poll=True, map=self._map, count=1)

    def _is_busy(self) -> bool:
        """Whether a request is open. Closes the connections that could only send further ones."""
        channels = list(self._server.active_channels.values())
        busy = [c for c in channels if c.requests or c.total_outbufs_len]
        for channel in channels:
            if channel not in busy and channel.request is None:
                channel.will_close = True
        return bool(busy)

    def _close(self) -> None:
        timeout = max(self._end - time.monotonic(), 0.1)
        self._server.task_dispatcher.shutdown(timeout=timeout)
        waitress.wasyncore.close_all(self._map, ignore_all=True)


_log = logging.getLogger("estimator_kit")

# Where Prometheus looks by default, and the path in TensorFlow Serving's monitoring.config.
_METRICS = ("/metrics", "/monitoring/prometheus/metrics")

_VERSION = r"(?:/versions/(?P<version>\d{1,19})|/labels/(?P<label>[^/:]+))?"
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
      max_bytes: the most bytes of a body.
      only_as: the name by which requests may call the server, in addition to `localhost` and
        addresses; None allows any name. With a name, only web pages of the server itself may send
        requests, so that no other page reaches a server on loopback through a name for 127.0.0.1.
      log: gets the answered requests, and has the metrics.
    """

    def __init__(
        self,
        models: Models,
        max_bytes: int,
        *,
        only_as: Optional[str] = None,
        log: Optional[RequestLog] = None,
    ):
        self._log = log
        self._models = models
        self._max_bytes = max_bytes
        self._names = None if only_as is None else {"localhost", _host(only_as)}

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        status, body = self._answered(environ)
        is_metrics = environ["PATH_INFO"] in _METRICS and status == HTTP["OK"]
        kind = "text/plain; version=0.0.4; charset=utf-8" if is_metrics else "application/json"
        headers = [("Content-Type", kind), ("Content-Length", str(len(body)))]
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
        self._check_caller(environ.get("HTTP_HOST"), environ.get("HTTP_ORIGIN"))
        verb = environ["REQUEST_METHOD"]
        path = environ["PATH_INFO"]
        if path in _METRICS and verb == "GET":
            if self._log is None:
                raise RequestError("NOT_FOUND", f"{path}: only --serving_log_dir has metrics")
            return self._log.metrics()
        if not path.lower().startswith("/v1/"):
            raise RequestError("NOT_FOUND", f"the path {path} does not exist")
        match = (_ASK if verb == "POST" else _LOOK).fullmatch(path)
        if verb not in ("GET", "POST") or match is None:
            raise invalid(f"{verb} {path}: this is not a request of TensorFlow Serving's REST API")
        asked = _asked(match)
        if verb == "GET":
            return self._look(*asked, more=match["more"])
        if environ.get("HTTP_CONTENT_ENCODING", "identity") != "identity":
            raise invalid("Content-Encoding: this server does not read compressed bodies")
        size = int(environ.get("CONTENT_LENGTH") or 0)
        if size > self._max_bytes:
            raise _TooLarge(
                f"the body has {size:,} bytes, and at most {self._max_bytes:,} are allowed"
            )
        body = environ["wsgi.input"].read(size)
        document = json_requests.parse(body)
        name = json_requests.signature_name(document)
        method = match["method"].lower()
        with self._models.lease(*asked) as model:
            answer, fill_request, fill_response = _ask(model, method, document, name)
        if self._log is not None and self._log.takes(asked[0], model):
            sizes = len(body) + len(answer)
            fill = _with_specs(asked[0], name, model.version, fill_request, fill_response)
            self._log.add(Entry(method, asked[0], model, name, sizes, *fill))
        return answer

    def _check_caller(self, host: Optional[str], origin: Optional[str]) -> None:
        """Refuses unknown names of the server, and web pages of other servers."""
        if self._names is None:
            return
        if host is not None and _host(host) not in self._names:
            try:
                ipaddress.ip_address(_host(host))
            except ValueError as error:
                raise RequestError(
                    "PERMISSION_DENIED",
                    f"the host {host[:100]!r} is not allowed. Use an address or localhost, or give "
                    "the server an address of this machine with --serving_host.",
                ) from error
        if origin is not None and origin.partition("://")[2].lower() != (host or "").lower():
            raise RequestError(
                "PERMISSION_DENIED", f"a web page of {origin[:100]!r} may not send requests."
            )

    def _look(
        self, model: str, version: Optional[int], label: Optional[str], more: Optional[str]
    ) -> bytes:
        from estimator_kit.serving import grpc_server  # Both have the same messages.

        if not more:
            states = self._models.states(model, version, label)
            return json_answers.status(grpc_server.status_message(states))
        with self._models.lease(model, version, label) as leased:
            signatures = grpc_server.signature_map(leased)
            return json_answers.metadata(model, leased.version, signatures)


# Fills a message of the request log.
_Fill = Callable[[Any], None]


def _ask(model: Any, method: str, document: Any, signature: str) -> tuple[bytes, _Fill, _Fill]:
    """The body of the answer; and what fills the messages of request and response for the log."""
    if method == "predict":
        form = answers.signature_inputs(model, signature, document)
        inputs, by_row = json_requests.predict_inputs(document, form)
        outputs = answers.predict(model, signature, inputs)
        return (
            json_answers.predictions(outputs, by_row),
            functools.partial(filled_messages.fill_inputs, inputs=inputs),
            functools.partial(filled_messages.fill_predict, outputs=outputs),
        )
    examples = answers.with_context(*json_requests.examples(document))
    fill = functools.partial(filled_messages.fill_examples, examples=examples)
    try:
        if method == "classify":
            labels, scores = answers.classify(model, signature, examples)
            return (
                json_answers.classes(labels, scores),
                fill,
                functools.partial(filled_messages.fill_classify, labels=labels, scores=scores),
            )
        values = answers.regress(model, signature, examples)
        return (
            json_answers.values(values),
            fill,
            functools.partial(filled_messages.fill_regress, values=values),
        )
    except RequestError as error:
        if _INTEGER_FOR_FLOAT not in error.message:
            raise
        raise invalid(f"{error.message}. {_WRITE_A_POINT}") from error


def _with_specs(
    name: str, signature: str, version: int, fill_request: _Fill, fill_response: _Fill
) -> tuple[_Fill, _Fill]:
    """The same, with the `ModelSpec`s that a gRPC request and its response have."""

    def request(message: Any) -> None:
        message.model_spec.name = name
        message.model_spec.signature_name = signature
        fill_request(message)

    def response(message: Any) -> None:
        filled_messages.fill_spec(message.model_spec, name, signature, version)
        fill_response(message)

    return request, response


def _host(text: str) -> str:
    """A host's name or address, without its port, brackets and final dot."""
    is_bare = text.count(":") > 1 and not text.startswith("[")  # An IPv6 address.
    name = text if is_bare else re.sub(r":\d*\Z", "", text)
    return name.strip("[]").rstrip(".").lower()


def _asked(match: re.Match[str]) -> tuple[str, Optional[int], Optional[str]]:
    version = match["version"]
    return match["model"] or "", None if version is None else int(version), match["label"]
