"""`--mode=serve`: gRPC and REST on loopback, for development and small loads.

The server prints one line with both addresses, polls the folders of versions, and runs until
SIGTERM or Ctrl-C. Then it answers the open requests and exits with status 0. After SIGTERM it still
accepts requests for some seconds, while gRPC's health service says NOT_SERVING. It has no
authentication and no encryption. Loading may block as long as a file system does, so the thread
that reacts to signals never loads.

Both servers listen on the same address: the first IPv4 address of the host's name, or its first
IPv6 address if it has no other. `0.0.0.0` and `::` both mean all addresses of the machine, IPv4 and
IPv6, because gRPC has no other meaning of them.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Optional

from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.serving import Serving, served_models
from estimator_kit.errors import ConfigError
from estimator_kit.exit_codes import until_signalled
from input_pipelines.errors import MissingPackageError

# Machines without IPv6 answer with these errors.
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)


def bound_socket(host: str, port: int, *, flag: str) -> socket.socket:
    """A socket that is bound to a port of a host.

    Args:
      host: a name or an address.
      port: the port; 0 is any free port.
      flag: the flag of the port in the error.

    Raises:
      ConfigError: the port cannot be bound.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(addresses, key=lambda entry: entry[0] != socket.AF_INET)
        if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_unspecified:
            try:
                return _bound_socket(socket.AF_INET6, ("::", port))
            except OSError as error:
                if error.errno not in _NO_IPV6:
                    raise
        return _bound_socket(family, address)
    except OSError as error:
        raise ConfigError(
            f"{flag}={port}: {host} cannot be bound: {error.strerror or error}"
        ) from error


def _bound_socket(family: int, address: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            is_every = address[0] == "::"
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_every)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


def address_of_socket(sock: socket.socket) -> str:
    """The address of a bound socket, without its port."""
    return socket.getnameinfo(sock.getsockname(), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]


def with_port(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_log = logging.getLogger("estimator_kit")

# How many requests each of the two servers answers at once.
_THREADS = 16

# The most bytes of a request, and of an array of a request.
_MOST_BYTES = 16 * 2**20

# Seconds between two looks at the folders of versions.
_LOOK_SECS = 1.0

# Seconds after SIGTERM in which the server still takes requests, so that load balancers notice.
_LEAVING_SECS = 5.0

# Seconds that open requests have when the server stops.
_GRACE = 30.0

# Seconds that a model has for a request. After that the answer is DEADLINE_EXCEEDED.
_LONGEST_RUN = 60.0

# The most open connections of gRPC, and of REST; and the number of other open files.
_MOST_CONNECTIONS, _OTHER_FILES = 800, 128

# Seconds that a thread has to finish its look when the server ends.
_LAST_LOOK = 1.0

# Threads that were still loading when their server had ended.
LEFT: list[threading.Thread] = []


def serve(program: Program, serving: Serving, tell: Callable[[str], None]) -> None:
    """Runs both servers until a signal ends them; tells their addresses.

    Raises:
      ConfigError: a folder does not exist, or a port cannot be bound.
      MissingPackageError: the extra `serving` is not installed.
    """
    models = _models(program, serving)  # Looks at folders, so signals still end the process here.
    with until_signalled() as ended, _bound(serving, models) as server:
        looks = _Looks(models, server, tell, ended.set)
        ended.wait()
        has_started = looks.stop()
        if ended.number == signal.SIGTERM and has_started:
            server.leave()
            _log.info("SIGTERM: the server accepts requests for %g more seconds", _LEAVING_SECS)
            ended.clear()
            ended.wait(_LEAVING_SECS)
    looks.end()


@contextmanager
def running(program: Program, serving: Serving) -> Iterator[tuple[Server, Any]]:
    """Starts the servers of a config, after two polls of their models.

    Yields the servers and the models. The caller then calls `poll`. At the end, the server answers
    open requests and closes all versions.
    """
    models = _models(program, serving)
    with _bound(serving, models) as server:
        _look_twice(models, wait=lambda seconds: False)
        server.start()
        yield server, models


@contextmanager
def _bound(serving: Serving, models: Any) -> Iterator[Server]:
    """The servers with bound ports. At the end, stops them and closes the models."""
    server = Server(serving, models)
    try:
        yield server
    finally:
        server.stop()
        models.close()


def _look_twice(models: Any, wait: Callable[[float], bool]) -> None:
    """Loads versions. The second look sees whether the files of a version are still changing.

    Args:
      models: what is served.
      wait: waits some seconds; true leaves out the second look.
    """
    models.poll()
    if not wait(_LOOK_SECS):
        models.poll()


class _Looks:
    """A thread that looks for versions and loads them. After two looks it starts the server.

    Args:
      models, server: what it serves.
      tell: gets the line with the addresses when the server has started.
      failed: called if the thread ends with an error, which `end` raises.
    """

    def __init__(
        self,
        models: Any,
        server: Server,
        tell: Callable[[str], None],
        failed: Callable[[], None],
    ):
        self._models, self._server = models, server
        self._tell, self._failed = tell, failed
        self._error: Optional[BaseException] = None
        self._stopped = threading.Event()
        self._has_started = False
        self._starting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="versions", daemon=True)
        self._thread.start()

    def stop(self) -> bool:
        """Makes this look the last one; returns whether the server has started."""
        with self._starting:
            self._stopped.set()
            return self._has_started

    def end(self) -> None:
        """Raises the error of the thread. Does not wait for a load that blocks."""
        self._thread.join(_LAST_LOOK)
        if self._thread.is_alive():
            LEFT.append(self._thread)
            _log.warning("the server ended while a version was still loading")
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            _look_twice(self._models, wait=self._stopped.wait)
            with self._starting:
                if self._stopped.is_set():
                    return
                self._server.start()
                self._has_started = True
            grpc_address, rest_address = self._server.addresses
            self._tell(f"serve: grpc {grpc_address} rest {rest_address}")
            while not self._stopped.wait(_LOOK_SECS):
                self._models.poll()
        except BaseException as error:
            self._error = error
            self._failed()


