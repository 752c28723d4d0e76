"""input_fns return every row, parsed and transformed, in the documented order."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from input_pipelines import input_fns
from input_pipelines.record_files import tfrecords, writing
from input_pipelines.record_files.sharding import Shard
from input_pipelines.transform import serving_inputs
from input_pipelines.transform.transforms import Transform
from tests.conftest import make_rows
from tests.input_pipelines.inputs import training


@pytest.fixture
def spec(document):
    # The label is the number of the row, so that rows can be identified.
    document["labels"]["row"] = {"dtype": "float32"}
    document["objectives"]["row"] = {"head": "regression"}
    return feature_specs.parse(document)


@pytest.fixture
def files(tmp_path):
    rows = [{**row, "row": float(row["row"])} for row in make_rows(250)]
    paths = [f"{tmp_path}/a.tfrecord", f"{tmp_path}/b.tfrecord.gz"]
    writing.write_examples(paths[0], rows[:180])
    writing.write_examples(paths[1], rows[180:])
    return paths


def row_numbers(input_fn) -> list[list[int]]:
    return [labels["row"].numpy().astype(int).tolist() for _, labels in input_fn()]


def flat(batches: list[list[int]]) -> list[int]:
    return [row for batch in batches for row in batch]


def test_features_and_labels_have_the_promised_types(spec, files):
    features, labels = next(iter(input_fns.eval_input_fn(spec, files, batch_size=4)()))
    described = {name: (v.dtype.name, v.shape.as_list()) for name, v in features.items()}
    assert described == {
        "price": ("float32", [4, 1]),
        "user": ("int64", [4]),
        "city": ("int64", [4]),
        "tag": ("int64", [4, None]),
        "city_x_tag": ("int64", [4, None]),
    }
    assert {name: v.dtype.name for name, v in labels.items()} == {
        "click": "int64", "buy": "int64", "row": "float32", "buy/weight": "float32",
    }  # fmt: skip
    np.testing.assert_array_equal(labels["buy/weight"], tf.cast(labels["click"], tf.float32))
    first = make_rows(1)[0]
    np.testing.assert_allclose(features["price"][0, 0], np.log1p(first["price"]), rtol=1e-6)
    assert features["city"][0] == ["rome", "oslo", "lima"].index(first["city"])


@pytest.mark.parametrize(("epochs", "rows"), [(None, 100), (1, None)])
def test_the_batch_size_is_static_if_no_batch_is_smaller(spec, files, epochs, rows):
    batches = input_fns.train_input_fn(spec, files, batch_size=100, epochs=epochs)()
    features, labels = batches.element_spec
    single = [features["price"], features["user"], *labels.values()]
    assert {values.shape[0] for values in single} == {rows}
    # 250 rows in an epoch: without end, the third batch has rows of two epochs.
    sizes = [len(labels["row"]) for _, labels in batches.take(4)]
    assert sizes == ([100, 100, 100, 100] if epochs is None else [100, 100, 50])


def test_evaluation_and_prediction_keep_the_order(spec, files):
    batches = row_numbers(input_fns.eval_input_fn(spec, files, batch_size=100))
    assert [len(batch) for batch in batches] == [100, 100, 50]
    assert flat(batches) == list(range(250))
    limited = input_fns.eval_input_fn(spec, files, batch_size=100, limit=2)
    assert flat(row_numbers(limited)) == list(range(200))
    predicted = input_fns.predict_input_fn(spec, files, batch_size=100)()
    prices = np.concatenate([features["price"][:, 0] for features in predicted])
    np.testing.assert_allclose(prices, np.log1p([r["price"] for r in make_rows(250)]), rtol=1e-6)


def test_training_reads_each_row_once_an_epoch_and_batches_run_on(spec, files):
    batches = row_numbers(input_fns.train_input_fn(spec, files, batch_size=64, epochs=2))
    assert [len(batch) for batch in batches] == [64] * 7 + [52]
    rows = flat(batches)
    assert sorted(rows[:250]) == list(range(250)) == sorted(rows[250:])
    assert rows[:250] != rows[250:] and rows[:250] != list(range(250))


def test_shuffled_labels_stay_with_the_features_of_their_row(spec, files):
    prices = np.log1p([row["price"] for row in make_rows(250)])
    for features, labels in training(spec, files, batch_size=64, epochs=1)():
        numbers = labels["row"].numpy().astype(int)
        np.testing.assert_allclose(features["price"][:, 0], prices[numbers], rtol=1e-6)


def test_without_shuffling_the_order_is_that_of_the_files(spec, files):
    input_fn = input_fns.train_input_fn(spec, files, batch_size=250, epochs=1, shuffle=False)
    assert row_numbers(input_fn) == [list(range(250))]


def test_an_interrupted_training_goes_on_exactly(spec, files):
    def run(skip):
        return training(spec, files, batch_size=50, epochs=3, skip_rows=skip, rows_an_epoch=250)

    assert row_numbers(run(300)) == row_numbers(run(0))[6:]


def test_skipping_needs_the_number_of_rows(spec, files):
    with pytest.raises(ValueError, match="skip needs the rows of an epoch"):
        training(spec, files, batch_size=50, skip_rows=1)


# Whole files, then single records.
@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.ci)])
def test_workers_share_the_rows(spec, files, count):
    class Context:
        num_input_pipelines = count

    rows = []
    for index in range(count):
        own = training(spec, files, batch_size=64, epochs=1, shard=Shard(count, index))
        rows += flat(row_numbers(own))
        # A distribution strategy passes the same numbers in an input context.
        Context.input_pipeline_id = index
        same = input_fns.train_input_fn(spec, files, batch_size=64, epochs=1)(Context())
        assert [labels["row"].numpy().tolist() for _, labels in same] == [
            [float(row) for row in batch] for batch in row_numbers(own)
        ]
    assert sorted(rows) == list(range(250))


def test_serving_reads_as_training_does(spec, files):
    records = [record for block in tfrecords.blocks(files) for record in block.numpy()]
    features, _ = next(iter(input_fns.eval_input_fn(spec, files, batch_size=250)()))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        model_inputs, receivers = serving_inputs.features_and_receivers(spec)
        session.run(tf.compat.v1.tables_initializer())
        served = session.run(model_inputs, {receivers["examples"]: records})
    for name, value in features.items():
        expected = value.flat_values if isinstance(value, tf.RaggedTensor) else value
        found = served[name]
        found = found.flat_values if hasattr(found, "flat_values") else found
        np.testing.assert_array_equal(found, expected.numpy(), err_msg=name)


def test_a_record_without_labels_can_be_predicted(document):
    spec = feature_specs.parse(document)
    record = writing.example({"city": "rome"}).SerializeToString()
    features = Transform(spec).features(tf.constant([record]))
    assert features["price"].numpy().tolist() == [[0.0]]
    assert features["user"].numpy().tolist() == [-1]
    assert features["city"].numpy().tolist() == [0]
    assert features["tag"].to_list() == [[]]
