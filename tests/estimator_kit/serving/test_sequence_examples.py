"""An export of SequenceExamples answers like the Estimator (1e-6), served and for files."""

from __future__ import annotations

import json
import pathlib
import urllib.request

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.client import GrpcClient, RestClient, Rows
from tests.estimator_kit.serving.small_models import serving
from tests.feature_specs.test_sequence_examples import DOCUMENT, make_rows

pytestmark = pytest.mark.ci

# The values that pad a row of a request to the longest row.
FILL = {"words": "", "users": "", "kinds": -1, "counts": -1, "prices": float("nan"), "tags": ""}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The export's path, rows without labels, and the Estimator's predictions for them."""
    folder = tmp_path_factory.mktemp("steps")
    (folder / "spec.yaml").write_text(json.dumps(DOCUMENT))
    ek.write_sequence_examples(f"{folder}/rows.tfrecord", make_rows(40))
    ek.write_sequence_examples(f"{folder}/eval.tfrecord", make_rows(10, seed=1))
    given = {
        "spec": f"{folder}/spec.yaml", "model": "tests.feature_specs.test_sequences:MeanOfSteps",
        "model_params": {"learning_rate": 0.5}, "model_dir": f"{folder}/steps", "batch_size": 20,
    }  # fmt: skip
    result = ek.run(ek.ExperimentConfig(
        **given, train_files=(f"{folder}/rows.tfrecord",), max_steps=4, exporters=("final",),
        eval_files=(f"{folder}/eval.tfrecord",),
    ))  # fmt: skip
    rows = []
    for i, (context, lists) in enumerate(make_rows(23, seed=2)):
        context = {name: value for name, value in context.items() if name not in ("y", "row")}
        lists = {name: [] for name in lists} if i == 5 else lists
        rows.append((context, {} if i == 6 else lists))
    ek.write_sequence_examples(f"{folder}/asked.tfrecord", rows)
    ek.run(ek.ExperimentConfig(
        **given, mode="predict", predict_files=(f"{folder}/asked.tfrecord",),
        predict_output=f"{folder}/asked.jsonl",
    ))  # fmt: skip
    predicted = [json.loads(x) for x in (folder / "asked.jsonl").read_text().splitlines()]
    expected = {name: [row[name] for row in predicted] for name in predicted[0]}
    assert len({row["y/logits"] for row in predicted}) > 10  # The model reads the steps.
    return result.export_path, [{**context, **lists} for context, lists in rows], expected, folder


@pytest.fixture(scope="module")
def server(trained):
    path = pathlib.Path(trained[0])
    with serving(path.parent, serving_models=(f"steps={path.parent}",)) as (address, url, _):
        yield address, url


@pytest.fixture(scope="module")
def clients(trained, server):
    options = {"rows": Rows.of_export(trained[0]), "batch_rows": 10}
    address, url = server
    first, second = (GrpcClient(address, "steps", **options), RestClient(url, "steps", **options))
    with first, second:
        yield {"grpc": first, "rest": second}


def same(found, expected):
    assert set(found) == set(expected)
    for name, values in expected.items():
        if isinstance(np.ravel(values)[0], str):
            texts = [v.decode() if isinstance(v, bytes) else v for v in np.ravel(found[name])]
            assert texts == list(np.ravel(values)), name
        else:
            of_rows = np.asarray(found[name]).reshape(len(values), -1)
            wanted = np.asarray(values).reshape(len(values), -1)
            np.testing.assert_allclose(of_rows, wanted, rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_served_as_serialized_records(trained, clients, protocol):
    _, rows, expected, _ = trained
    same(clients[protocol].predict(rows), expected)


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_served_as_one_tensor_a_feature(trained, clients, protocol):
    _, rows, expected, _ = trained
    width = max(len(row.get(name, ())) for row in rows for name in FILL)
    tensors = {"city": [row["city"] for row in rows], "age": np.full(len(rows), 30, np.float32)}
    for name, fill in FILL.items():
        filled = [[*row.get(name, ()), *[fill] * width][:width] for row in rows]
        tensors[name] = np.float32(filled) if name == "prices" else filled
    same(clients[protocol].predict_tensors(tensors, signature="predict_raw"), expected)


def test_one_objective_by_each_protocol(trained, clients):
    _, rows, expected, _ = trained
    logits = {"y/logits": expected["y/logits"]}
    for client in clients.values():
        found = client.predict(rows, signature="predict/y")
        same({f"y/{name}": v for name, v in found.items() if name == "logits"}, logits)


def test_the_requests_beside_the_export(trained, server):
    path, _, _, folder = trained
    examples = pathlib.Path(path) / "client_examples"
    answers = []
    for name in ("request.json", "request_examples.json"):
        body = (examples / name).read_bytes()
        asked = urllib.request.Request(f"{server[1]}/v1/models/steps:predict", body)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            answers.append(json.loads(answer.read())["outputs"])
    predict = tf.saved_model.load(path).signatures["predict_examples"]
    record = next(tf.data.TFRecordDataset(f"{folder}/eval.tfrecord").as_numpy_iterator())
    (logit,) = predict(examples=tf.constant([record]))["y/logits"].numpy().ravel().tolist()
    for outputs in answers:
        np.testing.assert_allclose(outputs["y/logits"], [[logit]], rtol=1e-6, atol=1e-6)


def test_predicted_in_files(trained, tmp_path):
    path, rows, expected, folder = trained
    given = {"mode": "predict", "export_dir": path, "eval_batch_size": 8, "processes": 1}
    ek.run(ek.ExperimentConfig(
        **given, predict_files=(f"{folder}/asked.tfrecord",), predict_dir=f"{tmp_path}/records",
        keep_columns=("tags",),
    ))  # fmt: skip
    found = []
    names = f"{tmp_path}/records/asked.tfrecord"
    for i, record in enumerate(tf.data.TFRecordDataset(names).as_numpy_iterator()):
        features = tf.train.Example.FromString(record).features.feature
        assert [tag.decode() for tag in features["tags"].bytes_list.value] == rows[i]["tags"]
        found.append(features["y/logits"].float_list.value[0])
    same({"y/logits": found}, {"y/logits": expected["y/logits"]})
    table = pa.Table.from_pylist([{**dict.fromkeys(FILL), **row} for row in rows])
    pq.write_table(table, tmp_path / "asked.parquet")
    ek.run(ek.ExperimentConfig(
        **given, predict_files=(f"{tmp_path}/asked.parquet",), predict_dir=f"{tmp_path}/tables",
        keep_columns=("prices", "city"),
    ))  # fmt: skip
    scored = pq.read_table(tmp_path / "tables" / "asked.parquet")
    assert scored["prices"].equals(table["prices"]) and scored["city"].equals(table["city"])
    same({name: scored[name].to_pylist() for name in expected}, expected)
    with pytest.raises(ek.ConfigError) as error:
        ek.run(ek.ExperimentConfig(
            **given, predict_files=(f"{folder}/asked.tfrecord",), predict_dir=f"{tmp_path}/more",
            keep_columns=("prices",),
        ))  # fmt: skip
    assert str(error.value) == (
        "--keep_columns: 'prices' is a feature list, and the Examples of predictions have no "
        "feature lists. Keep a feature of the context."
    )
