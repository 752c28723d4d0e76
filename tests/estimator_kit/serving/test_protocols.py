"""gRPC with the official stubs, and REST with plain requests: answers, and errors with codes."""

from __future__ import annotations

import base64
import itertools
import json
import urllib.error
import urllib.request
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from estimator_kit.client import GrpcClient, RestClient, RowError, ServingError
from estimator_kit.serving import answers
from estimator_kit.serving.errors import RequestError
from input_pipelines.transform.checks import PREFIX
from tests.estimator_kit.serving.small_models import example, serving, write_version


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ads")
    for version in (2, 3):
        write_version(folder, version)
    with serving(folder, serving_versions=("ads=all",), serving_labels=("ads:stable=2",
                 "ads:lost=9")) as made:  # fmt: skip
        yield made


@pytest.fixture(scope="module")
def stub(server):
    with grpc.insecure_channel(server[0]) as channel:
        yield prediction_service_pb2_grpc.PredictionServiceStub(channel)


@pytest.fixture(scope="module")
def post(server):
    """Sends a body to a path; returns status and JSON."""

    def send(path, body=None, headers=()):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(server[1] + path, data, dict(headers))
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            with error:
                text = error.read()
            is_json = error.headers["Content-Type"] == "application/json"
            return error.code, json.loads(text) if is_json else text.decode()

    return send


X = [[1.0, 2.0], [0.1, -4.0]]
NAMES = [b"a", b"\xff\x00"]


def predict_request(name="ads", signature="", version=None, label=None, **inputs):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    if label is not None:
        request.model_spec.version_label = label
    for key, value in inputs.items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
    return request


def examples_request(kind, name="ads", signature="", values=(1.5, -2.0)):
    request = kind()
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    request.input.example_list.examples.extend(example(v=value) for value in values)
    return request


# --- Answers -------------------------------------------------------------------------------------


def test_predict_by_grpc(stub):
    response = stub.Predict(named(X))
    assert response.model_spec.name == "ads"
    assert response.model_spec.version.value == 3
    assert response.model_spec.signature_name == "serving_default"
    np.testing.assert_array_equal(
        tf.make_ndarray(response.outputs["y"]), np.float32(X) * np.float32(3)
    )
    assert tf.make_ndarray(response.outputs["name"]).tolist() == NAMES


def test_an_answer_is_in_the_fields_that_clients_of_tensorflow_serving_read(stub):
    outputs = dict(stub.Predict(named([[1.0, 2.0], [3.0, 4.0]])).outputs)
    outputs.update(stub.Predict(predict_request(signature="counts", count=np.int64([5]))).outputs)
    assert list(outputs["y"].float_val) == [3.0, 6.0, 9.0, 12.0]
    assert list(outputs["name"].string_val) == NAMES
    assert list(outputs["double"].int64_val) == [10]
    assert [d.size for d in outputs["y"].tensor_shape.dim] == [2, 2]
    assert not any(output.tensor_content for output in outputs.values())


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy", "grpc_proxy"])
def test_neither_client_uses_the_proxy_of_the_environment(server, monkeypatch, variable):
    monkeypatch.setenv(variable, "http://127.0.0.1:9")  # Nothing listens there.
    for kind, place in ((GrpcClient, server[0]), (RestClient, server[1])):
        with kind(place, "ads") as client:
            assert client.predict_tensors({"x": X, "name": ["a", "b"]})["y"].tolist()[0] == [
                3.0,
                6.0,
            ]


@pytest.mark.parametrize("key", ["instances", "inputs"])
def test_an_integer_for_a_float_by_rest(post, key):
    """TensorFlow Serving takes it in predict. In an Example it is an int64, in both servers."""
    rows = [{"x": [1, 2], "name": "a"}, {"x": [3, 4.5], "name": "b"}]
    columns = {"x": [[1, 2], [3, 4.5]], "name": ["a", "b"]}
    status, answer = post(PREDICT, {key: rows if key == "instances" else columns})
    assert status == 200
    found = [row["y"] for row in answer["predictions"]] if key == "instances" else (
        answer["outputs"]["y"])  # fmt: skip
    assert found == [[3.0, 6.0], [9.0, 13.5]]


