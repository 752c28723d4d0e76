"""The rows on which two models are compared."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_kit.retraining import gate_stage
from estimator_kit.scoring import eval_rows
from input_pipelines.errors import DataError
from input_pipelines.record_files import writing


def write(folder, name, numbers):
    # With GZIP a file without records has bytes, so it does not count as damaged.
    path = str(folder / f"{name}.tfrecord.gz")
    writing.write_examples(path, [{"x": number} for number in numbers])
    return path


def numbers(records):
    examples = [tf.train.Example.FromString(record) for record in records]
    return [example.features.feature["x"].int64_list.value[0] for example in examples]


def test_requests_are_of_records_from_as_many_files_as_it_takes(tmp_path):
    content = {"c": [4, 5], "a": [], "b": [1, 2, 3]}
    paths = [write(tmp_path, name, there) for name, there in content.items()]
    for count, expected in ((2, [1, 2]), (4, [1, 2, 3, 4]), (8, [1, 2, 3, 4, 5])):
        assert numbers(eval_rows.first_records(paths, count)) == expected


def test_a_staged_model_is_not_verified_with_nothing(tmp_path):
    paths = [write(tmp_path, "a", []), write(tmp_path, "b", [])]
    with pytest.raises(DataError) as error:
        gate_stage.verify("never loaded", paths)
    assert str(error.value) == (
        "the 2 evaluation files have no record, so no request can be sent to a model"
    )
