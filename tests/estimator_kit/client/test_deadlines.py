"""A request of RestClient ends at its deadline, however slow the server is."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import threading

import pytest

from estimator_kit.client import RestClient, ServingError
from estimator_kit.client.connections import Retries

pytestmark = pytest.mark.no_tensorflow

# Seconds that a dripping server goes on, unless its client is gone.
LONG = 60.0
BODY = json.dumps({"model_version_status": [{"version": "3", "state": "AVAILABLE"}]}).encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@contextlib.contextmanager
def listening(talk, context=None):
    """The port of a server that answers one connection, in a thread."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run():
            with contextlib.suppress(OSError):
                sock, _ = server.accept()
                if context is not None:
                    sock = context.wrap_socket(sock, server_side=True)
                with sock:
                    talk(sock, done)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            done.set()
            with contextlib.suppress(OSError):  # There may have been no connection.
                socket.create_connection(server.getsockname(), 1).close()
            thread.join(LONG)


def dripping(whole, first=b""):
    """Sends a first part, and then the rest byte by byte, in LONG seconds."""

    def talk(sock, done):
        sock.recv(10_000)
        sock.sendall(first)
        for byte in whole:
            sock.sendall(bytes([byte]))
            if done.wait(LONG / len(whole)):
                break

    return talk


SLOW = b"x" * 2000


@pytest.mark.parametrize(
    "talk",
    [
        dripping(SLOW),
        dripping(SLOW, b"HTTP/1.1 200 OK\r\nX: "),
        dripping(SLOW, HEAD % len(SLOW)),
        dripping(SLOW, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"),
        lambda sock, done: done.wait(LONG),
    ],
    ids=["status", "headers", "body", "body to its end", "nothing"],
)
def test_a_server_that_drips(talk):
    with listening(talk) as port:
        client = RestClient(f"http://127.0.0.1:{port}", "ads", timeout_secs=0.2)
        with client, pytest.raises(ServingError) as error:
            client.status()
    assert error.value.code == "DEADLINE_EXCEEDED"
    assert error.value.message == "no complete answer in 0.2 seconds"


def test_a_client_has_as_many_connections_as_requests_at_once():
    """Also if each request comes from a new thread, as in a server with a thread a request."""
    answer = b'{"model_version_status": []}'
    accepted = []

    def talk(sock, done):
        accepted.append(sock)
        while sock.recv(10_000):
            sock.sendall(HEAD % len(answer) + answer)

    with (
        listening(talk) as port,
        RestClient(f"http://127.0.0.1:{port}", "ads", timeout_secs=LONG) as client,
    ):
        for _ in range(5):
            thread = threading.Thread(target=client.status)
            thread.start()
            thread.join()
        assert client.status() == {} and len(accepted) == 1
        with client._connection(LONG):
            client.close()
        assert client._idle == []


def test_a_server_that_reads_slowly():
    def talk(sock, done):
        while sock.recv(100) and not done.wait(0.005):
            pass

    with listening(talk) as port:
        client = RestClient(f"http://127.0.0.1:{port}", "ads", timeout_secs=0.2)
        with client, pytest.raises(ServingError) as error:
            client._call("POST", ":predict", {"inputs": "a" * 30_000_000})
    assert error.value.code == "DEADLINE_EXCEEDED"


def test_a_handshake_that_never_comes():
    with listening(lambda sock, done: done.wait(LONG)) as port:
        client = RestClient(f"https://127.0.0.1:{port}", "ads", timeout_secs=0.2)
        with client, pytest.raises(ServingError) as error:
            client.status()
    assert error.value.code == "DEADLINE_EXCEEDED"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
@pytest.mark.parametrize("slow", [False, True])
def test_over_tls(tmp_path, monkeypatch, slow):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", f"{tmp_path}/key.pem", "-out", f"{tmp_path}/cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    monkeypatch.setenv("SSL_CERT_FILE", f"{tmp_path}/cert.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")

    def answer(sock, done):
        sock.recv(10_000)
        sock.sendall(HEAD % len(BODY) + BODY)

    talk = dripping(SLOW, HEAD % len(SLOW)) if slow else answer
    with listening(talk, context) as port:
        url = f"https://127.0.0.1:{port}"
        with RestClient(url, "ads", timeout_secs=1 if slow else LONG) as client:
            if not slow:
                assert client.status() == {3: "AVAILABLE"}
                return
            with pytest.raises(ServingError) as error:
                client.status()
    assert error.value.code == "DEADLINE_EXCEEDED"


def test_what_a_batch_needs_to_know_is_part_of_its_time():
    now = [100.0]
    retries = Retries(3.0, lambda: now[0], lambda seconds: None)
    left = []

    def attempt(seconds):
        left.append(seconds)
        now[0] += 1.0

    with retries.shared():
        retries.call(attempt)
        with retries.shared():
            retries.call(attempt)
        retries.call(attempt)
    retries.call(attempt)
    assert left == [3.0, 2.0, 1.0, 3.0]