@pytest.mark.parametrize("method", ["classify", "regress"])
def test_an_integer_for_a_float_in_an_example(post, method):
    body = {"signature_name": method, "examples": [{"v": 2}]}
    status, answer = post(f"/v1/models/ads:{method}", body)
    assert status == 400
    assert answer["error"].endswith(
        ". In the JSON of `examples`, a number without a point is an int64: write 2.0 for 2."
    )
    body["examples"] = [{"v": 2.0}]
    assert post(f"/v1/models/ads:{method}", body)[0] == 200


def named(x, **options):
    request = predict_request(x=np.float32(x), **options)
    request.inputs["name"].CopyFrom(tf.make_tensor_proto(NAMES))
    return request


def test_versions_labels_and_filters_by_grpc(stub):
    for options in ({"version": 2}, {"label": "stable"}):
        request = named(X, **options)
        request.output_filter.append("y")
        response = stub.Predict(request)
        assert response.model_spec.version.value == 2 and set(response.outputs) == {"y"}
        np.testing.assert_array_equal(tf.make_ndarray(response.outputs["y"]), np.float32(X) * 2)


def test_predict_by_rest(post):
    texts = [{"b64": base64.b64encode(name).decode()} for name in (b"a", b"b")]
    rows = [{"x": x, "name": text} for x, text in zip(X, texts)]
    status, answer = post("/v1/models/ads:predict", {"instances": rows})
    y = [[3.0, 6.0], [0.3, -12.0]]
    assert status == 200
    assert answer == {"predictions": [{"name": "a", "y": y[0]}, {"name": "b", "y": y[1]}]}
    columns = {"x": X, "name": ["a", "b"]}
    status, answer = post("/v1/models/ads/versions/2:predict", {"inputs": columns})
    assert (status, answer) == (
        200, {"outputs": {"name": ["a", "b"], "y": [[2.0, 4.0], [0.2, -8.0]]}}
    )  # fmt: skip
    status, answer = post("/V1/Models/ads/Labels/stable:predict", {"inputs": columns})
    assert status == 200 and answer["outputs"]["y"][0] == [2.0, 4.0]


def test_one_input_and_bytes_by_rest(post):
    body = {"signature_name": "raw", "instances": ["a", {"b64": "Yg=="}, {"b64": "Yw"}]}
    assert post("/v1/models/ads:predict", body) == (200, {"predictions": ["a", "b", "c"]})
    body = {"signature_name": "raw", "inputs": ["ä"]}
    assert post("/v1/models/ads:predict", body) == (200, {"outputs": ["ä"]})
    body = {"signature_name": "counts", "inputs": [2**62 - 1, -5]}
    assert post("/v1/models/ads:predict", body) == (200, {"outputs": {
        "double": [2**63 - 2, -10],
        "raw_bytes": [{"b64": base64.b64encode(str(n).encode()).decode()} for n in (2**62 - 1, -5)],
    }})  # fmt: skip


@pytest.mark.parametrize(
    ("x", "y"), [([[1.0], [2.0]], [[2.5], [3.0]]), ([1.0, 2.0], [2.5, 3.0]), ([[6, 8]], [[5, 6]])]
)
def test_shapes_are_those_of_the_request_and_not_of_the_signature(stub, post, x, y):
    for key, answer_key in (("instances", "predictions"), ("inputs", "outputs")):
        body = {"signature_name": "half_plus_two", key: x}
        assert post("/v1/models/ads:predict", body) == (200, {answer_key: y})
    response = stub.Predict(with_input("half_plus_two", x=np.float32(x)))
    assert tf.make_ndarray(response.outputs["y"]).tolist() == y


def test_a_shape_that_the_model_cannot_use(stub, post):
    status, answer = post(PREDICT, {"signature_name": "by_examples", "inputs": [["a"]]})
    assert status == 400
    assert answer["error"].startswith("Expected serialized to be a scalar or vector, got shape:")


def test_floats_that_are_no_json(post):
    body = b'{"inputs": {"x": [[NaN, -Infinity], [0.25, 3.4e38]], "name": ["a", "b"]}}'
    status, answer = post("/v1/models/ads:predict", body)
    assert status == 200
    assert str(answer["outputs"]["y"]) == "[[nan, -inf], [0.75, inf]]"


def test_classify_and_regress_by_grpc(stub):
    kind = classification_pb2.ClassificationRequest
    response = stub.Classify(examples_request(kind, signature="classify"))
    assert [
        [(c.label, c.score) for c in row.classes] for row in response.result.classifications
    ] == [[("low", -1.5), ("high", 1.5)], [("low", 2.0), ("high", -2.0)]]
    assert response.model_spec.version.value == 3
    kind = regression_pb2.RegressionRequest
    response = stub.Regress(examples_request(kind, signature="regress"))
    assert [row.value for row in response.result.regressions] == [4.5, -6.0]


