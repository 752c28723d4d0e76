"""gRPC's health service and server reflection: their answers, changes and end."""

from __future__ import annotations

import contextlib
import queue
import shutil
import signal
import threading
from types import SimpleNamespace

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from estimator_kit.client import GrpcClient
from estimator_kit.exit_codes import Signalled
from estimator_kit.serving import server
from estimator_kit.serving.grpc_server import GrpcServer
from estimator_kit.serving.health import PREDICTION_SERVICE, Health
from estimator_kit.serving.live_versions import Models
from tests.estimator_kit.serving.small_models import config, write_version

LONG = 60.0
RESPONSE = health_pb2.HealthCheckResponse
SERVING, NOT_SERVING = RESPONSE.SERVING, RESPONSE.NOT_SERVING


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Version 1, to copy from."""
    folder = tmp_path_factory.mktemp("made")
    write_version(folder, 1)
    return folder


@pytest.fixture
def running(tmp_path):
    """Servers of the models `ads` and `next`, whose folders are empty: server, models, channel."""
    for name in ("ads", "next"):
        (tmp_path / name).mkdir()
    models = tuple(f"{name}={tmp_path}/{name}" for name in ("ads", "next"))
    started = server.running(*[config(tmp_path, serving_models=models)] * 2)
    with started as (found, polled), grpc.insecure_channel(found.addresses[0]) as channel:
        yield found, polled, channel


def check(channel, service=""):
    stub = health_pb2_grpc.HealthStub(channel)
    return stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=LONG).status


def watch(channel, service=""):
    stub = health_pb2_grpc.HealthStub(channel)
    return stub.Watch(health_pb2.HealthCheckRequest(service=service), timeout=LONG)


def load(made, folder, models, name):
    shutil.copytree(made / "1", folder / name / "1")
    models.poll()
    models.poll()


def test_the_models_are_serving_when_each_has_a_version(running, made, tmp_path):
    found, models, channel = running
    asked = ("", PREDICTION_SERVICE, "ads", "next")

    def statuses():
        return [check(channel, service) for service in asked]

    assert statuses() == [NOT_SERVING] * 4
    load(made, tmp_path, models, "ads")
    assert statuses() == [NOT_SERVING, NOT_SERVING, SERVING, NOT_SERVING]
    load(made, tmp_path, models, "next")
    assert statuses() == [SERVING] * 4
    found.leave()
    assert statuses() == [NOT_SERVING] * 4


def test_a_service_that_is_unknown(running):
    _, _, channel = running
    with pytest.raises(grpc.RpcError) as error:
        check(channel, "adz")
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
    assert error.value.details() == "unknown service 'adz'. Did you mean 'ads'?"
    with pytest.raises(grpc.RpcError) as error:
        check(channel, "x" * 10_000)
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
    seen = watch(channel, "adz")
    assert next(seen).status == RESPONSE.SERVICE_UNKNOWN
    seen.cancel()


def test_a_watch_sees_each_change_and_ends_with_the_server(running, made, tmp_path):
    found, models, channel = running
    whole, one = watch(channel), watch(channel, "ads")
    assert [next(seen).status for seen in (whole, one)] == [NOT_SERVING, NOT_SERVING]
    load(made, tmp_path, models, "ads")
    assert next(one).status == SERVING
    load(made, tmp_path, models, "next")  # `ads` does not change, so the server sends nothing.
    assert next(whole).status == SERVING
    found.leave()
    assert [next(seen).status for seen in (whole, one)] == [NOT_SERVING, NOT_SERVING]
    check_end(found, [whole, one])


def check_end(found, calls):
    """The server ends open calls, and does not wait for them until its grace is over."""
    assert found._grpc.stop(10 * LONG).wait(LONG)
    for call in calls:
        with pytest.raises(grpc.RpcError) as error:
            next(call)
        # The second code if the connection closes first.
        assert error.value.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)


class Ended(Signalled):
    """Acts like a signal. `waits` is set when the server waits for a second signal."""

    def __init__(self):
        super().__init__()
        self.waits = threading.Event()

    def clear(self):
        super().clear()
        self.waits.set()


def test_between_sigterm_and_the_end(made, tmp_path, monkeypatch):
    shutil.copytree(made / "1", tmp_path / "1")
    ended, lines = Ended(), queue.Queue()
    monkeypatch.setattr(server, "until_signalled", lambda: contextlib.nullcontext(ended))
    monkeypatch.setattr(server, "_LEAVING_SECS", 10 * LONG)
    thread = threading.Thread(target=server.serve, args=(*[config(tmp_path)] * 2, lines.put))
    thread.start()
    try:
        with grpc.insecure_channel(lines.get(timeout=LONG).split()[2]) as channel:
            seen = watch(channel, "ads")
            assert (next(seen).status, check(channel)) == (SERVING, SERVING)
            ended.number = signal.SIGTERM
            ended.set()
            assert (next(seen).status, check(channel)) == (NOT_SERVING, NOT_SERVING)
            seen.cancel()
            with GrpcClient("", "ads", channel=channel) as client:
                assert client.status() == {1: "AVAILABLE"}  # The server still answers.
            assert ended.waits.wait(LONG)
    finally:
        ended.set()
        thread.join(LONG)
    assert not thread.is_alive()


def test_watches_keep_no_thread_and_no_place_in_the_queue():
    models = Models([])
    made = GrpcServer(models, address="127.0.0.1:0", threads=1, max_bytes=1000, connections=9)
    made.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{made.port}") as channel:
            seen = []
            for _ in range(60):
                seen.append(watch(channel))
                assert next(seen[-1]).status == SERVING
            assert check(channel) == SERVING
    finally:
        made.stop(0).wait(LONG)


class Context:
    """The context of a call that stays open until it is cancelled."""

    def __init__(self, *, over=False):
        self.cancelled = threading.Event()
        self._over = over

    def add_callback(self, callback):
        return not self._over

    def cancel(self):
        self.cancelled.set()


def test_a_client_that_does_not_read_stops_no_other():
    live = {"ads": []}
    health = Health(SimpleNamespace(live=lambda: live))
    request = health_pb2.HealthCheckRequest(service="ads")
    started, go_on, told = threading.Event(), threading.Event(), threading.Semaphore(0)
    stuck, seen = [], []

    def slow(response):
        started.set()
        assert go_on.wait(LONG)
        stuck.append(response.status)

    def quick(response):
        seen.append(response.status)
        told.release()

    contexts = [Context(), Context(), Context(over=True)]
    for context, send in zip(contexts, (slow, quick, quick)):
        health.watch(request, context, send)
    try:
        assert started.wait(LONG) and told.acquire(timeout=LONG)
        live["ads"] = [1]
        health.changed()
        assert told.acquire(timeout=LONG)
        live["ads"] = []
        health.changed()
        assert told.acquire(timeout=LONG)
        assert seen == [NOT_SERVING, SERVING, NOT_SERVING]  # The ended call gets no status.
        assert health.check(request, None).status == NOT_SERVING
        health.end()
        assert contexts[0].cancelled.is_set() and contexts[1].cancelled.is_set()
        late = Context()
        health.watch(request, late, quick)
        assert late.cancelled.is_set()
    finally:
        go_on.set()


def test_reflection_lists_and_describes_the_services(running):
    _, _, channel = running
    database = ProtoReflectionDescriptorDatabase(channel)
    services = database.get_services()
    assert sorted(services) == [
        "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection",
        "tensorflow.serving.ModelService", "tensorflow.serving.PredictionService",
    ]  # fmt: skip
    for name, methods in (
        ("tensorflow.serving.PredictionService",
         {"Predict", "Classify", "Regress", "MultiInference", "GetModelMetadata"}),
        ("tensorflow.serving.ModelService", {"GetModelStatus", "HandleReloadConfigRequest"}),
        ("grpc.health.v1.Health", {"Check", "Watch"}),
    ):  # fmt: skip
        file = database.FindFileContainingSymbol(name)
        (service,) = [s for s in file.service if f"{file.package}.{s.name}" == name]
        assert methods <= {method.name for method in service.method}
    assert database.FindFileContainingSymbol("tensorflow.TensorProto").package == "tensorflow"
