"""The client for the gRPC services PredictionService and ModelService."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import messages, signatures, tensors
from .base import Classes, Client
from .errors import ServingError
from .signatures import Metadata

_SERVICE = "/tensorflow.serving.PredictionService/"
_STATES = {0: "UNKNOWN", 10: "START", 20: "LOADING", 30: "AVAILABLE", 40: "UNLOADING", 50: "END"}


class GrpcClient(Client):
    """A model on a gRPC server.

    Args:
      address: `host:port`.
      model: the name of the model on the server.
      channel: a `grpc.Channel` to use instead of an insecure one, for example for TLS. The client
        does not close it.
      options: see `Client`.
    """

    def __init__(self, address: str, model: str, *, channel: Any = None, **options: Any):
        super().__init__(model, **options)
        import grpc

        self._own = channel is None
        # The size of an answer follows from the request, and the server limits requests.
        unlimited = [("grpc.max_receive_message_length", -1)]
        self._channel = channel or grpc.insecure_channel(address, options=unlimited)
        self._rpc_error = grpc.RpcError
        self._methods: dict[str, Any] = {}

    def metadata(self) -> Metadata:
        request = self._request("GetModelMetadataRequest", "")
        request.metadata_field.append("signature_def")
        response = self._call("GetModelMetadata", "GetModelMetadataResponse", request)
        made = messages.message("tensorflow.serving.SignatureDefMap")()
        made.ParseFromString(response.metadata["signature_def"].value)
        self._metadata = Metadata(
            response.model_spec.version.value,
            {name: signatures.of_message(s) for name, s in sorted(made.signature_def.items())},
        )
        return self._metadata

    def status(self) -> dict[int, str]:
        request = self._request("GetModelStatusRequest", "")
        response = self._call(
            "GetModelStatus",
            "GetModelStatusResponse",
            request,
            service="/tensorflow.serving.ModelService/",
        )
        return {
            entry.version: _STATES.get(entry.state, str(entry.state))
            for entry in response.model_version_status
        }

    def close(self) -> None:
        if self._own:
            self._channel.close()

    def _predict(self, arrays: Mapping[str, np.ndarray], signature: str) -> dict[str, np.ndarray]:
        request = self._request("PredictRequest", signature)
        for name, array in arrays.items():
            tensors.fill(request.inputs[name], array)
        response = self._call("Predict", "PredictResponse", request)
        return {name: tensors.to_array(proto) for name, proto in sorted(response.outputs.items())}

    def _classify(self, examples: list[Any], signature: str) -> Classes:
        request = self._request("ClassificationRequest", signature)
        request.input.example_list.examples.extend(examples)
        result = self._call("Classify", "ClassificationResponse", request).result
        rows = [row.classes for row in result.classifications]
        labels = np.array([[c.label.encode() for c in row] for row in rows], np.object_)
        return Classes(labels, np.array([[c.score for c in row] for row in rows], np.float32))

    def _regress(self, examples: list[Any], signature: str) -> np.ndarray:
        request = self._request("RegressionRequest", signature)
        request.input.example_list.examples.extend(examples)
        result = self._call("Regress", "RegressionResponse", request).result
        return np.array([row.value for row in result.regressions], np.float32)

    def _request(self, kind: str, signature: str) -> Any:
        request = messages.message(f"tensorflow.serving.{kind}")()
        request.model_spec.name = self._model
        request.model_spec.signature_name = signature
        if self._version is not None:
            request.model_spec.version.value = self._version
        if self._label is not None:
            request.model_spec.version_label = self._label
        return request

    def _call(self, method: str, answer: str, request: Any, service: str = _SERVICE) -> Any:
        if method not in self._methods:
            self._methods[method] = self._channel.unary_unary(
                service + method,
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=messages.message(f"tensorflow.serving.{answer}").FromString,
            )
        ask = self._methods[method]

        def attempt(seconds: float) -> Any:
            try:
                return ask(request, timeout=seconds)
            except self._rpc_error as error:
                raise ServingError(error.code().name, error.details() or "") from error

        return self._retries.call(attempt)