def test_examples_with_a_context(stub, post):
    request = regression_pb2.RegressionRequest()
    request.model_spec.name, request.model_spec.signature_name = "ads", "regress"
    both = request.input.example_list_with_context
    both.context.CopyFrom(example(v=7.0))
    both.examples.extend([tf.train.Example(), example(other=1.0)])
    response = stub.Regress(request)
    assert [row.value for row in response.result.regressions] == [21.0, 21.0]
    body = {"signature_name": "regress", "context": {"v": 7.0}, "examples": [{}, {"o": [1]}]}
    assert post("/v1/models/ads:regress", body) == (200, {"results": [21.0, 21.0]})


def test_classify_by_rest(post):
    body = {"signature_name": "classify", "examples": [{"v": 1.5}, {"v": [-2.0]}]}
    assert post("/v1/models/ads:classify", body) == (
        200, {"results": [[["low", -1.5], ["high", 1.5]], [["low", 2.0], ["high", -2.0]]]}
    )  # fmt: skip


def test_metadata(stub, server, post):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "ads"
    response = stub.GetModelMetadata(request)
    assert response.model_spec.version.value == 3
    found = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(found)
    assert found.signature_def["regress"].method_name == "tensorflow/serving/regress"
    status, answer = post("/v1/models/ads/versions/2/metadata")
    assert status == 200
    assert answer["model_spec"] == {"name": "ads", "signature_name": "", "version": "2"}
    signature = answer["metadata"]["signature_def"]["signature_def"]["raw"]
    assert signature["inputs"]["name"]["dtype"] == "DT_STRING"
    assert signature["inputs"]["name"]["tensor_shape"] == {
        "dim": [{"size": "-1", "name": ""}], "unknown_rank": False,
    }  # fmt: skip
    with GrpcClient(server[0], "ads") as first, RestClient(server[1], "ads") as second:
        known = first.metadata()
        assert known == second.metadata()
    assert known.signatures["raw"].outputs["name"].shape == (None,)


def test_status(server, post):
    good = {"error_code": "OK", "error_message": ""}
    assert post("/v1/models/ads/versions/2") == (200, {"model_version_status": [
        {"version": "2", "state": "AVAILABLE", "status": good}]})  # fmt: skip
    answer = post("/v1/models/ads")[1]
    assert [entry["version"] for entry in answer["model_version_status"]] == ["2", "3"]
    with grpc.insecure_channel(server[0]) as channel:
        service = model_service_pb2_grpc.ModelServiceStub(channel)
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = "ads"
        response = service.GetModelStatus(request)
        assert [entry.state for entry in response.model_version_status] == [30, 30]
    for client in (GrpcClient(server[0], "ads"), RestClient(server[1], "ads")):
        with client:
            assert client.status() == {2: "AVAILABLE", 3: "AVAILABLE"}


@pytest.mark.parametrize("kind", [GrpcClient, RestClient])
def test_clients_ask_in_batches_and_get_arrays(server, kind):
    client = kind(server[0 if kind is GrpcClient else 1], "ads", batch_rows=3, label="stable")
    with client:
        x = np.arange(16, dtype=np.float32).reshape(8, 2) / 7
        names = [f"ä{i}" for i in range(8)]
        outputs = client.predict_tensors({"x": x, "name": names})
        assert outputs["y"].dtype == np.float32
        np.testing.assert_array_equal(outputs["y"], x * np.float32(2))
        assert outputs["name"].tolist() == [name.encode() for name in names]
        records = [example(v=i / 3).SerializeToString() for i in range(7)]
        values = client.predict(records, signature="by_examples")["value"]
        np.testing.assert_array_equal(values, np.float32(np.arange(7) / 3) * np.float32(2))
        counts = client.predict_tensors({"count": [2**62 - 1]}, signature="counts")
        assert counts["double"].tolist() == [2**63 - 2]
        assert counts["raw_bytes"].tolist() == [str(2**62 - 1).encode()]
        with pytest.raises(ServingError) as error:
            client.predict_tensors({"x": x}, signature="nothing")
        codes = {GrpcClient: "FAILED_PRECONDITION", RestClient: "INVALID_ARGUMENT"}
        assert error.value.code == codes[kind] and "nothing" in error.value.message


