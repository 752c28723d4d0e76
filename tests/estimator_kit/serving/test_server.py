"""The servers as a program: their addresses, their end, and what stops a start."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

import estimator_kit as ek
from estimator_kit.client import GrpcClient, RestClient
from estimator_kit.serving import server
from estimator_kit.serving.rest_server import RestServer
from tests.conftest import ROOT
from tests.estimator_kit.serving.small_models import config, serving, write_version


@pytest.mark.ci
def test_the_program_serves_and_ends_with_sigterm(tmp_path):
    write_version(tmp_path, 3)
    process = subprocess.Popen(
        [sys.executable, "run.py", "--mode=serve", f"--serving_models=ads={tmp_path}",
         "--serving_grpc_port=0", "--serving_rest_port=0", "--serving_poll_secs=0.05"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        _, _, grpc_address, _, url = process.stdout.readline().split()
        assert grpc_address.startswith("127.0.0.1:") and url.startswith("http://127.0.0.1:")
        with GrpcClient(grpc_address, "ads") as first, RestClient(url, "ads") as second:
            for client in (first, second):
                assert ask(client).tolist() == [[3.0, 6.0]]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def ask(client):
    return client.predict_tensors({"x": np.float32([[1, 2]]), "name": ["a"]})["y"]


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
    assert str(error.value) == f"--serving_models: ads={tmp_path}/no: there is no such folder"


def test_a_package_that_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "waitress", None)
    missing = pytest.raises(ImportError, match=r"pip install estimator-kit\[serving\]")
    with missing, server.running(config(tmp_path)):
        pass


def test_the_first_version_may_come_later(tmp_path):
    with serving(tmp_path) as (address, _, models):
        write_version(tmp_path, 4)
        models.poll()
        models.poll()
        with GrpcClient(address, "ads") as client:
            assert ask(client).tolist() == [[4.0, 8.0]]
