"""The gRPC server: predictions, states of models, health, and reflection.

Reflection lists the services and describes their messages, for tools such as grpcurl. The health
service is in `health`, the services of TensorFlow Serving are in `grpc_service`.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from estimator_kit.serving.grpc_service import ModelService, PredictionService
from estimator_kit.serving.health import Health
from estimator_kit.serving.lasting_calls import LastingCalls
from estimator_kit.serving.versions import Models

# Reflection calls that are answered at the same time.
_REFLECTIONS = 4

# Seconds for a new connection to begin to speak HTTP/2, and that one without calls stays open.
_HANDSHAKE_SECS, _IDLE_SECS = 10.0, 120.0


def _full_name(service: str, module: str) -> str:
    """Imports a service of TensorFlow Serving, and returns its full name.

    Reflection describes only services that are imported. Before 2.21, a module of
    tensorflow-serving-api registers its service and then raises AttributeError: it sets
    `DESCRIPTOR.has_options`, which is read-only since protobuf 4.
    """
    with contextlib.suppress(AttributeError):
        importlib.import_module(f"tensorflow_serving.apis.{module}")
    pool = descriptor_pool.Default()
    return str(pool.FindServiceByName(f"tensorflow.serving.{service}").full_name)


# Reflection lists and describes these services.
_SERVICES = (
    _full_name("PredictionService", "prediction_service_pb2"),
    _full_name("ModelService", "model_service_pb2"),
    health_pb2.DESCRIPTOR.services_by_name["Health"].full_name,
    reflection.SERVICE_NAME,
)


class GrpcServer:
    """A gRPC server of models. Its port is bound at once.

    Args:
      models: the models.
      address: `host:port`; port 0 is any free port.
      threads: the number of requests that are answered at the same time. Health and reflection
        have separate threads.
      waiting: the most requests that wait for a thread; further requests get RESOURCE_EXHAUSTED.
      max_bytes: the most bytes of a message, and of an array of a request.
      connections: the most open connections. gRPC closes further ones at once.

    Attributes:
      port: the bound port.

    Raises:
      RuntimeError: the port cannot be bound.
    """

    def __init__(
        self,
        models: Models,
        *,
        address: str,
        threads: int,
        waiting: int,
        max_bytes: int,
        connections: int = 800,
    ):
        logging.getLogger("grpc._common").addFilter(_in_one_line)
        self._server = grpc.server(
            futures.ThreadPoolExecutor(threads, thread_name_prefix="grpc"),
            maximum_concurrent_rpcs=threads + waiting,
            options=[
                ("grpc.max_receive_message_length", max_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),  # A port in use is an error.
                ("grpc.max_allowed_incoming_connections", connections),
                ("grpc.server_handshake_timeout_ms", int(1000 * _HANDSHAKE_SECS)),
                ("grpc.max_connection_idle_ms", int(1000 * _IDLE_SECS)),
            ],
        )
        self._health = Health(models)
        self._reflection = _Reflection()
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            PredictionService(models, max_bytes), self._server
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelService(models), self._server
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(self._reflection, self._server)
        self.port = self._server.add_insecure_port(address)
        if not self.port:
            raise RuntimeError(f"{address} cannot be bound")

    def start(self) -> None:
        self._server.start()

    def leave(self) -> None:
        """Tells the health service that the server will stop. The server still answers."""
        self._health.leave()

    def stop(self, grace: float) -> threading.Event:
        """Refuses new requests, and gives open requests `grace` seconds.

        Returns:
          An event that is set when all requests are answered.
        """
        self.leave()
        stopped = self._server.stop(grace)
        self._health.end()
        self._reflection.end()
        return stopped


class _Reflection(reflection.ReflectionServicer):
    """The service grpc.reflection.v1alpha.ServerReflection."""

    def __init__(self) -> None:
        super().__init__(_SERVICES)
        self._calls = LastingCalls("reflection", _REFLECTIONS)
        self.ServerReflectionInfo = self._calls.method(self._info)
        self.end = self._calls.end

    def _info(self, requests: Any, context: Any) -> Iterator[Any]:
        self._calls.add(context)
        yield from super().ServerReflectionInfo(requests, context)


def _in_one_line(record: logging.LogRecord) -> bool:
    """A log filter. If a client sends an invalid message, grpcio logs a stack; this drops it."""
    if record.exc_info:
        kind, error, _ = record.exc_info
        record.msg = f"{record.getMessage()} {kind.__name__ if kind else ''}: {error}"
        record.args, record.exc_info = (), None
    return True