@pytest.mark.parametrize("kind", [GrpcClient, RestClient])
@pytest.mark.parametrize("options", [{}, {"label": "stable"}, {"version": 2}], ids=str)
def test_clients_send_numbers_of_python_as_the_signature_has_them(
    server, kind, options, monkeypatch
):
    asked = []
    of = kind.metadata
    monkeypatch.setattr(kind, "metadata", lambda self: asked.append(1) or of(self))
    with kind(server[0 if kind is GrpcClient else 1], "ads", **options) as client:
        for x in ([[0.1, 2]], np.array([[0.1, 2]]), [[3, 4]]):
            outputs = client.predict_tensors({"x": x, "name": ["a"]}, signature="")
            np.testing.assert_array_equal(
                outputs["y"], np.float32(x) * np.float32(2 if options else 3)
            )
        # Only metadata says which version a label means.
        assert len(asked) == (3 if "label" in options else 1)
        with pytest.raises(RowError) as error:
            client.predict_tensors({"x": [[1e39, 0.0]], "name": ["a"]})
        assert str(error.value) == "input x: expected a value that fits into float32, got 1e+39"


# --- Errors --------------------------------------------------------------------------------------

CODE = grpc.StatusCode


def huge():
    made = tf.make_tensor_proto(1.0)
    made.tensor_shape.dim.add().size = 2**40
    return made


def continued():
    return tf.make_tensor_proto("a" * 50_000, shape=[100_000])


@pytest.mark.parametrize(
    ("request_of", "code", "message"),
    [
        (lambda: predict_pb2.PredictRequest(), CODE.INVALID_ARGUMENT,
         "the request has no model_spec"),
        (lambda: predict_request(name=""), CODE.INVALID_ARGUMENT,
         "the request names no model"),
        (lambda: predict_request(name="adz"), CODE.NOT_FOUND,
         "unknown model 'adz'. Did you mean 'ads'?"),
        (lambda: predict_request(version=7), CODE.NOT_FOUND,
         "model 'ads' has no version 7 that is live"),
        (lambda: predict_request(label="nope"), CODE.INVALID_ARGUMENT,
         "model 'ads' has no label 'nope'. Use one of: stable, lost."),
        (lambda: predict_request(label="lost"), CODE.NOT_FOUND,
         "model 'ads' has no version 9 that is live"),
        (lambda: predict_request(signature="no"), CODE.FAILED_PRECONDITION,
         "unknown signature 'no'. Use one of: "),
        (lambda: predict_request(x=np.float32(X)), CODE.INVALID_ARGUMENT,
         "inputs of serving_default: expected the names name, x, got x"),
        (lambda: predict_request(x=np.float32(X), nam=[b"a"]), CODE.INVALID_ARGUMENT,
         "inputs of serving_default: expected the names name, x, got nam, x"),
        (lambda: with_input("raw", name=np.float32([1])), CODE.INVALID_ARGUMENT,
         "input name: expected string, got float32"),
        (lambda: with_input("counts", count=huge()), CODE.INVALID_ARGUMENT,
         "input count: the shape [1099511627776] takes 4,398,046,511,104 bytes, and at most "
         "1,048,576 are allowed"),
        # Names are checked before any array is made.
        (lambda: with_input("counts", count=huge(), other=huge()), CODE.INVALID_ARGUMENT,
         "inputs of counts: expected the names count, got count, other"),
        (lambda: filtered("z"), CODE.INVALID_ARGUMENT,
         "output_filter: serving_default has no output 'z'. Use one of: name, y."),
        (lambda: filtered("y", "y"), CODE.INVALID_ARGUMENT, "output_filter: 'y' is listed twice"),
        (lambda: with_input("raw", name=continued()), CODE.INVALID_ARGUMENT,
         "input name: the strings of the shape [100000] take 5,000,800,000 bytes, and at most "
         "1,048,576 are allowed"),
        (lambda: with_input("by_examples", examples=[b"\xff"]), CODE.INVALID_ARGUMENT,
         "Could not parse example input"),
        (lambda: with_input("by_examples", examples=[b""]), CODE.INVALID_ARGUMENT,
         "Feature: v (data type: float) is required but could not be found."),
    ],
    ids=map(str, itertools.count()),
)  # fmt: skip
def test_errors_of_predict_by_grpc(stub, request_of, code, message):
    with pytest.raises(grpc.RpcError) as error:
        stub.Predict(request_of())
    assert error.value.code() == code
    assert message in error.value.details()


