"""`--mode=data_service`: a dispatcher of a tf.data service or, with --data_service, a worker.

The servers are TensorFlow's own. When a server is ready, one line says what it is and its address.
It runs until SIGTERM or Ctrl-C, and then exits with status 0. A worker whose dispatcher is gone is
not stopped before that: TensorFlow's `stop` would wait for the dispatcher, and block the whole
process. The servers have no authentication: everyone who reaches their ports can read files and run
graphs, so keep them inside a private network.

With --data_service_dir, a dispatcher writes down its state. If you start it again with the same
folder, it continues the trainings that it served, on the same port.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_kit.config.areas.cluster import Cluster, DataService
from estimator_kit.config.modes import ServeData
from estimator_kit.distributed import servers
from estimator_kit.errors import ConfigError
from estimator_kit.exit_codes import until_signalled
from estimator_kit.result import RunResult
from estimator_kit.training import data_service
from feature_specs.files import documents

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")

# Seconds that a worker tries to reach a dispatcher that it has reached before.
_WORKER_GIVES_UP = 3600


def run(command: ServeData, tell: Callable[[str], None]) -> RunResult:
    """Serves until the process is stopped; see `serve`."""
    serve(command.service, command.cluster, tell)
    return RunResult(mode=command.program.mode)


def serve(service: DataService, cluster: Cluster, tell: Callable[[str], None]) -> None:
    """Runs a worker or a dispatcher until a signal ends it; tells its address.

    Raises:
      ConfigError: the port cannot be bound, or the folder cannot be used.
      tf.errors.UnavailableError: a worker cannot reach its dispatcher.
    """
    with until_signalled() as ended:
        if service.data_service is None:
            server, address = _dispatcher(service)
        else:
            server, address = _worker(service, cluster, ended)
        if server is None:
            return
        tell(f"{'dispatcher' if service.data_service is None else 'worker'}: {address}")
        while not ended.wait(1.0):  # In short waits, because one long wait can delay signals.
            pass
        if _stops(service):
            server.stop()
        else:
            servers.STARTED.append(server)  # `main` ends the process without stopping it.


def _stops(service: DataService) -> bool:
    """Whether the server can be stopped. A worker asks its dispatcher for as long as it takes."""
    return service.data_service is None or data_service.answers(service.data_service, seconds=1.0)


def _dispatcher(service_settings: DataService) -> tuple[Any, str]:
    service = tf.data.experimental.service
    folder = service_settings.data_service_dir
    port = service_settings.data_service_port
    if folder is not None and not port:
        port = _port_of_before(folder)
    server = _started(
        lambda: service.DispatchServer(
            service.DispatcherConfig(
                port=port,
                protocol="grpc",
                work_dir=folder,
                fault_tolerant_mode=folder is not None,
            )
        ),
        port,
    )
    bound = int(server.target.rpartition(":")[2])
    if folder is not None:
        _keep_port(folder, bound)
    return server, f"grpc://{service_settings.data_service_host or socket.gethostname()}:{bound}"


def _worker(
    service_settings: DataService, cluster: Cluster, ended: threading.Event
) -> tuple[Any, str]:
    """The server and its address. The server is None if a signal came before it could start."""
    service = tf.data.experimental.service
    assert service_settings.data_service is not None
    dispatcher = service_settings.data_service.partition("://")[2]
    data_service.wait_for_service(service_settings, cluster, workers=False, ended=ended)
    if ended.is_set():
        return None, ""
    host = service_settings.data_service_host
    if host is None:  # The trainer gets this name, and connects to it.
        is_here = dispatcher.rpartition(":")[0] in _LOOPBACK
        host = "localhost" if is_here else socket.gethostname()
    server = _started(
        lambda: service.WorkerServer(
            service.WorkerConfig(
                dispatcher_address=dispatcher,
                worker_address=f"{host}:%port%",
                port=service_settings.data_service_port,
                protocol="grpc",
                heartbeat_interval_ms=1000,
                dispatcher_timeout_ms=_WORKER_GIVES_UP * 1000,
            )
        ),
        service_settings.data_service_port,
    )
    bound = server._address.rpartition(":")[2]
    return server, f"grpc://{host}:{bound} of {service_settings.data_service}"


def _started(make: Any, port: int) -> Any:
    try:
        return make()
    except (tf.errors.OpError, RuntimeError) as error:
        text = str(error).strip().splitlines()[0]
        raise ConfigError(f"--data_service_port={port}: the server cannot start: {text}") from error


def _port_of_before(folder: str) -> int:
    try:
        with tf.io.gfile.GFile(_port_file(folder)) as file:
            text = file.read().strip()
    except tf.errors.NotFoundError:
        return 0
    except tf.errors.OpError as error:
        raise ConfigError(
            f"--data_service_dir={folder}: {error.message}. Name a folder."
        ) from error
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 0 < int(text) < 65536:
        raise ConfigError(
            f"--data_service_dir: {_port_file(folder)} expected the port of the last start, got "
            f"{text[:40]!r}. Give --data_service_port."
        )
    return int(text)


def _keep_port(folder: str, port: int) -> None:
    documents.write_text(_port_file(folder), f"{port}\n")


def _port_file(folder: str) -> str:
    return os.path.join(folder, "port")
