"""Request logs of the server: what is logged, what is counted, and that answers do not wait."""

from __future__ import annotations

import copy
import functools
import json
import pathlib
import random
import shutil
import threading
import types
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.client import GrpcClient, RestClient, Rows, messages, tensors
from estimator_kit.exporters import saved_model
from estimator_kit.serving import request_log, server
from estimator_kit.serving.private_features import PrivateFeatures
from estimator_kit.serving.request_log import Entry, RequestLog
from tests.conftest import DOCUMENT, make_rows
from tests.estimator_kit.serving.small_models import config, example, serving, write_version
from tests.estimator_kit.small_training import trained_wide_deep

classification_pb2 = pytest.importorskip("tensorflow_serving.apis.classification_pb2")
predict_pb2 = pytest.importorskip("tensorflow_serving.apis.predict_pb2")
prediction_log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
stubs = pytest.importorskip("tensorflow_serving.apis.prediction_service_pb2_grpc")

SPEC = {
    "features": {
        "v": {"dtype": "float32"}, "x": {"dtype": "float32", "shape": [2]},
        "secret": {"dtype": "float32", "default": 0.0, "private": True},
        "name": {"dtype": "string", "private": True},
    },
    "columns": {
        **{n: {"numeric": n} for n in ("v", "x", "secret")},
        "name": {"hash_bucket": "name", "size": 5}, "name_hot": {"indicator": "name"},
    },
    "groups": {"deep": ["v", "x", "secret", "name_hot"]},
    "labels": {"y": {"dtype": "float32"}},
    "objectives": {"y": {"head": "binary"}},
}  # fmt: skip


