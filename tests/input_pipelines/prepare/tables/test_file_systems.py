"""Tables in TensorFlow's file systems: paths with a scheme."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from input_pipelines.prepare.tables import reader


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_file_of_another_file_system(tmp_path, name):
    path = f"file://{tmp_path}/{name}"
    if name == "a.csv":
        with tf.io.gfile.GFile(path, "w") as file:
            file.write("a,b\n1,2\n3,4\n")
    else:
        pq.write_table(pa.table({"a": [1, 3], "b": [2, 4]}), tmp_path / name)
    rows = []
    for part in reader.open_table([path]).parts():
        for found in reader.read(part):
            rows += found.batch.to_pylist()
    assert rows == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
