"""Writes, reads and counts TFRecords, and says where a file is damaged."""

from __future__ import annotations

import gzip
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines.errors import DataError
from input_pipelines.reading.files import expand
from input_pipelines.record_files import file_bytes, record_lists, tfrecords, writing


def test_values_become_the_lists_of_their_types():
    row = {
        "f": 1.5, "i": 2, "s": "ü", "b": b"\xff", "many": [1, 2.5], "array": np.arange(2),
        "flag": True, "none": None, "empty": [],
    }  # fmt: skip
    features = writing.example(row).features.feature
    assert features["f"].float_list.value == [1.5]
    assert features["i"].int64_list.value == [2]
    assert features["s"].bytes_list.value == ["ü".encode()]
    assert features["b"].bytes_list.value == [b"\xff"]
    assert features["many"].float_list.value == [1.0, 2.5]
    assert features["array"].int64_list.value == [0, 1]
    assert features["flag"].int64_list.value == [1]
    assert "none" not in features
    assert features["empty"].WhichOneof("kind") is None


@pytest.mark.parametrize("value", [[1, "a"], object(), [None]])
def test_a_mixture_is_refused(value):
    with pytest.raises(TypeError, match="expected a number, a string, or a flat list of either"):
        writing.example({"x": value})


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_what_was_written_is_read(tmp_path, name):
    path = str(tmp_path / "new" / name)
    assert writing.write_examples(path, ({"x": i} for i in range(2500))) == 2500
    with open(path, "rb") as file:
        assert (file.read(2) == b"\x1f\x8b") == name.endswith(".gz")
    assert [len(block) for block in tfrecords.blocks([path])] == [1024, 1024, 452]
    assert tfrecords.count_records([path]) == 2500


def test_a_failure_leaves_the_old_file(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    writing.write_examples(path, [{"x": 1}])
    before = pathlib.Path(path).read_bytes()
    with pytest.raises(TypeError):
        writing.write_examples(path, [{"x": 2}, {"x": object()}])
    assert pathlib.Path(path).read_bytes() == before


def test_no_record_at_all_is_noticed(tmp_path):
    path = str(tmp_path / "a.tfrecord.gz")
    writing.write_examples(path, [])
    assert record_lists.first_records([path]) == {}
    assert tfrecords.count_records([path]) == 0


def test_a_file_without_a_byte_is_an_error(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    writing.write_examples(path, [])
    message = rf"^{path}: record 0 at byte 0: the file is empty: it has 0 bytes$"
    with pytest.raises(DataError, match=message):
        record_lists.first_records([path])
    with pytest.raises(DataError, match=message):
        tfrecords.count_records([path])


def test_the_first_records_of_each_file(tmp_path):
    paths = [str(tmp_path / name) for name in ("b.tfrecord", "a.tfrecord.gz", "empty.tfrecord.gz")]
    for path, count in zip(paths, (70, 2, 0)):
        writing.write_examples(path, [{"x": i} for i in range(count)])
    first = record_lists.first_records(paths)
    assert list(first) == paths[:2]
    assert [len(records) for records in first.values()] == [64, 2]
    numbers = [tf.train.Example.FromString(r).features.feature["x"] for r in first[paths[0]]]
    assert [number.int64_list.value[0] for number in numbers] == list(range(64))


def break_file(path: str, how: str) -> None:
    data = bytearray(pathlib.Path(path).read_bytes())
    if how == "flipped":
        data[len(data) // 2] ^= 0xFF
    elif how == "cut":
        del data[-5:]
    elif how == "text":
        data = bytearray(b"a,b,c\n1,2,3\n" * 10)
    elif how == "packed":
        data = bytearray(gzip.compress(bytes(data)))
    with open(path, "wb") as file:
        file.write(data)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("flipped", r"record 5 at byte 150: the checksum of its length is wrong; 30 bytes are "
                    r"lost, up to the next record at byte 180$"),
        ("cut", r"record 9 at byte 270: it is cut off: the file has only 25 of its 30 bytes$"),
        ("text", r"record 0 at byte 0: the checksum of its length is wrong; 120 bytes are lost, up "
                 r"to the end of the file\. Is it a TFRecord file, and compressed as its name "),
        ("packed", r"record 0 at byte 0: the file is GZIP, but its name does not end in \.gz or "),
    ],
)  # fmt: skip
def test_a_broken_file_is_named_with_its_bad_record(tmp_path, how, message):
    path = str(tmp_path / "a.tfrecord")
    writing.write_examples(path, [{"x": i} for i in range(10)])
    break_file(path, how)
    with pytest.raises(DataError, match=f"^{path}: {message}"):
        tfrecords.count_records([path])
    with pytest.raises(DataError, match=f"^{path}: {message}"):
        record_lists.first_records([path])


def test_a_table_in_the_place_of_records_is_told(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n" * 10)
    with pytest.raises(DataError) as error:
        record_lists.first_records([str(path)])
    assert str(error.value) == (
        f"{path}: this is a CSV file by its name, expected a TFRecord file. Convert it first: "
        f"estimator-kit convert --convert_files={path} --convert_dir=<a new folder>, with "
        "--spec for its types"
    )


def test_patterns_are_expanded_sorted_and_once(tmp_path):
    for name in ("b", "a", "c"):
        (tmp_path / name).write_text("")
    (tmp_path / "folder").mkdir()
    found = expand([f"{tmp_path}/[ab]", f"{tmp_path}/*"])
    assert [os.path.basename(path) for path in found] == ["a", "b", "c"]


def test_a_pattern_without_a_file_is_an_error(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(DataError) as error:
        expand([f"{tmp_path}/a", f"{tmp_path}/x*"], flag="--train_files")
    assert str(error.value) == f"no file matches '{tmp_path}/x*' of --train_files"
    with pytest.raises(DataError, match=r"^--train_files is empty\. Name the TFRecord files"):
        expand([], flag="--train_files")


def test_reading_in_a_graph_gives_the_same(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    writing.write_examples(path, [{"x": 1}])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        block = tf.compat.v1.data.make_one_shot_iterator(tfrecords.blocks([path])).get_next()
        assert len(session.run(block)) == 1


def test_files_that_say_how_long_they_are_need_no_python_while_they_are_read(tmp_path, monkeypatch):
    def asked(path, total):
        raise AssertionError(f"Python was asked about {path}")

    monkeypatch.setattr(file_bytes, "reached_end", asked)
    paths = [str(tmp_path / name) for name in ("a.tfrecord", "b.tfrecord.gz")]
    for path in paths:
        writing.write_examples(path, [{"row": i} for i in range(2500)])
    assert tfrecords.count_records(paths) == 5000


def test_two_writers_of_one_file_each_write_a_whole_one(tmp_path):
    path = str(tmp_path / "a.tfrecord")

    def rows():
        yield {"x": 1}
        assert writing.write_examples(path, [{"x": 2}] * 3) == 3
        assert len([*tf.data.TFRecordDataset(path)]) == 3
        yield {"x": 1}

    assert writing.write_examples(path, rows()) == 2
    assert len([*tf.data.TFRecordDataset(path)]) == 2 and os.listdir(tmp_path) == ["a.tfrecord"]
