"""The gRPC services PredictionService and ModelService, with the official stubs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Optional

import grpc
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from estimator_kit.client import tensors
from estimator_kit.client.signatures import DEFAULT_SIGNATURE
from estimator_kit.serving import answers
from estimator_kit.serving.errors import RequestError, check_names, invalid, shortened
from estimator_kit.serving.versions import Models, State

_log = logging.getLogger("estimator_kit")

_SIGNATURE_DEF = "signature_def"


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers requests with the live models.

    Args:
      models: the models of the server.
      max_bytes: the most bytes of an array of a request.
    """

    def __init__(self, models: Models, max_bytes: int):
        self._models = models
        self._max_bytes = max_bytes

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
        for name, array in outputs.items():
            _fill_output(response.outputs[name], name, array)
        return response

    def _classify(self, request: Any) -> Any:
        with _leased(self._models, request) as model:
            labels, scores = answers.classify_message(model, request)
            response = classification_pb2.ClassificationResponse()
            _fill_spec(response.model_spec, request, model.version)
        result = response.result
        for row in range(len(labels if labels is not None else scores)):  # type: ignore[arg-type]
            found = result.classifications.add().classes
            width = (labels if labels is not None else scores)[row]  # type: ignore[index]
            for column in range(len(width)):
                added = found.add()
                if labels is not None:
                    added.label = labels[row, column].decode("utf-8", "replace")
                if scores is not None:
                    added.score = scores[row, column]
        return response

    def _regress(self, request: Any) -> Any:
        with _leased(self._models, request) as model:
            values = answers.regress_message(model, request)
            response = regression_pb2.RegressionResponse()
            _fill_spec(response.model_spec, request, model.version)
        for value in values.tolist():
            response.result.regressions.add().value = value
        return response

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


def _fill_output(proto: Any, name: str, array: Any) -> None:
    try:
        tensors.fill_fields(proto, array)
    except ValueError as error:
        raise RequestError("UNIMPLEMENTED", f"output {name}: {error}") from error


def signature_map(model: Any) -> Any:
    """The `SignatureDefMap` of a loaded model."""
    found = get_model_metadata_pb2.SignatureDefMap()
    for name, signature in model.signatures.items():
        found.signature_def[name].CopyFrom(signature)
    return found


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
    spec.name = request.model_spec.name
    spec.signature_name = request.model_spec.signature_name or DEFAULT_SIGNATURE
    spec.version.value = version
