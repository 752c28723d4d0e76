"""Bounds of the servers: requests that wait, open connections, and the time of a request."""

from __future__ import annotations

import contextlib
import http.client
import resource
import socket
import threading

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

from estimator_kit.serving import answers, grpc_server, server
from estimator_kit.serving.errors import RequestError
from estimator_kit.serving.grpc_server import GrpcServer
from estimator_kit.serving.live_versions import State
from estimator_kit.serving.loaded_model import LoadedModel
from estimator_kit.serving.rest_server import RestServer
from tests.estimator_kit.serving.small_models import write_version

LONG = 60.0
ADS = get_model_status_pb2.GetModelStatusRequest()
ADS.model_spec.name = "ads"


def status_of(channel):
    return model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus


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

    def live(self):
        return {}

    def states(self, name, version=None, label=None):
        self.pass_through()
        return {1: State("AVAILABLE")}


@contextlib.contextmanager
def serving(app, **limits):
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    address = sock.getsockname()
    made = RestServer(app, sock, **{"threads": 2, "max_bytes": 1000, "connections": 9, **limits})
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


def test_a_request_that_finds_the_queue_full_by_grpc(monkeypatch):
    monkeypatch.setattr(grpc_server, "_WAITING", 1)
    gate = Gate()
    server = GrpcServer(gate, address="127.0.0.1:0", threads=1, max_bytes=1000, connections=9)
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            asked = [status_of(channel).future(ADS, timeout=LONG) for _ in range(3)]
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


def test_a_request_that_takes_the_model_too_long(tmp_path):
    model = LoadedModel(str(write_version(tmp_path, 1)), 1, longest_run_secs=0.1)
    with model._session.graph.as_default():
        never = tf.queue.FIFOQueue(1, tf.string, [()]).dequeue()
    model.signatures["raw"].outputs["name"].name = never.name
    with pytest.raises(RequestError) as error:
        answers.predict(model, "raw", {"name": np.array([b"a"], object)})
    assert error.value.code == "DEADLINE_EXCEEDED"
    model.close()


def test_more_connections_than_are_kept():
    gate = Gate()
    with serving(gate, connections=25) as (address, made), contextlib.ExitStack() as stack:
        for _ in range(100):
            silent = stack.enter_context(socket.create_connection(address, LONG))
            stack.callback(silent.close)
        until(lambda: made._server.in_connection_overflow)
        assert len(made._server.active_channels) <= 25
        stack.close()  # Others may connect when these have gone.
        assert get(address) == (200, b"done")


def test_more_connections_to_grpc_are_closed_at_once():
    gate = Gate()
    gate.open.set()
    made = GrpcServer(gate, address="127.0.0.1:0", threads=1, max_bytes=1000, connections=5)
    made.start()
    try:
        with contextlib.ExitStack() as stack:
            place = ("127.0.0.1", made.port)
            silent = [stack.enter_context(socket.create_connection(place, LONG)) for _ in range(20)]
            for each in silent[5:]:
                with contextlib.suppress(ConnectionResetError):
                    assert each.recv(1000) == b""
            stack.close()
            with grpc.insecure_channel(f"127.0.0.1:{made.port}") as channel:
                answer = status_of(channel)(ADS, timeout=LONG, wait_for_ready=True)
            assert len(answer.model_version_status) == 1
    finally:
        made.stop(0).wait(LONG)


def test_the_limit_of_open_files_limits_the_connections(monkeypatch):
    def most(files):
        monkeypatch.setattr(resource, "getrlimit", lambda kind: (files, resource.RLIM_INFINITY))
        return server.most_connections()

    # Each server gets half of what is left after 128 other files.
    assert [most(files) for files in (64, 256, 1024, 2**20)] == [16, 64, 448, 800]
    assert most(resource.RLIM_INFINITY) == 800
