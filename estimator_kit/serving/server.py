"""`--mode=serve`: gRPC and REST on loopback, for development and small loads.

The server prints one line with both addresses, polls the folders of versions, and runs until
SIGTERM or Ctrl-C. Then it answers the open requests and exits with status 0. After SIGTERM it still
accepts requests for some seconds, while gRPC's health service says NOT_SERVING. It has no
authentication and no encryption.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.rules.serving import served_models
from estimator_kit.errors import ConfigError
from estimator_kit.signals import until_signalled
from input_pipelines.errors import MissingPackageError

_log = logging.getLogger("estimator_kit")

# Seconds that open requests have when the server stops.
_GRACE = 30.0

# Seconds that a model has for a request. After that the answer is DEADLINE_EXCEEDED.
_LONGEST_RUN = 60.0

# The most requests that wait for each thread. The server refuses further requests.
_WAITING = 16


def serve(config: ExperimentConfig, tell: Callable[[str], None]) -> None:
    """Runs both servers until a signal ends them; tells their addresses.

    Raises:
      ConfigError: a folder does not exist, or a port cannot be bound.
      MissingPackageError: the extra `serving` is not installed.
    """
    with until_signalled() as ended, running(config) as (server, models):
        grpc_address, rest_address = server.addresses
        tell(f"serve: grpc {grpc_address} rest {rest_address}")
        while not ended.wait(config.serving_poll_secs):
            models.poll()
        if ended.number == signal.SIGTERM and config.serving_lame_duck_secs:
            server.leave()
            _log.info(
                "SIGTERM: the server accepts requests for %g more seconds",
                config.serving_lame_duck_secs,
            )
            ended.clear()
            ended.wait(config.serving_lame_duck_secs)


@contextmanager
def running(config: ExperimentConfig) -> Iterator[tuple[Server, Any]]:
    """Starts the servers of a config, after two polls of their models.

    Yields the servers and the models. The caller then calls `poll`. At the end, the server answers
    open requests and closes all versions.
    """
    models = _models(config)
    server = Server(config, models)
    try:
        models.poll()
        # The second poll sees whether the files of a version are still changing.
        time.sleep(min(config.serving_poll_secs, 1.0))
        models.poll()
        server.start()
        yield server, models
    finally:
        server.stop()
        models.close()


class Server:
    """A gRPC and a REST server for the same models. Both ports are bound at once.

    Attributes:
      addresses: `host:port` of gRPC and `http://host:port` of REST.
    """

    def __init__(self, config: ExperimentConfig, models: Any):
        from estimator_kit.serving.grpc_server import GrpcServer
        from estimator_kit.serving.rest_app import RestApp
        from estimator_kit.serving.rest_server import RestServer

        host = config.serving_host
        limits = {
            "threads": config.serving_threads,
            "waiting": _WAITING * config.serving_threads,
            "max_bytes": config.serving_max_request_mib * 2**20,
        }
        shown = f"[{host}]" if ":" in host else host
        sock = _bound(host, config.serving_rest_port)
        try:
            self._grpc = GrpcServer(models, address=f"{shown}:{config.serving_grpc_port}", **limits)
        except RuntimeError as error:
            sock.close()
            raise ConfigError(
                f"--serving_grpc_port={config.serving_grpc_port}: {host} cannot be bound: {error}"
            ) from error
        hosts = (host, *config.serving_allowed_hosts)
        self._rest = RestServer(RestApp(models, limits["max_bytes"], hosts), sock, **limits)
        self.addresses = (f"{shown}:{self._grpc.port}", f"http://{shown}:{sock.getsockname()[1]}")

    def start(self) -> None:
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


def _models(config: ExperimentConfig) -> Any:
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
    from estimator_kit.serving.loaded_model import LoadedModel
    from estimator_kit.serving.versions import Models

    served = served_models(config)
    for model in served:
        if not os.path.isdir(model.path) and "://" not in model.path:
            raise ConfigError(
                f"--serving_models: {model.name}={model.path}: the folder does not exist"
            )

    def load(path: str, version: int) -> LoadedModel:
        return LoadedModel(
            path,
            version,
            intra_op_threads=config.intra_op_threads,
            inter_op_threads=config.inter_op_threads,
            longest_run_secs=_LONGEST_RUN,
        )

    return Models(served, load)


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
        except OSError:
            sock.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"--serving_rest_port={port}: {host} cannot be bound: {error.strerror or error}"
        ) from error
    return sock
