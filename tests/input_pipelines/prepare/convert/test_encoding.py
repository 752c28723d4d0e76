"""Records have the same bytes as from the protobuf library, and files as from TensorFlow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from input_pipelines.prepare.convert import encoding
from input_pipelines.prepare.convert.encoding import Encoder
from input_pipelines.prepare.convert.fields import Field
from input_pipelines.record_files import framing, writing

ARROW = {"int64": pa.int64(), "float32": pa.float32(), "string": pa.binary()}
VALUES = {
    "int64": st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 300),
    "float32": st.floats(width=32),
    "string": st.binary(max_size=6) | st.binary(min_size=120, max_size=140),
}
NAMES = ["a", "b", "B", "ab", "ä", "", "user_id", "x" * 130]


@st.composite
def tables(draw):
    fields = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5)):
        dtype = draw(st.sampled_from(sorted(VALUES)))
        multi = draw(st.booleans())
        fields.append(Field(name, dtype, multi, multi and draw(st.booleans())))
    rows = draw(st.integers(0, 6))
    columns = []
    for field in fields:
        value = VALUES[field.dtype]
        cell = st.none() | (st.lists(value, max_size=4) if field.multi else value)
        columns.append(draw(st.lists(cell, min_size=rows, max_size=rows)))
    return fields, rows, columns


def batch_of(fields, rows, columns):
    arrays = [
        pa.array(values, pa.list_(ARROW[f.dtype]) if f.multi else ARROW[f.dtype])
        for f, values in zip(fields, columns)
    ]
    if not fields:
        return pa.record_batch({"unused": pa.nulls(rows)})
    return pa.RecordBatch.from_arrays(arrays, [field.name for field in fields])


def by_protobuf(fields, rows, columns):
    """The same records, made one at a time from protobuf messages."""
    records, messages = [], []
    for i in range(rows):
        row = {f.name: column[i] for f, column in zip(fields, columns) if not f.feature_list}
        lists = {f.name: column[i] for f, column in zip(fields, columns) if f.feature_list}
        messages.append(writing.sequence_example(row, lists) if lists else writing.example(row))
        # The library puts "ab" before "a", so entries are made one by one and sorted here.
        entries = [
            tf.train.Features(feature=writing.example({name: row[name]}).features.feature)
            for name in sorted(row, key=str.encode)
        ]
        record = framing.length_delimited(
            0x0A, b"".join(entry.SerializeToString() for entry in entries)
        )
        if lists:
            steps = [
                writing.sequence_example({}, {name: lists[name]}).feature_lists
                for name in sorted(lists, key=str.encode)
            ]
            record += framing.length_delimited(
                0x12, b"".join(step.SerializeToString() for step in steps)
            )
        records.append(record)
    return records, messages


def same_bytes(fields, rows, columns):
    found = Encoder(fields).encode(batch_of(fields, rows, columns)).to_pylist()
    expected, messages = by_protobuf(fields, rows, columns)
    assert found == expected
    for record, message in zip(found, messages):
        assert type(message).FromString(record).SerializeToString(
            deterministic=True
        ) == message.SerializeToString(deterministic=True)


@settings(max_examples=150, deadline=None)
@given(tables())
def test_the_bytes_of_the_protobuf_library(table):
    same_bytes(*table)


@settings(max_examples=50, deadline=None)
@given(tables(), st.integers(0, 3), st.integers(1, 4))
def test_the_bytes_of_a_part_of_a_batch(table, start, count):
    found = Encoder(table[0]).encode(batch_of(*table).slice(start, count)).to_pylist()
    assert found == by_protobuf(*table)[0][start : start + count]


def test_long_values_and_many_rows():
    fields = [Field("word", "string"), Field("n", "int64"), Field("v", "float32", True)]
    rows = 3000
    columns = [
        [b"x" * (i * 7 % 400) if i % 10 else b"y" * 70_000 for i in range(rows)],
        [i**5 * (-1) ** i for i in range(rows)],
        [[0.5] * (i % 40) for i in range(rows)],
    ]
    same_bytes(fields, rows, columns)
    same_bytes(fields[:1], 2, [[b"z" * 3_000_000, None]])


def test_a_part_of_a_batch_of_lists():
    fields = [Field("a", "int64", True), Field("b", "string"), Field("c", "string", True)]
    columns = [
        [[1], None, [2, 3], [], [300]], [b"p", b"q", None, b"r", b"s"],
        [[b"1", b"2"], [b"3"], [], None, [b"4", b"5"]],
    ]  # fmt: skip
    batch = batch_of(fields, 5, columns).slice(1, 3)
    found = Encoder(fields).encode(batch).to_pylist()
    assert found == by_protobuf(fields, 5, columns)[0][1:4]


def test_many_varints_are_those_of_single_numbers():
    numbers = [0, 127, 128, 300, 2**35, 2**63 - 1]
    assert encoding._varints(pa.array(numbers)).to_pylist() == [*map(framing.varint, numbers)]


# The test vectors of RFC 3720 (iSCSI), B.4, and the usual check value.
@pytest.mark.parametrize(
    "data, crc",
    [
        (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E), (bytes(range(31, -1, -1)), 0x113FDB5C), (b"", 0),
    ],
)  # fmt: skip
def test_known_checksums(data, crc):
    frame = framing.frames(pa.array([data], pa.binary()))[0].tobytes()
    rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    assert frame[12:] == data + ((rotated + 0xA282EAD8) % 2**32).to_bytes(4, "little")


def test_tensorflow_reads_the_frames_of_records_of_all_lengths(tmp_path):
    rng = np.random.default_rng(0)
    sizes = [*range(40), 1015, 1016, 1023, 1024, 1025, 2047, 2048, 2049, 10_000, 300_000]
    records = [rng.bytes(size) for size in sizes]
    data, at = framing.frames(pa.array(records, pa.binary()).slice(0))
    assert np.diff(at).tolist() == [size + 16 for size in sizes]
    (tmp_path / "a").write_bytes(data.tobytes())
    dataset = tf.data.TFRecordDataset(f"{tmp_path}/a")
    assert list(dataset.as_numpy_iterator()) == records
    with tf.io.TFRecordWriter(f"{tmp_path}/b") as writer:
        for record in records:
            writer.write(record)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    sliced, _ = framing.frames(pa.array(records, pa.binary()).slice(3, 5))
    assert sliced.tobytes() == data[at[3] : at[8]].tobytes()
