"""The servers as a program: their addresses, their end, and errors at the start."""

from __future__ import annotations

import contextlib
import datetime
import http.client
import json
import logging
import os
import queue
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import estimator_kit as ek
from estimator_kit.client import GrpcClient, RestClient
from estimator_kit.serving import addresses, loaded_model, server
from estimator_kit.serving.grpc_server import GrpcServer
from estimator_kit.serving.rest_app import RestApp
from estimator_kit.serving.rest_server import RestServer
from estimator_kit.serving.versions import Models
from estimator_kit.signals import Signalled
from tests.conftest import ROOT
from tests.estimator_kit.serving.small_models import config, serving, write_version


@pytest.mark.ci
def test_the_program_serves_and_ends_with_sigterm(tmp_path):
    """Also while another version loads that never ends, as from a mount that hangs."""
    write_version(tmp_path, 3)
    process = subprocess.Popen(
        [sys.executable, "run.py", "--mode=serve", f"--serving_models=ads={tmp_path}",
         "--serving_grpc_port=0", "--serving_rest_port=0", "--serving_poll_secs=0.05",
         "--serving_lame_duck_secs=600"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        _, _, grpc_address, _, url = process.stdout.readline().split()
        assert grpc_address.startswith("127.0.0.1:") and url.startswith("http://127.0.0.1:")
        with GrpcClient(grpc_address, "ads") as first, RestClient(url, "ads") as second:
            for client in (first, second):
                assert ask(client).tolist() == [[3.0, 6.0]]
            assert health(grpc_address) == health_pb2.HealthCheckResponse.SERVING
            (tmp_path / "4").mkdir()
            os.mkfifo(tmp_path / "4" / "saved_model.pb")  # Nobody writes into it.
            end = time.monotonic() + 60
            while first.status().get(4) != "LOADING":
                assert time.monotonic() < end
            process.send_signal(signal.SIGTERM)
            assert process.stderr is not None
            # Each line begins with its time.
            line = next(line for line in process.stderr if "SIGTERM" in line)
            day, _, text = line.split(maxsplit=2)
            assert datetime.date.fromisoformat(day)
            assert text == "SIGTERM: the server accepts requests for 600 more seconds\n"
            assert health(grpc_address) == health_pb2.HealthCheckResponse.NOT_SERVING
            assert [ask(client).tolist() for client in (first, second)] == [[[3.0, 6.0]]] * 2
        process.send_signal(signal.SIGTERM)  # The second signal ends the wait.
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.nightly
@pytest.mark.parametrize("door", ["grpc", "rest"])
def test_silent_connections_leave_both_servers_at_work(tmp_path, door):
    """1,100 of them, while the process may open 1,024 files."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 2000:
        pytest.skip("this process may not open 1,100 connections")
    (tmp_path / "ads").mkdir()
    write_version(tmp_path / "ads", 3)
    with (tmp_path / "log").open("w") as log, contextlib.ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, most))  # The child has the same.
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (before, most))
        process = subprocess.Popen(
            [sys.executable, "run.py", "--mode=serve", f"--serving_models=ads={tmp_path}/ads",
             "--serving_grpc_port=0", "--serving_rest_port=0"],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
        stack.callback(process.communicate)
        stack.callback(process.kill)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(before, 2000), most))
        assert process.stdout is not None
        _, _, grpc_address, _, url = process.stdout.readline().split()
        host, _, port = (grpc_address if door == "grpc" else url).rpartition(":")
        for _ in range(1100):
            silent = socket.create_connection((host.removeprefix("http://"), int(port)), 60)
            stack.callback(silent.close)
        # gRPC answers when its silent connections have ended.
        for kind, address in ((RestClient, url), (GrpcClient, grpc_address)):
            with kind(address, "ads", timeout_secs=60) as client:
                assert ask(client).tolist() == [[3.0, 6.0]]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert (tmp_path / "log").stat().st_size < 10_000


@pytest.mark.parametrize("is_live", [False, True], ids=["at the start", "with a live version"])
def test_a_server_ends_while_a_version_loads(tmp_path, monkeypatch, is_live):
    write_version(tmp_path, 3)
    real, ended, lines = loaded_model.LoadedModel, Signalled(), queue.Queue()
    loads, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def load(path, version, **given):
        if version == 4 or not is_live:
            loads.set()
            assert go_on.wait(60)
        made = real(path, version, **given)
        close = made.close
        made.close = lambda: (close(), closed.set())
        return made

    monkeypatch.setattr(loaded_model, "LoadedModel", load)
    monkeypatch.setattr(server, "until_signalled", lambda: contextlib.nullcontext(ended))
    monkeypatch.setattr(server, "_LAST_LOOK", 0.01)
    made = config(tmp_path, serving_lame_duck_secs=0)
    serving = threading.Thread(target=server.serve, args=(made, lines.put))
    serving.start()
    try:
        if is_live:
            assert lines.get(timeout=60).startswith("serve: grpc 127.0.0.1:")
            write_version(tmp_path, 4)
        assert loads.wait(60)
        ended.number = signal.SIGTERM
        ended.set()
        serving.join(60)
        assert not serving.is_alive()
        (left,) = server.LEFT
        closed.clear()
        go_on.set()
        left.join(60)
        assert closed.is_set()  # The version that comes too late is not kept.
    finally:
        ended.set()
        go_on.set()
        server.LEFT.clear()
    assert lines.empty()


def test_an_error_while_a_server_looks_ends_it(tmp_path):
    write_version(tmp_path, 3)

    def tell(line):
        raise BrokenPipeError(line)

    with pytest.raises(BrokenPipeError, match="serve: grpc"):
        server.serve(config(tmp_path), tell)


def ask(client):
    return client.predict_tensors({"x": np.float32([[1, 2]]), "name": ["a"]})["y"]


def health(address):
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        return stub.Check(health_pb2.HealthCheckRequest(), timeout=60).status


def test_a_request_under_way_is_answered_at_the_end():
    started, go_on = threading.Event(), threading.Event()

    def app(environ, start_response):
        started.set()
        assert go_on.wait(60)
        start_response("200 OK", [("Content-Length", "4")])
        return [b"done"]

    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    address = sock.getsockname()
    made = RestServer(app, sock, threads=2, waiting=1, max_bytes=1000)
    made.start()
    answers = []

    def request():
        connection = http.client.HTTPConnection(*address, timeout=60)
        connection.request("GET", "/")
        answers.append(connection.getresponse().read())
        connection.close()

    asking = threading.Thread(target=request)
    asking.start()
    assert started.wait(60)
    stopping = threading.Thread(target=made.stop, args=(60.0,))
    stopping.start()
    go_on.set()
    for thread in (asking, stopping):
        thread.join(60)
    assert answers == [b"done"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, 10)


def test_hosts_by_which_requests_may_call_a_server():
    def status(host, hosts=("10.1.2.3", "Models.example.com")):
        found = []
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/v1/models"}
        if host is not None:
            environ["HTTP_HOST"] = host
        app = RestApp(Models([]), 1000, hosts)
        (body,) = app(environ, lambda line, headers: found.append(line))
        return found[0], json.loads(body)["error"]

    good = ("400 Bad Request", "Missing model name in request.")
    for host in (None, "localhost", "LOCALHOST:8501", "localhost.", "127.0.0.1:80", "[::1]:8501",
                 "::1", "192.168.1.7", "models.example.com:8501"):  # fmt: skip
        assert status(host) == good, host
    for host in ("evil.example", "localhost.evil.example:8501", "127.0.0.1.evil.example", "a:b",
                 ""):  # fmt: skip
        line, error = status(host)
        assert line == "403 Forbidden"
        assert error == (
            f"the host {host!r} is not allowed. If it is a name of this server, add it to "
            "--serving_allowed_hosts."
        )
    assert status("evil.example", ("*",)) == good


def test_web_pages_that_may_send_requests():
    def status(origin, host="models:8501", allowed=()):
        found = []
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/v1/models", "HTTP_HOST": host}
        if origin is not None:
            environ["HTTP_ORIGIN"] = origin
        app = RestApp(Models([]), 1000, ("models", *allowed), origins=allowed)
        (body,) = app(environ, lambda line, headers: found.append(line))
        return found[0], json.loads(body)["error"]

    good = ("400 Bad Request", "Missing model name in request.")
    assert status(None) == good
    assert status("http://models:8501") == good
    assert status("https://MODELS:8501") == good  # Behind a proxy that ends TLS.
    assert status("http://127.0.0.1:8501", "127.0.0.1:8501") == good
    assert status("http://[::1]:8501", "[::1]:8501") == good
    assert status("http://pages.example:3000", allowed=("pages.example",)) == good
    for origin in ("http://evil.example", "null", "http://any", "file://"):
        assert status(origin, allowed=("*",)) == good, origin
    for origin in ("http://evil.example", "http://models:3000", "http://models", "null", "", "://",
                   "http://localhost:3000", "http://models:8501.evil.example", "models:8501",
                   "file://"):  # fmt: skip
        line, error = status(origin)
        assert line == "403 Forbidden", origin
        assert error == (
            f"a web page of {origin!r} may not send requests. If it is yours, add its host to "
            "--serving_allowed_hosts."
        )


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::", "localhost"])
def test_both_servers_listen_at_the_same_addresses(host):
    try:
        with socket.socket(socket.AF_INET6) as looking:
            looking.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    sock = addresses.bound(host, 0, flag="--serving_rest_port")
    rest = RestServer(lambda environ, start: [], sock, threads=1, waiting=1, max_bytes=1000)
    address = addresses.with_port(addresses.of_socket(sock), 0)
    grpc_server = GrpcServer(Models([]), address=address, threads=1, waiting=1, max_bytes=1000)
    grpc_server.start()
    rest.start()
    try:
        found = {
            name: {place for place in ("127.0.0.1", "::1") if listens(place, port)}
            for name, port in (("grpc", grpc_server.port), ("rest", sock.getsockname()[1]))
        }
    finally:
        grpc_server.stop(0).wait(60)
        rest.stop(0)
    expected = {"127.0.0.1"} if host in ("127.0.0.1", "localhost") else {"127.0.0.1", "::1"}
    assert found == {"grpc": expected, "rest": expected}


def listens(place, port):
    try:
        socket.create_connection((place, port), 60).close()
    except ConnectionRefusedError:
        return False
    return True


def test_bytes_that_are_no_message_are_one_line_of_the_log(tmp_path, caplog):
    with serving(tmp_path) as (address, _, _), grpc.insecure_channel(address) as channel:
        ask_for = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        with caplog.at_level(logging.ERROR), pytest.raises(grpc.RpcError):
            ask_for(b"\xff\xff")
    (record,) = [r for r in caplog.records if r.name == "grpc._common"]
    assert record.getMessage().startswith("Exception deserializing message! DecodeError: ")
    assert record.exc_info is None and "\n" not in caplog.handler.format(record)


def test_a_port_that_is_taken(tmp_path):
    write_version(tmp_path, 1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for which in ("rest", "grpc"):
            made = config(tmp_path, **{f"serving_{which}_port": port})
            with pytest.raises(ek.ConfigError) as error, server.running(made):
                pass
            start = f"--serving_{which}_port={port}: 127.0.0.1 cannot be bound: "
            assert str(error.value).startswith(start)


def test_a_folder_that_is_not_there(tmp_path):
    made = config(tmp_path / "no")
    with pytest.raises(ek.ConfigError) as error, server.running(made):
        pass
    assert str(error.value) == f"--serving_models: ads={tmp_path}/no: the folder does not exist"


def test_a_package_that_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "waitress", None)
    missing = pytest.raises(ImportError, match=r"pip install 'estimator-kit\[serving\]'`\.")
    with missing, server.running(config(tmp_path)):
        pass


def test_the_first_version_may_come_later(tmp_path):
    with serving(tmp_path) as (address, _, models):
        write_version(tmp_path, 4)
        models.poll()
        models.poll()
        with GrpcClient(address, "ads") as client:
            assert ask(client).tolist() == [[4.0, 8.0]]
