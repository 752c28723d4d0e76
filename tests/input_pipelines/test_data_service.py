"""What the workers of a tf.data service compute, and where the data end."""

from __future__ import annotations

import gzip
import json
import pathlib
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from feature_specs.parser import parser
from input_pipelines import data_service
from input_pipelines.reading.negatives import Negatives
from input_pipelines.reading.sources import Files
from input_pipelines.record_files import writing
from tests.conftest import make_rows


@pytest.fixture
def spec(document, tmp_path):
    (tmp_path / "spec.yaml").write_text(json.dumps(document))
    return parser.load(str(tmp_path / "spec.yaml"))


@pytest.fixture
def files(tmp_path):
    """Three files with the prices 0, 1, ..., 89; one of them is GZIP."""
    paths, price = [], 0
    for i, count in enumerate((40, 35, 15)):
        rows = make_rows(count, seed=i)
        for row in rows:
            row["price"] = float(price)
            price += 1
        paths.append(f"{tmp_path}/{i}.tfrecord" + ".gz" * (i == 1))
        writing.write_examples(paths[-1], rows)
    return paths


def prices(batches) -> list[list[int]]:
    """The prices of each batch. The column is log1p of the price."""
    return [[round(float(p)) for p in np.expm1(features["price"][:, 0])] for features, _ in batches]


@pytest.fixture
def local():
    """Reads in this process as if from one worker."""

    def read(given, *, rows, lost_after_secs=60.0, batch_size=8):
        return data_service._to_the_end(given, batch_size, rows, lost_after_secs)

    return read


def test_a_worker_reads_all_rows_once_an_epoch_and_then_nothing(spec, files, local):
    given = data_service.WorkerInput(Files(spec, files), batch_size=8, epochs=2).dataset()
    batches = prices(local(given, rows=180).as_numpy_iterator())
    assert [len(batch) for batch in batches] == [8] * 22 + [4]
    assert Counter(p for batch in batches for p in batch) == Counter(dict.fromkeys(range(90), 2))
    assert batches[0] != sorted(batches[0])


def test_reading_starts_at_the_given_epoch(spec, files, local):
    negatives = Negatives("click", 0.5)

    def kept(first, end):
        given = data_service.WorkerInput(
            Files(spec, files, negatives=negatives), batch_size=8, first_epoch=first, epochs=end
        )
        elements = given.dataset().take_while(lambda f, labels: tf.size(labels["click"]) > 0)
        return sorted(p for batch in prices(elements.as_numpy_iterator()) for p in batch)

    assert sorted(kept(0, 1) + kept(1, 2)) == kept(0, 2)
    assert kept(0, 1) != kept(1, 2)  # Other negatives in each epoch.


def test_small_batches_of_workers_are_joined(local):
    """Batches of 3, 4, 0, 2, 4, 1, 0, ... rows become batches of four; the last one is smaller."""
    sizes = [3, 4, 0, 2, 4, 1, 0, 0, 0]
    ends = np.cumsum(sizes)
    ragged = tf.RaggedTensor.from_row_lengths(tf.range(14), tf.ones([14], tf.int64))

    def batch(start, end):
        rows = tf.range(start, end)
        return {"x": rows[:, tf.newaxis], "list": tf.gather(ragged, rows)}, {"y": rows}

    bounds = tf.data.Dataset.from_tensor_slices((ends - sizes, ends))
    given = bounds.map(lambda a, b: batch(tf.cast(a, tf.int32), tf.cast(b, tf.int32)))
    result = list(local(given, rows=14, batch_size=4).as_numpy_iterator())
    assert [labels["y"].tolist() for _, labels in result] == [
        [3, 4, 5, 6], [0, 1, 2, 7], [9, 10, 11, 12], [8, 13],
    ]  # fmt: skip
    for features, labels in result:
        assert features["x"][:, 0].tolist() == labels["y"].tolist()
        assert [row.tolist() for row in features["list"]] == [[y] for y in labels["y"]]


def test_reading_does_not_wait_for_lost_rows(spec, files, local):
    given = data_service.WorkerInput(Files(spec, files), batch_size=8, epochs=1).dataset()
    batches = prices(local(given, rows=10_000, lost_after_secs=0.0).as_numpy_iterator())
    assert sorted(p for batch in batches for p in batch) == list(range(90))


def test_a_file_that_is_cut_in_a_length_is_noticed_without_python(spec, files, local):
    path = pathlib.Path(files[0])
    path.write_bytes(
        path.read_bytes() + b"\1\0\0"
    )  # TensorFlow takes this for the end of the file.
    given = data_service.WorkerInput(Files(spec, files), batch_size=8, epochs=1).dataset()
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        list(local(given, rows=90))
    assert "the file ends before its last record does" in error.value.message
    assert files[0] in error.value.message


def test_members_of_gzip_are_refused(spec, files, local):
    path = pathlib.Path(files[1])
    data = gzip.decompress(path.read_bytes())
    length = 16 + int.from_bytes(data[:8], "little")
    path.write_bytes(gzip.compress(data[:length]) + gzip.compress(data[length:]))
    given = data_service.WorkerInput(Files(spec, files), batch_size=8, epochs=1).dataset()
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        list(local(given, rows=90))
    assert "or it has several GZIP members (write it again as one member):" in error.value.message
    assert files[1] in error.value.message
