"""The gRPC server: predictions, states of models, health, and reflection.

Reflection lists the services that are there and describes their messages, for tools such as
grpcurl. Health is in `health`, the services of TensorFlow Serving in `grpc_service`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from tensorflow_serving.apis import (
    model_service_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2,
    prediction_service_pb2_grpc,
)

from estimator_kit.serving.grpc_service import ModelService, PredictionService
from estimator_kit.serving.health import Health
from estimator_kit.serving.lasting_calls import LastingCalls
from estimator_kit.serving.versions import Models

# Calls of reflection that are answered at the same time.
_REFLECTIONS = 4

# Of the official messages, which have to be imported to be described.
_SERVICES = (
    prediction_service_pb2.DESCRIPTOR.services_by_name["PredictionService"].full_name,
    model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name,
    health_pb2.DESCRIPTOR.services_by_name["Health"].full_name,
    reflection.SERVICE_NAME,
)


class GrpcServer:
    """A gRPC server of models, bound when made.

    Args:
      models: of the server.
      address: `host:port`; the port 0 is any that is free.
      threads: requests that are worked on at the same time. Health and reflection have threads of
        their own.
      waiting: requests that may wait for a thread; others get RESOURCE_EXHAUSTED.
      max_bytes: of a message, and that an array of a request may take.

    Attributes:
      port: that it is bound to.

    Raises:
      RuntimeError: the port cannot be bound.
    """

    def __init__(self, models: Models, *, address: str, threads: int, waiting: int, max_bytes: int):
        logging.getLogger("grpc._common").addFilter(_in_one_line)
        self._server = grpc.server(
            futures.ThreadPoolExecutor(threads, thread_name_prefix="grpc"),
            maximum_concurrent_rpcs=threads + waiting,
            options=[
                ("grpc.max_receive_message_length", max_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),  # A port that is taken is an error.
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
        """Says by the health service that it will stop; it goes on answering."""
        self._health.leave()

    def stop(self, grace: float) -> threading.Event:
        """Takes no more requests, and gives those under way so many seconds.

        Returns:
          An event that is set when all are answered.
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
    """Of bytes of a client that are no message, grpcio logs the stack of its own parser."""
    if record.exc_info:
        kind, error, _ = record.exc_info
        record.msg = f"{record.getMessage()} {kind.__name__ if kind else ''}: {error}"
        record.args, record.exc_info = (), None
    return True
