"""The servers as a program: their addresses, their end, and errors at the start."""

from __future__ import annotations

import contextlib
import datetime
import http.client
import json
import os
import queue
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
from estimator_kit.exit_codes import Signalled
from estimator_kit.serving import loaded_model, server
from estimator_kit.serving.grpc_server import GrpcServer
from estimator_kit.serving.live_versions import Models
from estimator_kit.serving.rest_server import RestApp, RestServer
from tests.conftest import ROOT
from tests.estimator_kit.serving.small_models import config, serving, write_version

# The program, which waits longer for a second signal than the test takes.
PROGRAM = (
    "from estimator_kit import main; from estimator_kit.serving import server; "
    "server._LEAVING_SECS = 600; main.program()"
)


@pytest.mark.ci
def test_the_program_serves_and_ends_with_sigterm(tmp_path):
    """Also while another version loads that never ends, as from a mount that hangs."""
    write_version(tmp_path, 3)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "--mode=serve", f"--serving_models=ads={tmp_path}",
         "--serving_grpc_port=0", "--serving_rest_port=0"],
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
    monkeypatch.setattr(server, "_LEAVING_SECS", 0)
    monkeypatch.setattr(server, "_LOOK_SECS", 0.001)
    serving = threading.Thread(target=server.serve, args=(*[config(tmp_path)] * 2, lines.put))
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
        server.serve(*[config(tmp_path)] * 2, tell)


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
    made = RestServer(app, sock, threads=2, max_bytes=1000, connections=9)
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


def refusal(host, origin=None, only_as="Models.example.com"):
    """Why a request with these headers is refused; None if it is not."""
    lines = []
    given = {"HTTP_HOST": host, "HTTP_ORIGIN": origin}
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/v1/models"}
    environ.update({name: value for name, value in given.items() if value is not None})
    app = RestApp(Models([]), 1000, only_as=only_as)
    (body,) = app(environ, lambda line, headers: lines.append(line))
    if lines == ["403 Forbidden"]:
        return json.loads(body)["error"]
    assert lines == ["400 Bad Request"]  # It names no model.
    return None


def test_hosts_by_which_requests_may_call_a_server_on_loopback():
    for host in (None, "localhost", "LOCALHOST:8501", "localhost.", "127.0.0.1:80", "[::1]:8501",
                 "::1", "192.168.1.7", "models.example.com:8501"):  # fmt: skip
        assert refusal(host) is None, host
    for host in ("evil.example", "localhost.evil.example:8501", "127.0.0.1.evil.example", "a:b",
                 ""):  # fmt: skip
        assert refusal(host).startswith(f"the host {host!r} is not allowed. Use an address or ")
        assert refusal(host, only_as=None) is None


def test_web_pages_that_may_send_requests_to_a_server_on_loopback():
    host = "models.example.com:8501"
    for origin in ("http://models.example.com:8501", "https://MODELS.example.com:8501"):
        assert refusal(host, origin) is None
    assert refusal("[::1]:8501", "http://[::1]:8501") is None
    for origin in ("http://evil.example", "http://models.example.com:3000", "null", "", "://",
                   "http://models.example.com:8501.evil.example", "file://"):  # fmt: skip
        assert refusal(host, origin) == f"a web page of {origin!r} may not send requests."
        assert refusal(host, origin, only_as=None) is None


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1", 403), ("0.0.0.0", 400)])
def test_names_are_checked_only_on_loopback(tmp_path, host, status):
    with serving(tmp_path, serving_host=host) as (_, url, _):
        port = int(url.rpartition(":")[2])
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            connection.request("GET", "/v1/models", headers={"Host": "models.example.com"})
            assert connection.getresponse().status == status


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::", "localhost"])
def test_both_servers_listen_at_the_same_addresses(host):
    try:
        with socket.socket(socket.AF_INET6) as looking:
            looking.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    sock = server.bound_socket(host, 0, flag="--serving_rest_port")
    rest = RestServer(lambda environ, start: [], sock, threads=1, max_bytes=1000, connections=9)
    address = server.with_port(server.address_of_socket(sock), 0)
    grpc_server = GrpcServer(Models([]), address=address, threads=1, max_bytes=1000, connections=9)
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


def test_a_port_that_is_taken(tmp_path):
    write_version(tmp_path, 1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for which in ("rest", "grpc"):
            made = config(tmp_path, **{f"serving_{which}_port": port})
            with pytest.raises(ek.ConfigError) as error, server.running(made, made):
                pass
            start = f"--serving_{which}_port={port}: 127.0.0.1 cannot be bound: "
            assert str(error.value).startswith(start)


def test_a_folder_that_is_not_there(tmp_path):
    made = config(tmp_path / "no")
    with pytest.raises(ek.ConfigError) as error, server.running(made, made):
        pass
    assert str(error.value) == f"--serving_models: ads={tmp_path}/no: the folder does not exist"


def test_a_package_that_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "waitress", None)
    missing = pytest.raises(ImportError, match=r"pip install 'estimator-kit\[serving\]'`\.")
    with missing, server.running(*[config(tmp_path)] * 2):
        pass


def test_the_first_version_may_come_later(tmp_path):
    with serving(tmp_path) as (address, _, models):
        write_version(tmp_path, 4)
        models.poll()
        models.poll()
        with GrpcClient(address, "ads") as client:
            assert ask(client).tolist() == [[4.0, 8.0]]