def with_input(signature, **inputs):
    request = predict_request(signature=signature)
    for key, value in inputs.items():
        is_proto = hasattr(value, "tensor_shape")
        request.inputs[key].CopyFrom(value if is_proto else tf.make_tensor_proto(value))
    return request


def test_an_input_with_a_default_may_be_left_out():
    definition = tf.compat.v1.saved_model.build_signature_def(
        method_name="tensorflow/serving/predict"
    )
    for name in ("x", "y"):
        definition.inputs[name].dtype = 1
        definition.outputs[name].dtype = 1
    definition.defaults["x"].CopyFrom(tf.make_tensor_proto([1.0]))
    model = SimpleNamespace(
        signatures={"serving_default": definition}, run=lambda name, inputs, outputs: inputs
    )
    given = np.array([3], np.float32)
    assert answers.predict(model, "", {"y": given}) == {"x": [1.0], "y": [3.0]}
    assert answers.predict(model, "", {"y": given, "x": given}) == {"x": [3.0], "y": [3.0]}
    with pytest.raises(RequestError, match="expected the names x, y, got x"):
        answers.predict(model, "", {"x": given})
    assert set(answers.signature_inputs(model, "", {"inputs": [3.0]})) == {"y"}
    assert set(answers.signature_inputs(model, "", {"inputs": {"x": [3.0]}})) == {"x", "y"}


def filtered(*outputs):
    request = named(X)
    request.output_filter.extend(outputs)
    return request


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Could not parse it\n\t [[{{node parse}}]]\n\nOriginal stack trace for 'parse':\n  File",
         "Could not parse it"),
        ("Graph execution error:\n\nDetected at node 'a/b' defined at (most recent call last):\n"
         "<stack traces unavailable>\nDetected at node 'a/b' defined at (most recent call last):\n"
         "<stack traces unavailable>\nassertion failed: [x]\n[2 3]\n\t [[{{node a/b}}]]\n\nOrig",
         "assertion failed: [x]\n[2 3]"),
        ("Graph execution error:", "Graph execution error:"),
        (f"Graph execution error:\n\nassertion failed: [{PREFIX}the rows differ:] [2 3]\n",
         "the rows differ: 2 3"),
    ],
)  # fmt: skip
def test_the_sentence_of_a_tensorflow_error(message, expected):
    assert answers.reason(tf.errors.InvalidArgumentError(None, None, message)) == expected


@pytest.mark.parametrize("kind", [GrpcClient, RestClient])
def test_an_error_of_one_batch_names_its_rows(server, kind):
    client = kind(server[0 if kind is GrpcClient else 1], "ads", batch_rows=2)
    records = [example(v=1.0).SerializeToString()] * 2 + [b""]
    with client:
        with pytest.raises(ServingError) as error:
            client.predict(records, signature="by_examples")
        assert error.value.message.startswith("rows 2 to 2 of 3: ")
        assert error.value.message.endswith("is required but could not be found.")
        with pytest.raises(ServingError) as error:
            client.predict(records[2:], signature="by_examples")
        assert "rows" not in error.value.message


@pytest.mark.parametrize("letter", ["a", "ä"])
def test_a_long_message_is_cut_and_keeps_its_code(stub, post, letter):
    name = letter * 20_000
    with pytest.raises(grpc.RpcError) as error:
        stub.Predict(predict_request(signature=name))
    assert error.value.code() == CODE.FAILED_PRECONDITION
    start = f"unknown signature '{letter}"
    assert error.value.details().startswith(start) and error.value.details().endswith("...")
    assert 2000 < len(error.value.details().encode()) <= 2048
    code, answer = post(PREDICT, {"signature_name": name, "instances": ["a"]})
    assert code == 400 and 2000 < len(answer["error"].encode()) <= 2048


@pytest.mark.parametrize(
    ("signature", "values", "message"),
    [
        ("regres", [1.0], "unknown signature 'regres'. Did you mean 'regress'?"),
        ("regress", [1.0], "regress is a signature for tensorflow/serving/regress, not for "
                           "classify"),
        ("classify", [], "expected at least one example, got none"),
    ],
)  # fmt: skip
def test_errors_of_classify_by_grpc(stub, signature, values, message):
    kind = classification_pb2.ClassificationRequest
    with pytest.raises(grpc.RpcError) as error:
        stub.Classify(examples_request(kind, signature=signature, values=values))
    assert error.value.code() == CODE.INVALID_ARGUMENT
    assert error.value.details() == message


