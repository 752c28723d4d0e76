"""Request logs of TensorFlow Serving's own classes, in all their forms, become rows with scores."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from estimator_kit.scoring.request_logs import RequestLogs, numbers_of, values_of
from feature_specs.parser import parser
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze.wire import parse_block
from input_pipelines.record_files import writing
from tests.conftest import make_rows
from tests.estimator_kit.monitoring.logs import (
    column,
    predict_log,
    records_of,
    seconds,
    write_log,
)

NOON = seconds("2026-01-05T12:00")


@pytest.fixture
def spec(document):
    return parser.parse(document)


def read(spec, path, **options):
    logs = RequestLogs(lambda version: spec, **options)
    return [*logs.blocks(str(path))], logs


def test_requests_of_two_versions_are_two_blocks(spec, tmp_path):
    rows = records_of(make_rows(6))
    logits = np.arange(6.0) - 2
    path = write_log(tmp_path / "a.tfrecord", [
        predict_log(rows[:3], {"click/logits": column(logits[:3])}, time=NOON, version=3),
        predict_log(rows[3:4], {"click/logits": column(logits[3:4])}, time=NOON + 1, version=4),
        predict_log(rows[4:], {"click/logits": column(logits[4:])}, time=NOON + 2, version=3),
    ])  # fmt: skip
    blocks, logs = read(spec, path)
    assert [block.version for block in blocks] == [3, 4]
    first, second = blocks
    assert first.records == [*rows[:3], *rows[4:]] and second.records == rows[3:4]
    assert first.times.tolist() == [NOON] * 3 + [NOON + 2] * 2
    assert first.requests.tolist() == [0, 0, 0, 2, 2] and second.requests.tolist() == [1]
    assert first.scores["click"].tolist() == [-2, -1, 0, 2, 3]
    assert list(first.scores) == ["click"]  # `buy` was not answered.
    assert not logs.not_read
    part = first.take(np.array([1, 4]))
    assert part.records == [rows[1], rows[5]] and part.scores["click"].tolist() == [-1, 3]


def test_probabilities_become_logits_again(spec, tmp_path):
    rows, p = records_of(make_rows(3)), np.array([0.1, 0.5, 0.9])
    both = np.stack([1 - p, p], axis=1).astype(np.float32)
    path = write_log(tmp_path / "a.tfrecord", [
        predict_log(rows, {"click/probabilities": both, "buy/logistic": column(p)}, time=NOON),
    ])  # fmt: skip
    ((block,), _) = read(spec, path)
    expected = np.log(p / (1 - p))
    np.testing.assert_allclose(block.scores["click"], expected, atol=1e-6)
    np.testing.assert_allclose(block.scores["buy"], expected, atol=1e-6)


def test_classify_regress_and_several_at_once(spec, tmp_path):
    rows, p = records_of(make_rows(2)), [0.25, 0.75]
    classify = prediction_log_pb2.PredictionLog()
    classify.log_metadata.timestamp_secs = NOON
    body = classify.classify_log
    body.request.model_spec.signature_name = "classify/click"
    body.response.model_spec.version.value = 8
    body.request.input.example_list.examples.extend(map(tf.train.Example.FromString, rows))
    for probability in p:
        classes = body.response.result.classifications.add().classes
        classes.add(label="0", score=1 - probability)
        classes.add(label="1", score=probability)
    regress = prediction_log_pb2.PredictionLog()
    regress.log_metadata.timestamp_secs = NOON
    body = regress.regress_log
    body.request.model_spec.signature_name = "regress/buy"
    with_context = body.request.input.example_list_with_context
    with_context.context.CopyFrom(writing.example({"city": "rome"}))
    with_context.examples.extend([writing.example({"price": 1.0}), writing.example({"price": 2.0})])
    for probability in p:
        body.response.result.regressions.add(value=probability)
    several = prediction_log_pb2.PredictionLog()
    several.log_metadata.timestamp_secs = NOON
    body = several.multi_inference_log
    body.request.input.example_list.examples.extend(map(tf.train.Example.FromString, rows))
    result = body.response.results.add()
    result.model_spec.signature_name = "classify/click"
    result.classification_result.CopyFrom(classify.classify_log.response.result)
    result = body.response.results.add()
    result.model_spec.signature_name = "regress/buy"
    result.regression_result.CopyFrom(regress.regress_log.response.result)
    path = write_log(tmp_path / "a.tfrecord", [classify, regress, several])
    blocks, _ = read(spec, path)
    assert [(block.version, [*block.scores]) for block in blocks] == [
        (8, ["click"]), (None, ["buy"]), (None, ["buy", "click"]),
    ]  # fmt: skip
    for block in blocks:
        for scores in block.scores.values():
            np.testing.assert_allclose(scores, np.log([1 / 3, 3]), atol=1e-6)
    features = blocks[1].features
    assert values_of(features, "city", 2).tolist() == [b"rome", b"rome"]
    assert numbers_of(features, "price", 2).tolist() == [1.0, 2.0]


def test_requests_to_predict_raw_become_records(spec, tmp_path):
    log = prediction_log_pb2.PredictionLog()
    log.log_metadata.timestamp_secs = NOON
    inputs = log.predict_log.request.inputs
    for name, values in {
        "price": np.array([1.5, 2.5], np.float32), "user": [b"ann", b""], "city": [b"rome", b"x"],
        "tags": [[b"a", b"b"], [b"c", b""]],
    }.items():  # fmt: skip
        inputs[name].CopyFrom(tf.make_tensor_proto(values))
    outputs = log.predict_log.response.outputs
    outputs["click/logits"].CopyFrom(tf.make_tensor_proto(column([1, 2])))
    ((block,), _) = read(spec, write_log(tmp_path / "a.tfrecord", [log]))
    tags = parse_block(block.records)["tags"][0]
    assert tags.lengths.tolist() == [2, 1] and tags.values == [b"a", b"b", b"c"]
    assert values_of(block.features, "city", 2).tolist() == [b"rome", b"x"]
    assert block.scores["click"].tolist() == [1, 2]


def test_the_time_of_a_row(spec, tmp_path):
    """The log, else the feature, else the name of the file."""
    rows = [{"city": "rome", "at": NOON + i} for i in range(2)]
    outputs = {"click/logits": column([0, 1])}
    stamped = predict_log(records_of(rows), outputs, time=NOON - 60, version=1)
    plain = predict_log(records_of(rows), outputs, version=1)
    path = write_log(tmp_path / "requests-20260105T133000Z-4-0.tfrecord", [stamped, plain])
    ((block,), _) = read(spec, path, time_feature="at")
    assert block.times.tolist() == [NOON - 60, NOON - 60, NOON, NOON + 1]
    ((block,), _) = read(spec, path)
    assert block.times.tolist() == [NOON - 60] * 2 + [seconds("2026-01-05T13:30")] * 2
    other = write_log(tmp_path / "a.tfrecord", [plain])
    with pytest.raises(DataError, match="a request has no time: its log has no timestamp"):
        read(spec, other)
    milliseconds = [{"city": "rome", "at": NOON * 1000}]
    path = write_log(
        tmp_path / "b.tfrecord", [predict_log(records_of(milliseconds), {}, version=1)]
    )
    with pytest.raises(DataError, match=r"expected seconds since 1970. Check --request_time"):
        read(spec, path, time_feature="at")


def test_a_version_that_only_the_time_tells(spec, tmp_path):
    def at(time):
        return 1 if time < NOON else 2

    rows = [{"city": "rome", "at": NOON + i} for i in (-1, 1)]
    outputs = {"click/logits": column([0])}
    logs = [predict_log(records_of([row]), outputs) for row in rows]
    path = write_log(tmp_path / "a.tfrecord", logs)
    blocks, _ = read(spec, path, time_feature="at", version_at=at)
    assert [(block.version, block.times.tolist()) for block in blocks] == [
        (1, [NOON - 1]), (2, [NOON + 1]),
    ]  # fmt: skip
    path = write_log(tmp_path / "b.tfrecord", [predict_log(records_of(rows), {}, time=NOON)])
    ((block,), _) = read(spec, path, version_at=at)
    assert block.version == 2


def test_what_is_not_read_is_counted(spec, tmp_path):
    session = prediction_log_pb2.PredictionLog()
    session.session_run_log.request.fetch.append("x")
    ids = prediction_log_pb2.PredictionLog()
    ids.predict_log.request.inputs["ids"].CopyFrom(tf.make_tensor_proto([1]))
    broken = prediction_log_pb2.PredictionLog()
    broken.predict_log.request.inputs["examples"].dtype = 7
    broken.predict_log.request.inputs["examples"].tensor_shape.dim.add().size = 2
    broken.log_metadata.timestamp_secs = NOON
    ids.log_metadata.timestamp_secs = NOON
    path = write_log(tmp_path / "a.tfrecord", [session, ids, broken])
    blocks, logs = read(spec, path)
    assert blocks == [] and dict(logs.not_read) == {
        "requests of the kind session_run_log": 1,
        "requests to a signature that takes no records": 1,
        "requests with a tensor that cannot be read, such as: string_val has 0 values, but the "
        "shape [2] needs 2": 1,
    }


def test_files_that_are_no_logs(spec, tmp_path):
    writing.write_examples(str(tmp_path / "data.tfrecord"), [{"price": 1.0}])
    with pytest.raises(DataError, match=r"data.tfrecord: record 0"):
        read(spec, tmp_path / "data.tfrecord")
    path = write_log(tmp_path / "a.tfrecord", [predict_log([b"\xff\xff"], {}, time=NOON)])
    with pytest.raises(DataError, match=r"record 0: the request has a record that is not a"):
        read(spec, path)
    good = predict_log(records_of(make_rows(1)), {}, time=NOON)
    path = write_log(tmp_path / "c.tfrecord", [good, good])
    with open(path, "r+b") as file:
        file.truncate((tmp_path / "c.tfrecord").stat().st_size - 5)
    with pytest.raises(DataError, match=r"c.tfrecord"):
        read(spec, path)


def test_several_models_need_a_name(spec, tmp_path):
    logs = [
        predict_log(records_of(make_rows(1)), {}, time=NOON, model=name) for name in ("ads", "feed")
    ]
    path = write_log(tmp_path / "a.tfrecord", logs)
    with pytest.raises(DataError, match=r"several models, 'ads', 'feed'. Choose one with --requ"):
        read(spec, path)
    ((block,), reader) = read(spec, path, model="feed")
    assert block.requests.tolist() == [1]
    assert dict(reader.not_read) == {"requests to other models": 1}


def test_the_canary_of_a_model_is_the_same_model(spec, tmp_path):
    logs = [
        predict_log(records_of(make_rows(1)), {}, time=NOON, model=name, version=version)
        for name, version in (("ads", 7), ("ads_canary", 8))
    ]
    path = write_log(tmp_path / "a.tfrecord", logs)
    for options in ({}, {"model": "ads"}, {"model": "ads_canary"}):
        blocks, _ = read(spec, path, **options)
        assert [block.version for block in blocks] == [7, 8]
