"""The server answers other clients under overload, slow connections and large bodies."""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import logging
import resource
import socket
import threading
import time
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
import tensorflow as tf
import waitress.wasyncore
from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

from estimator_kit.serving import answers, grpc_server, grpc_service, rest_server, server
from estimator_kit.serving.errors import RequestError
from estimator_kit.serving.grpc_server import GrpcServer
from estimator_kit.serving.loaded_model import LoadedModel
from estimator_kit.serving.rest_server import RestServer
from estimator_kit.serving.versions import State
from tests.estimator_kit.serving.small_models import write_version

LONG = 60.0


class Gate:
    """A WSGI application and models that answer only when the test lets them."""

    def __init__(self):
        self.started, self.open = threading.Semaphore(0), threading.Event()

    def pass_through(self):
        self.started.release()
        assert self.open.wait(LONG)

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"] == "/slow":
            self.pass_through()
        start_response("200 OK", [("Content-Length", "4")])
        return [b"done"]

    def states(self, name, version=None, label=None):
        self.pass_through()
        return {1: State("AVAILABLE")}


@contextlib.contextmanager
def serving(app, **limits):
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    address = sock.getsockname()
    made = RestServer(app, sock, **{"threads": 2, "waiting": 3, "max_bytes": 1000, **limits})
    made.start()
    try:
        yield address, made
    finally:
        made.stop(LONG)


def get(address, path="/"):
    connection = http.client.HTTPConnection(*address, timeout=LONG)
    with contextlib.closing(connection):
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()


def until(is_so):
    """Waits until another thread makes a condition true."""
    waiting = threading.Event()
    for _ in range(6000):
        if is_so():
            return
        waiting.wait(0.01)
    raise AssertionError("it never was so")


def test_a_request_that_finds_the_queue_full_by_rest():
    gate = Gate()
    answers = []
    with serving(gate) as (address, made):
        threads = [
            threading.Thread(target=lambda: answers.append(get(address, "/slow"))) for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        try:
            assert gate.started.acquire(timeout=LONG) and gate.started.acquire(timeout=LONG)
            until(lambda: made._dispatcher.accepted == 5)
            status, body = get(address)
            assert status == 429
            assert json.loads(body) == {
                "error": "3 requests are already waiting. Try again later, or start the server "
                         "with more --serving_threads."
            }  # fmt: skip
        finally:
            gate.open.set()
            for thread in threads:
                thread.join(LONG)
        assert answers == [(200, b"done")] * 5
        assert get(address) == (200, b"done")


def test_a_server_that_stops_takes_no_requests_of_open_connections():
    gate = Gate()
    answers = []
    with serving(gate) as (address, made):
        idle = http.client.HTTPConnection(*address, timeout=LONG)
        idle.request("GET", "/")
        assert idle.getresponse().read() == b"done"  # Its connection stays open.
        busy = threading.Thread(target=lambda: answers.append(get(address, "/slow")))
        busy.start()
        assert gate.started.acquire(timeout=LONG)
        stopping = threading.Thread(target=made.stop, args=[LONG])
        stopping.start()
        try:
            until(lambda: len(made._server.active_channels) == 1)
            with pytest.raises((http.client.HTTPException, ConnectionError)):
                idle.request("GET", "/")
                idle.getresponse()
        finally:
            gate.open.set()
            idle.close()
        busy.join(LONG)
        stopping.join(LONG)
        assert answers == [(200, b"done")]


def test_a_request_that_finds_the_queue_full_by_grpc():
    gate = Gate()
    server = GrpcServer(gate, address="127.0.0.1:0", threads=1, waiting=1, max_bytes=1000)
    server.start()
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "ads"
    try:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            ask = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus
            asked = [ask.future(request, timeout=LONG) for _ in range(3)]
            until(lambda: any(call.done() for call in asked))
            (refused,) = [call for call in asked if call.done()]
            assert refused.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            gate.open.set()
            for call in asked:
                if call is not refused:
                    assert len(call.result(LONG).model_version_status) == 1
    finally:
        gate.open.set()
        server.stop(0).wait(LONG)


def test_a_request_whose_client_gave_up_is_not_worked_on():
    codes = []

    class Context(SimpleNamespace):
        def abort(self, code, message):
            codes.append(code)
            raise RuntimeError

    def answer(request):
        raise AssertionError("it was")

    with pytest.raises(RuntimeError):
        grpc_service._answered(answer, None, Context(is_active=lambda: False))
    assert codes == [grpc.StatusCode.CANCELLED]


def test_a_request_that_takes_the_model_too_long(tmp_path):
    model = LoadedModel(str(write_version(tmp_path, 1)), 1, longest_run_secs=0.1)
    with model._session.graph.as_default():
        never = tf.queue.FIFOQueue(1, tf.string, [()]).dequeue()
    model.signatures["raw"].outputs["name"].name = never.name
    with pytest.raises(RequestError) as error:
        answers.predict(model, "raw", {"name": np.array([b"a"], object)})
    assert error.value.code == "DEADLINE_EXCEEDED"
    model.close()


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nX: ", b"POST / HTTP/1.1\r\nContent-Length: 9"
                                  b"\r\n\r\na"], ids=["headers", "body"])  # fmt: skip
