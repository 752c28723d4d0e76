"""The client for the gRPC services PredictionService and ModelService."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np

from . import messages, tensors
from .base import Classes, Client, Target
from .connections import ServingError
from .tensors import Metadata

_SERVICE = "/tensorflow.serving.PredictionService/"
_STATES = {0: "UNKNOWN", 10: "START", 20: "LOADING", 30: "AVAILABLE", 40: "UNLOADING", 50: "END"}


class GrpcClient(Client):
    """A model on a gRPC server.

    The variable `http_proxy` of the environment has no effect, as with RestClient.

    Args:
      address: `host:port`.
      model: the name of the model on the server.
      channel: a `grpc.Channel` to use instead of an insecure one, for example for TLS or a proxy.
        The client does not close it.
      options: see `Client`.
    """

    def __init__(self, address: str, model: str, *, channel: Any = None, **options: Any):
        super().__init__(model, **options)
        import grpc

        self._own = channel is None
        # The size of an answer follows from the request, and the server limits requests.
        chosen = [("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0)]
        self._channel = channel or grpc.insecure_channel(address, options=chosen)
        self._rpc_error = grpc.RpcError
        self._methods: dict[str, Any] = {}

    _answers_say_their_version = True

    def metadata(self) -> Metadata:
        request = self._request("GetModelMetadataRequest", "")
        request.metadata_field.append("signature_def")
        response = self._call("GetModelMetadata", "GetModelMetadataResponse", request)
        signatures = messages.message("tensorflow.serving.SignatureDefMap")()
        signatures.ParseFromString(response.metadata["signature_def"].value)
        self._metadata = Metadata(
            response.model_spec.version.value,
            {
                name: tensors.signature_of_message(s)
                for name, s in sorted(signatures.signature_def.items())
            },
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

    def _predict(
        self, arrays: Mapping[str, np.ndarray], target: Target
    ) -> tuple[Optional[int], dict[str, np.ndarray]]:
        request = self._request("PredictRequest", target.signature, target.version)
        for name, array in arrays.items():
            tensors.fill(request.inputs[name], array)
        response = self._call("Predict", "PredictResponse", request)
        outputs = {n: tensors.to_array(proto) for n, proto in sorted(response.outputs.items())}
        return _version_of(response), outputs

    def _classify(self, examples: list[Any], target: Target) -> tuple[Optional[int], Classes]:
        request = self._request("ClassificationRequest", target.signature, target.version)
        request.input.example_list.examples.extend(examples)
        response = self._call("Classify", "ClassificationResponse", request)
        rows = [row.classes for row in response.result.classifications]
        labels = np.array([[c.label.encode() for c in row] for row in rows], np.object_)
        scores = np.array([[c.score for c in row] for row in rows], np.float32)
        return _version_of(response), Classes(labels, scores)

    def _regress(self, examples: list[Any], target: Target) -> tuple[Optional[int], np.ndarray]:
        request = self._request("RegressionRequest", target.signature, target.version)
        request.input.example_list.examples.extend(examples)
        response = self._call("Regress", "RegressionResponse", request)
        values = [row.value for row in response.result.regressions]
        return _version_of(response), np.array(values, np.float32)

    def _request(self, kind: str, signature: str, version: Optional[int] = None) -> Any:
        request = messages.message(f"tensorflow.serving.{kind}")()
        request.model_spec.name = self._model
        request.model_spec.signature_name = signature
        version = self._version if version is None else version
        if version is not None:
            request.model_spec.version.value = version
        elif self._label is not None:
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


def _version_of(response: Any) -> Optional[int]:
    """The version that answered, if the server says it, as TensorFlow Serving does."""
    spec = response.model_spec
    return spec.version.value if spec.HasField("version") else None