def with_spec(path):
    folder = pathlib.Path(path) / "assets.extra" / "feature_spec"
    folder.mkdir(parents=True)
    spec = feature_specs.parse(SPEC).to_dict(defaults=True)
    (folder / "spec.json").write_text(json.dumps(spec))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with version 3, which has a spec."""
    folder = tmp_path_factory.mktemp("made")
    with_spec(write_version(folder, 3))
    return folder


def logged(folder):
    """The `PredictionLog`s in the files of a folder, in order."""
    assert not list(pathlib.Path(folder).glob(".*"))
    return [
        prediction_log_pb2.PredictionLog.FromString(record)
        for path in sorted(pathlib.Path(folder).iterdir())
        for record in tf.compat.v1.io.tf_record_iterator(str(path))
    ]


def post(url, body, path="models/ads:predict"):
    request = urllib.request.Request(f"{url}/v1/{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def metrics(url, path="/metrics"):
    with urllib.request.urlopen(url + path, timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return answer.read().decode()


def count_of(text, outcome):
    start = f'estimator_kit_request_log_requests_total{{outcome="{outcome}"}} '
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    return int(line.removeprefix(start))


def arrays(messages_of):
    return {name: tf.make_ndarray(proto).tolist() for name, proto in messages_of.items()}


def values(examples):
    return [
        {name: list(feature.float_list.value) for name, feature in each.features.feature.items()}
        for each in examples
    ]


def test_requests_of_both_protocols(made, tmp_path):
    rows = [example(v=1.5, secret=8.0, free=2.0), example(v=-2.0, secret=9.0)]
    with serving(made, serving_log_dir=f"{tmp_path}/logs") as (address, url, _):
        with grpc.insecure_channel(address) as channel:
            stub = stubs.PredictionServiceStub(channel)
            asked = predict_pb2.PredictRequest()
            asked.model_spec.name = "ads"
            tensors.fill(asked.inputs["x"], np.float32([[1, 2]]))
            tensors.fill(asked.inputs["name"], tensors.as_array(["ann"]))
            assert arrays(stub.Predict(asked, timeout=60).outputs)["name"] == [b"ann"]
            asked = predict_pb2.PredictRequest()
            asked.model_spec.name, asked.model_spec.signature_name = "ads", "by_examples"
            records = [row.SerializeToString() for row in rows]
            tensors.fill(asked.inputs["examples"], tensors.as_array(records))
            stub.Predict(asked, timeout=60)
            asked = classification_pb2.ClassificationRequest()
            asked.model_spec.name, asked.model_spec.signature_name = "ads", "classify"
            asked.input.example_list.examples.extend(rows)
            stub.Classify(asked, timeout=60)
            asked.model_spec.name = "other"
            with pytest.raises(grpc.RpcError):  # Only answered requests are logged.
                stub.Classify(asked, timeout=60)
        post(
            url, {"instances": [{"x": [1.0, 2.0], "name": "ann"}]}, "models/ads/versions/3:predict"
        )
        body = {
            "signature_name": "regress",
            "context": {"secret": 7.0},
            "examples": [{"v": 1.5, "name": "ann"}, {"v": -2.0}],
        }
        post(url, body, "models/ads:regress")
        post(url, {**body, "signature_name": "classify"}, "models/ads:classify")
        with pytest.raises(urllib.error.HTTPError):
            post(url, {"instances": []})
        first = count_of(metrics(url), "dropped")
    assert first == 0
    logs = logged(tmp_path / "logs")
    metadata = [log.log_metadata for log in logs]
    assert {(m.model_spec.name, m.model_spec.version.value) for m in metadata} == {("ads", 3)}
    assert {m.sampling_config.sampling_rate for m in metadata} == {1.0}
    assert {tuple(m.saved_model_tags) for m in metadata} == {("serve",)}
    assert min(m.timestamp_secs for m in metadata) > 1_700_000_000
    assert [(log.WhichOneof("log_type"), log.log_metadata.model_spec.signature_name)
            for log in logs] == [
        ("predict_log", "serving_default"), ("predict_log", "by_examples"),
        ("classify_log", "classify"), ("predict_log", "serving_default"),
        ("regress_log", "regress"), ("classify_log", "classify"),
    ]  # fmt: skip
    by_grpc, by_examples, classified, by_rest, regressed, also_classified = logs
    for log in (by_grpc, by_rest):
        assert arrays(log.predict_log.request.inputs) == {"x": [[1, 2]]}
        assert arrays(log.predict_log.response.outputs) == {"y": [[3, 6]]}
        assert log.predict_log.response.model_spec.version.value == 3
    (records,) = arrays(by_examples.predict_log.request.inputs).values()
    assert values(map(tf.train.Example.FromString, records)) == [
        {"v": [1.5], "free": [2.0]}, {"v": [-2.0]},
    ]  # fmt: skip
    assert arrays(by_examples.predict_log.response.outputs) == {"value": [4.5, -6.0]}
    sent = classified.classify_log.request.input.example_list.examples
    assert values(sent) == [{"v": [1.5], "free": [2.0]}, {"v": [-2.0]}]
    sent = regressed.regress_log.request.input.example_list.examples
    assert values(sent) == [{"v": [1.5]}, {"v": [-2.0]}]
    answered = regressed.regress_log.response.result.regressions
    assert [each.value for each in answered] == [4.5, -6.0]
    assert classified.classify_log.response == also_classified.classify_log.response
    answered = classified.classify_log.response.result.classifications
    assert [[(c.label, c.score) for c in row.classes] for row in answered] == [
        [("low", -1.5), ("high", 1.5)], [("low", 2.0), ("high", -2.0)],
    ]  # fmt: skip
    own = messages.message("tensorflow.serving.PredictionLog")
    for log in logs:  # The kit's own messages read the same.
        assert own.FromString(log.SerializeToString()).SerializeToString(
            deterministic=True
        ) == log.SerializeToString(deterministic=True)
    everything = b"".join(path.read_bytes() for path in (tmp_path / "logs").iterdir())
    assert b"ann" not in everything and b"secret" not in everything


def test_the_numbers_of_requests_add_up(made, tmp_path, monkeypatch):
    rng = random.Random(3)
    drawing = functools.partial(RequestLog, draw=rng.random)
    monkeypatch.setattr(request_log, "RequestLog", drawing)
    expected = random.Random(3)
    written = sum(expected.random() < 0.25 for _ in range(40))
    assert 0 < written < 40
    folder = tmp_path / "logs"
    with serving(made, serving_log_dir=str(folder), serving_log_rate=0.25) as (address, url, _):
        with GrpcClient(address, "ads") as first, RestClient(url, "ads") as second:
            for client in (first, second):
                for i in range(20):
                    client.predict_tensors({"x": np.float32([[i, 2]]), "name": ["a"]})
        text = metrics(url, "/monitoring/prometheus/metrics")
    assert count_of(text, "sampled_out") == 40 - written
    assert len(logged(folder)) == written
    assert {log.log_metadata.sampling_config.sampling_rate for log in logged(folder)} == {0.25}


def test_without_a_log_there_are_no_metrics(made):
    with serving(made) as (_, url, _), pytest.raises(urllib.error.HTTPError) as error:
        metrics(url)
    assert error.value.code == 404
    assert json.load(error.value) == {"error": "/metrics: only --serving_log_dir has metrics"}


# --- The queue ------------------------------------------------------------------------------------


class Model:
    """A version, for a log alone."""

    def __init__(self):
        self.version = 3
        self.private = PrivateFeatures(frozenset())
        self.signatures = {"serving_default": types.SimpleNamespace(inputs={})}


class Gate:
    """A clock that stops the thread of the log until `open` is called."""

    def __init__(self):
        self.waits, self.opened = threading.Event(), threading.Event()

    def __call__(self):
        if threading.current_thread().name == "request log":
            self.waits.set()
            assert self.opened.wait(60)
        return 1_767_619_800.0


def log_of(folder, **changes):
    options = {"rate": 1.0, "secs": 60, "file_bytes": 10**6, "keep_bytes": 0, **changes}
    return RequestLog(str(folder), **options)


def entry(number=0, *, size=10):
    def fill(request):
        if number < 0:
            raise ValueError("the request cannot be logged")
        tensors.fill(request.inputs["x"], np.float32([number]))

    return Entry("predict", "ads", Model(), "", size, fill, lambda response: None)


def numbers(folder):
    return [tf.make_ndarray(log.predict_log.request.inputs["x"]).item() for log in logged(folder)]


def test_a_full_queue_drops_and_counts_and_says_so(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(request_log, "_MOST_ENTRIES", 3)
    gate = Gate()
    log = log_of(tmp_path, clock=gate)
    log.start()
    log.add(entry(0))
    assert gate.waits.wait(60)  # The thread has taken the entry, and writes it for very long.
    for number in range(1, 6):
        log.add(entry(number))  # Does not wait.
    assert log.counts["dropped"] == 2
    with caplog.at_level("INFO", logger="estimator_kit"):
        gate.opened.set()
        log.close()
    assert numbers(tmp_path) == [0, 1, 2, 3]
    assert {**log.counts} == {
        "written": 4, "sampled_out": 0, "dropped": 2, "failed": 0, "no_spec": 0,
    }  # fmt: skip
    assert caplog.messages == [
        "request log: not logged: 2 dropped (the queue was full). the queue is full",
        f"request log: 4 requests in 1 files of {tmp_path}; 0 sampled_out, 2 dropped, 0 failed, "
        "0 no_spec",
    ]  # fmt: skip


def test_the_bytes_of_the_queue_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(request_log, "_MOST_BYTES", 100)
    gate = Gate()
    log = log_of(tmp_path, clock=gate)
    log.start()
    log.add(entry(0, size=60))
    assert gate.waits.wait(60)
    log.add(entry(1, size=41))  # The entry that is being written counts too.
    log.add(entry(2, size=40))
    assert b"estimator_kit_request_log_queue_bytes 100\n" in log.metrics()
    gate.opened.set()
    log.close()
    assert numbers(tmp_path) == [0, 2] and log.counts["dropped"] == 1
    assert b"estimator_kit_request_log_queue_bytes 0\n" in log.metrics()


def test_a_request_that_cannot_be_logged_stops_no_other(tmp_path, caplog):
    caplog.set_level("WARNING", logger="estimator_kit")
    log = log_of(tmp_path)
    log.start()
    for number in (0, -1, 1):
        log.add(entry(number))
    log.close()
    assert numbers(tmp_path) == [0, 1] and log.counts["failed"] == 1
    assert caplog.messages == [
        "request log: not logged: 1 failed (it could not be written). ValueError: the request "
        "cannot be logged"
    ]


def test_losses_are_said_once_a_minute(tmp_path, monkeypatch, caplog):
    log = log_of(tmp_path)
    now = 1000.0
    monkeypatch.setattr(request_log.time, "monotonic", lambda: now)
    with caplog.at_level("WARNING", logger="estimator_kit"):
        for now in (1000.0, 1059.0, 1060.0, 1200.0):
            log._count("failed", 1, f"at {now:g}")
            log._say_what_is_lost(at_once=False)
    start, end = "request log: not logged: ", " failed (it could not be written). at "
    assert caplog.messages == [f"{start}1{end}1000", f"{start}2{end}1060", f"{start}1{end}1200"]


def test_a_log_that_has_ended_takes_nothing(tmp_path):
    log = log_of(tmp_path)
    log.start()
    log.close()
    log.add(entry(0))
    assert log.counts["dropped"] == 1 and logged(tmp_path) == []
    log_of(tmp_path).close()  # It was never started.


# --- What is private ------------------------------------------------------------------------------


def test_a_version_without_a_spec_is_an_error_at_the_start(tmp_path):
    write_version(tmp_path / "ads", 3)
    options = {"serving_log_dir": f"{tmp_path}/logs"}
    with pytest.raises(ek.ConfigError) as error:
        server.serve(*[config(tmp_path / "ads", **options)] * 2, print)
    assert str(error.value) == (
        f"--serving_log_dir: version 3 of model 'ads' ({tmp_path}/ads/3) has no "
        "assets.extra/feature_spec/spec.json, so nothing says which features are private, and its "
        "requests must not be logged. Serve an export of the kit, or remove --serving_log_dir."
    )
    assert list((tmp_path / "logs").iterdir()) == []


def test_a_later_version_without_a_spec_is_served_and_not_logged(made, tmp_path, caplog):
    shutil.copytree(made, tmp_path / "ads")
    caplog.set_level("WARNING", logger="estimator_kit")
    options = {"serving_log_dir": f"{tmp_path}/logs"}
    inputs = {"x": np.float32([[1, 2]]), "name": ["a"]}
    with serving(tmp_path / "ads", **options) as (address, url, models):
        with GrpcClient(address, "ads") as client:
            client.predict_tensors(inputs)
            write_version(tmp_path / "ads", 4)
            models.poll()
            models.poll()
            assert client.predict_tensors(inputs)["y"].tolist() == [[4, 8]]
        assert count_of(metrics(url), "no_spec") == 1
    assert len(logged(tmp_path / "logs")) == 1
    assert caplog.messages == [
        "request log: not logged: 1 no_spec (its version has no feature spec). version 4 of model "
        "ads has no feature spec"
    ]


def test_a_version_whose_spec_is_damaged_is_not_served(tmp_path, caplog):
    caplog.set_level("WARNING", logger="estimator_kit")
    path = write_version(tmp_path / "ads", 3)
    with_spec(path)
    (path / "assets.extra" / "feature_spec" / "spec.json").write_text("{")
    options = {"serving_log_dir": f"{tmp_path}/logs"}
    with serving(tmp_path / "ads", **options) as (_, _, models):
        assert models.live() == {"ads": []}
    assert any("version 3 is not served: it cannot be loaded: SpecError" in each
               for each in caplog.messages)  # fmt: skip


def test_an_export_of_the_kit(tmp_path):
    """Its private features are in no record, whichever signature and client sent them."""
    document = copy.deepcopy(DOCUMENT)
    for name in ("user", "tags"):
        document["features"][name]["private"] = True
    rows = make_rows(6)
    made, spec = trained_wide_deep(tmp_path, document, rows, steps=1)
    path = saved_model.export_saved_model(made, spec, f"{tmp_path}/export")
    known = [{n: row.get(n) for n in spec.used_features()} for row in rows]
    options = {"serving_log_dir": f"{tmp_path}/logs"}
    with serving(tmp_path / "export", **options) as (address, url, _):
        names = {"rows": Rows.of_export(path)}
        with (
            GrpcClient(address, "ads", **names) as first,
            RestClient(url, "ads", **names) as second,
        ):
            for client in (first, second):
                answers = client.predict(known)
                client.classify(known, signature="classify/click")
                raw = {"price": [1.0], "user": ["ann"], "city": ["oslo"], "tags": [["a", "b"]]}
                client.predict_tensors(raw, signature="predict_raw")
    logs = logged(tmp_path / "logs")
    assert [log.WhichOneof("log_type") for log in logs] == [
        "predict_log", "classify_log", "predict_log",
    ] * 2  # fmt: skip
    public = set(spec.used_features()) - {"user", "tags"}
    for number, log in enumerate(logs):
        kind = getattr(log, log.WhichOneof("log_type"))
        if number % 3 == 2:
            assert set(kind.request.inputs) == public
            continue
        if number % 3 == 0:
            (records,) = arrays(kind.request.inputs).values()
            examples = list(map(tf.train.Example.FromString, records))
            outputs = arrays(kind.response.outputs)
            assert {n: np.asarray(v).tolist() for n, v in answers.items()} == outputs
        else:
            examples = kind.request.input.example_list.examples
        assert len(examples) == 6
        for example_of_row in examples:
            assert set(example_of_row.features.feature) <= public
            assert "city" in example_of_row.features.feature


# --- The folder -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"serving_config_dir": "x"},
         "--serving_log_dir and --serving_config_dir: the second only writes files, and no request "
         "is answered. Remove one of them."),
        ({"serving_log_keep_mib": 63},
         "--serving_log_keep_mib=63: expected 0 or at least the size of one file, "
         "--serving_log_mib=64."),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit(tmp_path, changes, message):
    with pytest.raises(ek.ConfigError) as error:
        config(tmp_path, serving_log_dir="logs", **changes)
    assert message in str(error.value)


@pytest.mark.parametrize("rate", [0.0, 1.5, float("nan")])
def test_rates_that_are_none(tmp_path, rate):
    with pytest.raises(ek.ConfigError, match="--serving_log_rate: expected"):
        config(tmp_path, serving_log_dir="logs", serving_log_rate=rate)


def test_a_folder_that_is_a_file_is_an_error_at_the_start(made, tmp_path):
    (tmp_path / "logs").write_text("")
    with pytest.raises(ek.ConfigError) as error:
        server.serve(*[config(made, serving_log_dir=f"{tmp_path}/logs")] * 2, print)
    assert str(error.value) == (
        f"--serving_log_dir={tmp_path}/logs: {tmp_path}/logs is a file, expected a folder. Choose "
        "another path."
    )


def test_serving_goes_on_when_the_folder_is_lost(made, tmp_path, caplog):
    caplog.set_level("WARNING", logger="estimator_kit")
    folder = tmp_path / "logs"
    inputs = {"x": np.float32([[1, 2]]), "name": ["a"]}
    with serving(made, serving_log_dir=str(folder)) as (address, _, _):
        folder.rmdir()
        folder.write_text("somebody else's")
        with GrpcClient(address, "ads") as client:
            for _ in range(3):
                assert client.predict_tensors(inputs)["y"].tolist() == [[3, 6]]
    lost = [each for each in caplog.messages if each.startswith("request log: not logged: ")]
    assert lost and str(folder) in lost[0]
    assert folder.read_text() == "somebody else's"