def test_other_errors_by_grpc(stub, server):
    request = get_model_metadata_pb2.GetModelMetadataRequest()
    request.model_spec.name = "ads"
    for fields, message in (
        ([], "metadata_field: expected the names signature_def, got none"),
        (["x"], "metadata_field: expected the names signature_def, got x"),
    ):
        request.metadata_field[:] = fields
        with pytest.raises(grpc.RpcError) as error:
            stub.GetModelMetadata(request)
        assert (error.value.code(), error.value.details()) == (CODE.INVALID_ARGUMENT, message)
    with grpc.insecure_channel(server[0]) as channel:
        service = model_service_pb2_grpc.ModelServiceStub(channel)
        reload = model_management_pb2.ReloadConfigRequest()
        for not_served in (
            lambda: stub.MultiInference(inference_pb2.MultiInferenceRequest()),
            lambda: service.HandleReloadConfigRequest(reload),
        ):
            with pytest.raises(grpc.RpcError) as error:
                not_served()
            assert error.value.code() == CODE.UNIMPLEMENTED
        ask = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        whole = named(X).SerializeToString()
        with pytest.raises(grpc.RpcError) as error:  # This is gRPC's own message, also in C++.
            ask(whole[:-3])
        assert error.value.code() == CODE.INTERNAL
        with pytest.raises(grpc.RpcError) as error:
            ask(whole + bytes(2**20))
        assert error.value.code() == CODE.RESOURCE_EXHAUSTED


PREDICT = "/v1/models/ads:predict"


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/v2/x", None, 404, "the path /v2/x does not exist"),
        ("/v1/x", None, 400, "GET /v1/x: this is not a request of TensorFlow Serving's REST API"),
        ("/v1/models/ads:explain", {}, 400, "POST /v1/models/ads:explain: this is not a request"),
        ("/v1/models", None, 400, "the request names no model"),
        ("/v1/models/adz", None, 404, "unknown model 'adz'. Did you mean 'ads'?"),
        ("/v1/models/ads/versions/7", None, 404, "model 'ads' has no version 7"),
        ("/v1/models/ads/versions/9999999999999999999", None, 404, "has no version 9999999999999"),
        ("/v1/models/ads/versions/7:predict", {}, 404, "model 'ads' has no version 7 that is live"),
        ("/v1/models/ads/labels/no:predict", {}, 400, "model 'ads' has no label 'no'"),
        (PREDICT, b"", 400, "the body is not JSON that can be read: Expecting value"),
        (PREDICT, {"signature_name": 5}, 400, "signature_name: expected a string, got 5"),
        (PREDICT, {"signature_name": "no"}, 400, "unknown signature 'no'. Use one of: "),
        (PREDICT, {"signature_name": "constant", "inputs": {}}, 400, "the signature has no input"),
        (PREDICT, b" " * (2**20 + 1), 413,
         "the body has 1,048,577 bytes, and at most 1,048,576 are allowed"),
        ("/v1/models/ads:classify", {"examples": [{}]}, 400,
         "serving_default is a signature for tensorflow/serving/predict, not for classify"),
        ("/v1/models/ads:regress", {"signature_name": "regress", "examples": [{"v": 2}]}, 400,
         "Data types don't match. Data type: int64 but expected type: float"),
    ],
    ids=map(str, itertools.count()),
)  # fmt: skip
def test_errors_by_rest(post, path, body, status, message):
    code, answer = post(path, body)
    text = answer["error"] if isinstance(answer, dict) else answer
    assert (code, message in text) == (status, True), (code, text)
    assert len(text) < 1000


def test_a_compressed_body_and_another_verb(post, server):
    code, answer = post(PREDICT, {}, {"Content-Encoding": "gzip"})
    assert code == 400 and answer["error"].startswith("Content-Encoding: this server does not")
    request = urllib.request.Request(f"{server[1]}{PREDICT}", b"{}", method="PUT")
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(request, timeout=30)


def test_text_that_is_no_utf_8(post):
    body = {"signature_name": "raw", "inputs": [{"b64": base64.b64encode(b"\xff").decode()}]}
    code, answer = post(PREDICT, body)
    assert code == 400
    assert answer["error"].startswith("the output name has bytes that are not UTF-8, which JSON")
