"""Thousands of broken requests, and clients while versions are replaced."""

from __future__ import annotations

import gc
import http.client
import json
import pathlib
import random
import shutil
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, regression_pb2

from estimator_kit.client import GrpcClient, RestClient
from tests.estimator_kit.serving.small_models import example, serving, write_version

SERVICE = "/tensorflow.serving.PredictionService/"
# The codes that an invalid request may get. gRPC answers INTERNAL for bytes that are not a message,
# and the server for a signature with an unknown method.
CLIENT_ERRORS = {
    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INTERNAL,
    grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.RESOURCE_EXHAUSTED,
}  # fmt: skip


def good_messages():
    predict = predict_pb2.PredictRequest()
    predict.model_spec.name = "ads"
    predict.inputs["x"].CopyFrom(tf.make_tensor_proto([[1.0, 2.0]]))
    predict.inputs["name"].CopyFrom(tf.make_tensor_proto(["a"]))
    examples = predict_pb2.PredictRequest()
    examples.model_spec.name, examples.model_spec.signature_name = "ads", "by_examples"
    records = [example(v=1.0).SerializeToString()]
    examples.inputs["examples"].CopyFrom(tf.make_tensor_proto(records))
    regress = regression_pb2.RegressionRequest()
    regress.model_spec.name, regress.model_spec.signature_name = "ads", "regress"
    regress.input.example_list.examples.add().CopyFrom(example(v=1.0))
    return [("Predict", predict), ("Predict", examples), ("Regress", regress)]


GOOD_BODIES = [
    ("predict", {"inputs": {"x": [[1.0, 2.0]], "name": ["a"]}}),
    ("predict", {"instances": [{"x": [1, 2.5], "name": {"b64": "YQ=="}}]}),
    ("predict", {"signature_name": "counts", "inputs": [5, 6]}),
    ("classify", {"signature_name": "classify", "examples": [{"v": 1.5}]}),
    ("regress", {"signature_name": "regress", "context": {"v": 1.5}, "examples": [{}, {"o": [1]}]}),
]
ODD = [None, True, -1, 2**70, 1e400, float("nan"), "", "\ud800", [], {}, [[]], {"b64": "?"},
       {"b64": 1}, ["a", 1], "x" * 5000, [0] * 300]  # fmt: skip


def damaged_bytes(rng, data):
    """A message with bytes that are cut, flipped, repeated or random."""
    made = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        kind = rng.randrange(5)
        place = rng.randrange(len(made) + 1)
        if kind == 0:
            del made[place:]
        elif kind == 1 and made:
            made[place % len(made)] ^= 1 << rng.randrange(8)
        elif kind == 2:
            made[place:place] = made[: rng.randrange(len(made) + 1)]
        elif kind == 3:
            made[place:place] = rng.randbytes(rng.randrange(20))
        elif made:
            del made[place % len(made)]
    return bytes(made)


def odd_json(rng, value):
    """A document in which an entry is changed, removed or duplicated."""
    if rng.random() < 0.2:
        return rng.choice(ODD)
    if isinstance(value, dict) and value:
        made = dict(value)
        key = rng.choice(sorted(made))
        if rng.random() < 0.3:
            made[rng.choice([key + "x", "", "inputs", "instances", "b64"])] = made.pop(key)
        else:
            made[key] = odd_json(rng, made[key])
        return made
    if isinstance(value, list) and value:
        made = [*value, *value[: rng.randrange(2)]]
        place = rng.randrange(len(made))
        made[place] = odd_json(rng, made[place])
        return made
    return rng.choice(ODD)


def ask_oddly(address, url, count):
    rng = random.Random(5)
    connection = http.client.HTTPConnection(*url.removeprefix("http://").split(":"), timeout=60)
    statuses, codes = set(), set()
    with grpc.insecure_channel(address) as channel:
        for i in range(count // 2):
            method, message = rng.choice(good_messages())
            call = channel.unary_unary(SERVICE + method)
            try:
                call(damaged_bytes(rng, message.SerializeToString()), timeout=60)
            except grpc.RpcError as error:
                codes.add(error.code())
                assert error.code() in CLIENT_ERRORS, error
                assert "Traceback" not in error.details()
            method, document = rng.choice(GOOD_BODIES)
            body = json.dumps(odd_json(rng, document)).encode()
            if i % 3 == 0:
                body = damaged_bytes(rng, body)
            connection.request("POST", f"/v1/models/ads:{method}", body)
            response = connection.getresponse()
            text = response.read()
            statuses.add(response.status)
            assert response.status in (200, 400, 404), (response.status, body, text)
            answer = json.loads(text)
            assert response.status == 200 or list(answer) == ["error"], (body, text)
    connection.close()
    return statuses, codes


def fuzz(folder, count):
    write_version(folder, 3)
    with serving(folder) as (address, url, _):
        statuses, codes = ask_oddly(address, url, count)
        assert statuses >= {200, 400} and grpc.StatusCode.INVALID_ARGUMENT in codes
        with GrpcClient(address, "ads") as client:  # The server still answers.
            x = np.float32([[1, 2]])
            y = client.predict_tensors({"x": x, "name": ["a"]})["y"]
            assert y.tolist() == [[3.0, 6.0]]


def test_odd_requests_are_answered(tmp_path):
    fuzz(tmp_path, 300)


@pytest.mark.nightly
def test_thousands_of_odd_requests_are_answered(tmp_path):
    fuzz(tmp_path, 5000)


def resident_mib():
    fields = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = [line for line in fields.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


@pytest.mark.ci
def test_32_clients_while_versions_are_swapped(tmp_path):
    """Ten replacements: no failed request, no answer that mixes two versions, no leaked memory."""
    made, live = tmp_path / "made", tmp_path / "live"
    for version in range(1, 11):
        write_version(made, version)
    live.mkdir()
    shutil.copytree(made / "1", live / "1")
    done, wrong, counts = threading.Event(), [], [0] * 32
    seen = set()

    def ask(client, number):
        rng = random.Random(number)
        while not done.is_set():
            x = np.float32([[1, rng.randint(1, 9)]] * rng.randint(1, 64))
            try:
                y = client.predict_tensors({"x": x, "name": ["a"] * len(x)})["y"]
                factors = set((y / x).ravel().tolist())
                if len(factors) != 1:
                    wrong.append(factors)
                seen.update(factors)
            except Exception as error:
                wrong.append(error)
            counts[number] += 1

    with serving(live) as (address, url, models):
        clients = [
            GrpcClient(address, "ads", timeout_secs=60) if i % 2
            else RestClient(url, "ads", timeout_secs=60) for i in range(32)
        ]  # fmt: skip
        threads = [threading.Thread(target=ask, args=(c, i)) for i, c in enumerate(clients)]
        for thread in threads:
            thread.start()
        memory = []
        try:
            for version in range(2, 11):
                shutil.copytree(made / str(version), live / str(version))
                models.poll()
                models.poll()
                assert models.live() == {"ads": [version]}
                shutil.rmtree(live / str(version - 1))
                before = sum(counts)
                end = time.monotonic() + 60
                while sum(counts) < before + 200 and time.monotonic() < end:
                    done.wait(0.05)
                models.poll()
                gc.collect()
                memory.append(resident_mib())
        finally:
            done.set()
            for thread in threads:
                thread.join()
            for client in clients:
                client.close()
    assert not wrong, wrong[:3]
    assert min(counts) > 0 and seen == {float(v) for v in range(1, 11)}
    assert memory[-1] - memory[2] < 20, memory