class Server:
    """A gRPC and a REST server for the same models. Both ports are bound at once.

    Attributes:
      addresses: `host:port` of gRPC and `http://host:port` of REST.
    """

    def __init__(self, serving: Serving, models: Any):
        from estimator_kit.serving.grpc_server import GrpcServer
        from estimator_kit.serving.request_log import of_settings
        from estimator_kit.serving.rest_server import RestApp, RestServer

        host = serving.serving_host
        limits = {
            "threads": _THREADS,
            "max_bytes": _MOST_BYTES,
            "connections": most_connections(),
        }
        self._models = models
        self._log = of_settings(serving)
        sock = bound_socket(host, serving.serving_rest_port, flag="--serving_rest_port")
        place = address_of_socket(sock)
        address = with_port(place, serving.serving_grpc_port)
        try:
            self._grpc = GrpcServer(models, address=address, log=self._log, **limits)
        except RuntimeError as error:
            sock.close()
            raise ConfigError(
                f"--serving_grpc_port={serving.serving_grpc_port}: {host} cannot be bound: {error}"
            ) from error
        name = host if ipaddress.ip_address(place.partition("%")[0]).is_loopback else None
        app = RestApp(models, limits["max_bytes"], only_as=name, log=self._log)
        self._rest = RestServer(app, sock, **limits)
        rest = with_port(host, sock.getsockname()[1])
        self.addresses = (with_port(host, self._grpc.port), f"http://{rest}")

    def start(self) -> None:
        """Starts both servers.

        Raises:
          ConfigError: requests shall be logged, and a version does not say what is private.
        """
        if self._log is not None:
            self._log.check(self._models)
            self._log.start()
        self._grpc.start()
        self._rest.start()

    def leave(self) -> None:
        """Tells gRPC's health service that this server will stop. The server still answers."""
        self._grpc.leave()

    def stop(self) -> None:
        """Refuses new requests, and returns when the open ones are answered."""
        stopped = self._grpc.stop(_GRACE)
        self._rest.stop(_GRACE)
        stopped.wait(_GRACE)
        if self._log is not None:
            self._log.close()


def most_connections() -> int:
    """The most open connections of each of the two servers, by the limit of open files.

    Models and the log need open files too. Without a free one, a server accepts no connection.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return min(max((files - _OTHER_FILES) // 2, 16), _MOST_CONNECTIONS)


def _models(program: Program, serving: Serving) -> Any:
    """The models of a config. Does not load them yet."""
    try:
        import grpc_health.v1.health_pb2_grpc  # noqa: F401
        import grpc_reflection.v1alpha.reflection  # noqa: F401
        import orjson  # noqa: F401
        import tensorflow_serving.apis.prediction_service_pb2_grpc  # noqa: F401
        import waitress  # noqa: F401
    except ImportError as error:
        raise MissingPackageError(
            f"--mode=serve needs the package {error.name}. Install it with "
            "`pip install 'estimator-kit[serving]'`."
        ) from error
    from estimator_kit.serving import private_features
    from estimator_kit.serving.live_versions import Models
    from estimator_kit.serving.loaded_model import LoadedModel

    served = served_models(serving)
    for model in served:
        if not os.path.isdir(model.path) and "://" not in model.path:
            raise ConfigError(
                f"--serving_models: {model.name}={model.path}: the folder does not exist"
            )

    is_logged = serving.serving_log_dir is not None

    def load(path: str, version: int) -> LoadedModel:
        return LoadedModel(
            path,
            version,
            threads=program.threads,
            longest_run_secs=_LONGEST_RUN,
            private=private_features.of_export(path) if is_logged else None,
        )

    return Models(served, load)
