"""The gRPC server: predictions, states of models, health, and reflection.

Reflection lists the services and describes their messages, for tools such as grpcurl. The health
service is in `health`, the services of TensorFlow Serving are in `grpc_service`.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from concurrent import futures

import grpc
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from estimator_kit.serving.grpc_service import ModelService, PredictionService
from estimator_kit.serving.health import Health
from estimator_kit.serving.versions import Models

# The most requests that wait for each thread. The server refuses further requests.
_WAITING = 16


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
      threads: the number of requests that are answered at the same time. If 16 times as many wait,
        further requests get RESOURCE_EXHAUSTED.
      max_bytes: the most bytes of a message, and of an array of a request.
      connections: the most open connections. gRPC closes further ones at once.

    Attributes:
      port: the bound port.

    Raises:
      RuntimeError: the port cannot be bound.
    """

    def __init__(
        self, models: Models, *, address: str, threads: int, max_bytes: int, connections: int
    ):
        self._server = grpc.server(
            futures.ThreadPoolExecutor(threads, thread_name_prefix="grpc"),
            maximum_concurrent_rpcs=threads + _WAITING * threads,
            options=[
                ("grpc.max_receive_message_length", max_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),  # A port in use is an error.
                ("grpc.max_allowed_incoming_connections", connections),
            ],
        )
        self._health = Health(models)
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            PredictionService(models, max_bytes), self._server
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            ModelService(models), self._server
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(_SERVICES, self._server)
        self.port = self._server.add_insecure_port(address)
        if not self.port:
            raise RuntimeError(f"{address} cannot be bound")

    def start(self) -> None:
        self._server.start()

    def leave(self) -> None:
        """Tells the health service that the server will stop. The server still answers."""
        self._health.leave()

    def stop(self, grace: float) -> threading.Event:
        """Refuses new requests, and gives open calls `grace` seconds.

        Returns:
          An event that is set when all calls have ended.
        """
        self.leave()
        self._health.end()
        return self._server.stop(grace)
