"""`--mode=serve`: gRPC and REST on loopback, for development and small loads.

It prints one line with both addresses, looks at the folders of versions again and again, and runs
until SIGTERM or Ctrl-C, which end it with exit status 0 after the requests under way are answered.
After SIGTERM new requests are taken for some seconds more, in which gRPC's health service says
NOT_SERVING. There is no authentication and no encryption.
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

# Seconds that requests under way have at the end.
_GRACE = 30.0

# Seconds that a model has for a request; then it is answered with DEADLINE_EXCEEDED.
_LONGEST_RUN = 60.0

# Requests that wait for each thread, at most; others are refused.
_WAITING = 16


def serve(config: ExperimentConfig, tell: Callable[[str], None]) -> None:
    """Runs both servers until a signal ends them; tells their addresses.

    Raises:
      ConfigError: a folder is not there, or a port cannot be bound.
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
                "SIGTERM: requests are taken for %g seconds more", config.serving_lame_duck_secs
            )
            ended.clear()
            ended.wait(config.serving_lame_duck_secs)


@contextmanager
def running(config: ExperimentConfig) -> Iterator[tuple[Server, Any]]:
    """The servers of a config, and their models, which were looked at twice.

    From then on `poll` is the caller's. At the end, requests under way are answered and versions
    let go.
    """
    models = _models(config)
    server = Server(config, models)
    try:
        models.poll()
        # A version whose files are still changing is not taken; this tells.
        time.sleep(min(config.serving_poll_secs, 1.0))
        models.poll()
        server.start()
        yield server, models
    finally:
        server.stop()
        models.close()


class Server:
    """A gRPC and a REST server of the same models; bound when made.

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
        """Tells gRPC's health service that this server will stop; it goes on answering."""
        self._grpc.leave()

    def stop(self) -> None:
        """Takes no more requests, and returns when those under way are answered."""
        stopped = self._grpc.stop(_GRACE)
        self._rest.stop(_GRACE)
        stopped.wait(_GRACE)


def _models(config: ExperimentConfig) -> Any:
    """The models of a config; nothing is loaded yet."""
    try:
        import grpc_health.v1.health_pb2_grpc  # noqa: F401
        import grpc_reflection.v1alpha.reflection  # noqa: F401
        import tensorflow_serving.apis.prediction_service_pb2_grpc  # noqa: F401
        import waitress  # noqa: F401
    except ImportError as error:
        raise MissingPackageError(
            f"--mode=serve needs {error.name}: pip install estimator-kit[serving]"
        ) from error
    from estimator_kit.serving.loaded_model import LoadedModel
    from estimator_kit.serving.versions import Models

    served = served_models(config)
    for model in served:
        if not os.path.isdir(model.path) and "://" not in model.path:
            raise ConfigError(
                f"--serving_models: {model.name}={model.path}: there is no such folder"
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