def test_a_request_that_never_ends_is_closed(monkeypatch, sent):
    monkeypatch.setattr(rest_server, "_SLOW_SECS", 0.2)
    monkeypatch.setattr(rest_server, "_LOOK_SECS", 0.05)
    done = threading.Event()
    with serving(Gate()) as (address, _), socket.create_connection(address, LONG) as slow:
        slow.sendall(sent)

        def drip():
            with contextlib.suppress(OSError):
                while not done.wait(0.02):
                    slow.sendall(b"x" if b"X: " in sent else b"")

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert get(address) == (200, b"done")
            with contextlib.suppress(ConnectionResetError):
                assert slow.recv(100) == b""
        finally:
            done.set()
            dripping.join(LONG)


def test_a_connection_without_requests_is_closed(monkeypatch):
    monkeypatch.setattr(rest_server, "_LOOK_SECS", 0.05)
    monkeypatch.setattr(rest_server, "_IDLE_SECS", 0.1)
    with serving(Gate()) as (address, _), socket.create_connection(address, LONG) as idle:
        assert idle.recv(100) == b""


def test_more_connections_than_are_kept():
    gate = Gate()
    with serving(gate, connections=25) as (address, made), contextlib.ExitStack() as stack:
        answers = []
        asking = threading.Thread(target=lambda: answers.append(get(address, "/slow")))
        asking.start()
        assert gate.started.acquire(timeout=LONG)
        for i in range(100):
            slow = stack.enter_context(socket.create_connection(address, LONG))
            slow.sendall(b"GET / HTTP/1.1\r\n" if i % 2 else b"")
        assert get(address) == (200, b"done")
        assert len(made._server.active_channels) <= 25
        gate.open.set()  # The oldest connection has a request that is being answered.
        asking.join(LONG)
        assert answers == [(200, b"done")]


def test_silent_connections_to_grpc_are_limited_and_end(monkeypatch):
    monkeypatch.setattr(grpc_server, "_HANDSHAKE_SECS", 0.2)
    gate = Gate()
    gate.open.set()
    made = GrpcServer(
        gate, address="127.0.0.1:0", threads=1, waiting=1, max_bytes=1000, connections=5
    )
    made.start()
    try:
        with contextlib.ExitStack() as stack:
            silent = [
                stack.enter_context(socket.create_connection(("127.0.0.1", made.port), LONG))
                for _ in range(20)
            ]
            for each in silent:  # The first five get the settings of HTTP/2 before their end.
                with contextlib.suppress(ConnectionResetError):
                    while each.recv(1000):
                        pass
            request = get_model_status_pb2.GetModelStatusRequest()
            request.model_spec.name = "ads"
            with grpc.insecure_channel(f"127.0.0.1:{made.port}") as channel:
                ask = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus
                answer = ask(request, timeout=LONG, wait_for_ready=True)
            assert len(answer.model_version_status) == 1
    finally:
        made.stop(0).wait(LONG)


def test_a_connection_without_a_free_file_is_one_line_of_the_log(monkeypatch, caplog):
    monkeypatch.setattr(rest_server, "_PAUSE", 0.01)
    monkeypatch.setattr(rest_server, "_LOOK_SECS", 0.01)
    real, tries = waitress.wasyncore.dispatcher.accept, []

    def accept(self):
        tries.append(None)
        if len(tries) <= 20:
            raise OSError(errno.EMFILE, "Too many open files")
        return real(self)

    monkeypatch.setattr(waitress.wasyncore.dispatcher, "accept", accept)
    with caplog.at_level(logging.WARNING), serving(Gate()) as (address, _):
        assert get(address) == (200, b"done")
    assert [record.getMessage() for record in caplog.records] == [
        "REST: a connection was not accepted: Too many open files; new connections wait until "
        "others are closed"
    ]


def test_the_limit_of_open_files_limits_the_connections(monkeypatch):
    def most(files):
        monkeypatch.setattr(resource, "getrlimit", lambda kind: (files, resource.RLIM_INFINITY))
        return server.most_connections()

    # Each server gets half of what is left after 128 other files.
    assert [most(files) for files in (64, 256, 1024, 2**20)] == [16, 64, 448, 800]
    assert most(resource.RLIM_INFINITY) == 800


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_is_set_changes_no_limit(monkeypatch, hours):
    """An open connection stays open if the clock goes ahead; an old one ends if it goes back.

    A client that reads its answer slowly gets all of it.
    """

    def app(environ, start_response):
        size = 2**24 if environ["PATH_INFO"] == "/large" else 4
        start_response("200 OK", [("Content-Length", str(size))])
        return [bytes(size)]

    real = time.time
    monkeypatch.setattr(rest_server, "_IDLE_SECS", LONG if hours > 0 else 0.3)
    monkeypatch.setattr(rest_server, "_LOOK_SECS", 0.05)
    with serving(app) as (address, made):
        idle, slow = (http.client.HTTPConnection(*address, timeout=LONG) for _ in range(2))
        with contextlib.closing(idle), contextlib.closing(slow):
            idle.request("GET", "/")
            assert idle.getresponse().read() == bytes(4)
            slow.request("GET", "/large")
            answer = slow.getresponse()
            monkeypatch.setattr(time, "time", lambda: real() + 3600 * hours)
            if hours > 0:
                looks = made._tidied
                until(lambda: made._tidied > looks + 0.2)
                idle.request("GET", "/")
                assert idle.getresponse().read() == bytes(4)
            else:
                assert idle.sock.recv(100) == b""
            assert len(answer.read()) == 2**24
