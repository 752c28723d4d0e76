"""The gRPC server: predictions, states of models, health, and reflection.

`PredictionService` and `ModelService` answer with TensorFlow Serving's official messages. The
health service is in `health`. Reflection lists the services and describes their messages, for tools
such as grpcurl.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any, Optional

import grpc
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from estimator_kit.serving import answers, filled_messages
from estimator_kit.serving.errors import RequestError, check_names, invalid, shortened
from estimator_kit.serving.health import Health
from estimator_kit.serving.live_versions import Models, State
from estimator_kit.serving.loaded_model import LoadedModel
from estimator_kit.serving.request_log import Entry, RequestLog

_log = logging.getLogger("estimator_kit")

_SIGNATURE_DEF = "signature_def"


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers requests with the live models.

    Args:
      models: the models of the server.
      max_bytes: the most bytes of an array of a request.
      log: gets the answered requests.
    """

    def __init__(self, models: Models, max_bytes: int, log: Optional[RequestLog] = None):
        self._models = models
        self._max_bytes = max_bytes
        self._log = log

    def Predict(self, request: Any, context: Any) -> Any:  # noqa: N802
        return _answered(self._predict, request, context)

    def Classify(self, request: Any, context: Any) -> Any:  # noqa: N802
        return _answered(self._classify, request, context)

    def Regress(self, request: Any, context: Any) -> Any:  # noqa: N802
        return _answered(self._regress, request, context)

    def GetModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        return _answered(self._metadata, request, context)

    def MultiInference(self, request: Any, context: Any) -> Any:  # noqa: N802
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "MultiInference is not served here")

    def PredictStreamed(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "PredictStreamed is not served here")

    def _predict(self, request: Any) -> Any:
        with _leased(self._models, request) as model:
            outputs = answers.predict_message(model, request, self._max_bytes)
            response = predict_pb2.PredictResponse()
            _fill_spec(response.model_spec, request, model.version)
        filled_messages.fill_predict(response, outputs)
        self._add_to_log("predict", model, request, response)
        return response

    def _classify(self, request: Any) -> Any:
        with _leased(self._models, request) as model:
            labels, scores = answers.classify_message(model, request)
            response = classification_pb2.ClassificationResponse()
            _fill_spec(response.model_spec, request, model.version)
        filled_messages.fill_classify(response, labels, scores)
        self._add_to_log("classify", model, request, response)
        return response

    def _regress(self, request: Any) -> Any:
        with _leased(self._models, request) as model:
            values = answers.regress_message(model, request)
            response = regression_pb2.RegressionResponse()
            _fill_spec(response.model_spec, request, model.version)
        filled_messages.fill_regress(response, values)
        self._add_to_log("regress", model, request, response)
        return response

    def _add_to_log(self, method: str, model: LoadedModel, request: Any, response: Any) -> None:
        spec = request.model_spec
        if self._log is None or not self._log.takes(spec.name, model):
            return
        # Bytes, because no other thread should read the messages.
        asked, answered = request.SerializeToString(), response.SerializeToString()
        self._log.add(
            Entry(
                method,
                spec.name,
                model,
                spec.signature_name,
                len(asked) + len(answered),
                fill_request=lambda message: message.ParseFromString(asked),
                fill_response=lambda message: message.ParseFromString(answered),
            )
        )

    def _metadata(self, request: Any) -> Any:
        _check_spec(request)
        check_names("metadata_field", request.metadata_field, [_SIGNATURE_DEF])
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        with _leased(self._models, request) as model:
            response.model_spec.name = request.model_spec.name
            response.model_spec.version.value = model.version
            response.metadata[_SIGNATURE_DEF].Pack(signature_map(model))
        return response


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Reports the versions of models."""

    def __init__(self, models: Models):
        self._models = models

    def GetModelStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        return _answered(self._status, request, context)

    def HandleReloadConfigRequest(self, request: Any, context: Any) -> Any:  # noqa: N802
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "--serving_models decides the models")

    def _status(self, request: Any) -> Any:
        _check_spec(request)
        name, version, label = _asked(request)
        return status_message(self._models.states(name, version, label))


def signature_map(model: Any) -> Any:
    """The `SignatureDefMap` of a loaded model."""
    signatures = get_model_metadata_pb2.SignatureDefMap()
    for name, signature in model.signatures.items():
        signatures.signature_def[name].CopyFrom(signature)
    return signatures


def status_message(states: dict[int, State]) -> Any:
    """The `GetModelStatusResponse` of the states of versions."""
    response = get_model_status_pb2.GetModelStatusResponse()
    for version, state in states.items():
        entry = response.model_version_status.add()
        entry.version = version
        entry.state = get_model_status_pb2.ModelVersionStatus.State.Value(state.name)
        entry.status.error_code = 2 if state.error else 0  # UNKNOWN, OK
        entry.status.error_message = state.error
    return response


def _answered(answer: Callable[[Any], Any], request: Any, context: Any) -> Any:
    try:
        return answer(request)
    except RequestError as error:
        context.abort(grpc.StatusCode[error.code], shortened(error.message))
    except Exception as error:  # A bug of the server or of TensorFlow; the server goes on.
        _log.exception("a request failed")
        message = f"{type(error).__name__}: {error}"
        context.abort(grpc.StatusCode.INTERNAL, shortened(message))


def _check_spec(request: Any) -> None:
    if not request.HasField("model_spec"):
        raise invalid("the request has no model_spec")


def _asked(request: Any) -> tuple[str, Optional[int], Optional[str]]:
    spec = request.model_spec
    choice = spec.WhichOneof("version_choice")
    version = spec.version.value if choice == "version" else None
    return spec.name, version, spec.version_label if choice == "version_label" else None


def _leased(models: Models, request: Any) -> Any:
    _check_spec(request)
    return models.lease(*_asked(request))


def _fill_spec(spec: Any, request: Any, version: int) -> None:
    asked = request.model_spec
    filled_messages.fill_spec(spec, asked.name, asked.signature_name, version)


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
      log: gets the answered requests.

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
        max_bytes: int,
        connections: int,
        log: Optional[RequestLog] = None,
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
            PredictionService(models, max_bytes, log), self._server
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
        result: threading.Event = self._server.stop(grace)
        return result
