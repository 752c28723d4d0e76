"""wire: the arrays of a block have the same values as the protobuf library reads from records."""

from __future__ import annotations

import random

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from input_pipelines.prepare.analyze import wire
from input_pipelines.prepare.analyze.protobuf_records import NotAnExample
from input_pipelines.record_files.writing import example

KINDS = {"bytes_list": "string", "float_list": "float32", "int64_list": "int64", None: ""}


def reference(records):
    """{(name, dtype): [(row, values)]}, read by the protobuf library."""
    found = {}
    for row, record in enumerate(records):
        for name, feature in tf.train.Example.FromString(record).features.feature.items():
            kind = feature.WhichOneof("kind")
            values = list(getattr(feature, kind).value) if kind else []
            found.setdefault((name, KINDS[kind]), []).append((row, values))
    return found


def by_arrays(records):
    found = {}
    for name, blocks in wire.parse_block(records).items():
        for block in blocks:
            values = block.values if isinstance(block.values, list) else block.values.tolist()
            ends = np.cumsum(block.lengths)
            assert ends[-1] == len(values)
            parts = [values[e - n : e] for e, n in zip(ends, block.lengths)]
            found.setdefault((name, block.dtype), []).extend(zip(block.rows.tolist(), parts))
    return {key: sorted(parts) for key, parts in found.items()}


floats = st.floats(width=32, allow_nan=False)
int64s = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 300)
values = (
    st.lists(floats, max_size=4) | st.lists(int64s, max_size=4) | st.lists(st.binary(), max_size=4)
    | st.binary(min_size=120, max_size=140) | int64s | floats
)  # fmt: skip
names = st.sampled_from(["a", "b", "é", "", "a name of more than eight", "a name of more than 8"])
rows = st.dictionaries(names, values, max_size=5)


@hypothesis.settings(max_examples=150, deadline=None, derandomize=True)
@hypothesis.given(rows=st.lists(rows, max_size=8))
def test_random_records(rows):
    records = [example(row).SerializeToString() for row in rows]
    assert by_arrays(records) == reference(records)


def test_names_in_another_order_in_every_record():
    rng = random.Random(3)
    records = []
    for i in range(50):
        row = {"x": i, "y": float(i), "z": [f"w{i}", "w"] * (i % 3), "long" * 40: 2**62 - i}
        # Entries are written one by one, because the library decides the order of a map.
        entries = [
            tf.train.Features(feature=example({k: v}).features.feature).SerializeToString()
            for k, v in row.items()
        ]
        rng.shuffle(entries)
        features = b"".join(entries)
        head, size = b"\x0a", len(features)
        while size >= 128:
            head, size = head + bytes([size % 128 + 128]), size // 128
        records.append(head + bytes([size]) + features)
    assert by_arrays(records) == reference(records)


FEATURE = bytes([0x0A, 1]) + b"x"  # The name of a map entry.


def record_of(value: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
    """An Example with one feature `x` that has these bytes; sizes must be below 128."""
    entry = before + FEATURE + bytes([0x12, len(value)]) + value + after
    features = bytes([0x0A, len(entry)]) + entry
    return bytes([0x0A, len(features)]) + features


@pytest.mark.parametrize(
    "record, expected",
    [
        (b"", {}),
        (b"\x0a\x00", {}),
        # Numbers that are not packed: each has a separate tag.
        (record_of(b"\x1a\x04\x08\x05\x08\x07"), {("x", "int64"): [(1, [5, 7])]}),
        (record_of(b"\x12\x05\x0d\x00\x00\x80\x3f"), {("x", "float32"): [(1, [1.0])]}),
        # A list in two packed parts.
        (record_of(b"\x1a\x06\x0a\x01\x05\x0a\x01\x07"), {("x", "int64"): [(1, [5, 7])]}),
        # The value before the name, and an unknown field.
        (b"\x0a\x0c\x0a\x0a\x12\x05\x1a\x03\x0a\x01\x05\x0a\x01x", {("x", "int64"): [(1, [5])]}),
        (record_of(b"\x1a\x03\x0a\x01\x05") + b"\x50\x01", {("x", "int64"): [(1, [5])]}),
        # If a name has two entries, the later one counts.
        (b"\x0a\x18" + b"\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01\x05" * 2,
         {("x", "int64"): [(1, [5])]}),
        (record_of(b""), {("x", ""): [(1, [])]}),
        (record_of(b"\x1a\x00"), {("x", "int64"): [(1, [])]}),
    ],
)  # fmt: skip
def test_other_forms_are_read_like_protobuf(record, expected):
    common = example({"x": 1}).SerializeToString()
    assert by_arrays([common, record, common]) == reference([common, record, common])
    found = by_arrays([b"", record])
    assert found == expected


@pytest.mark.parametrize(
    "record",
    [
        b"not an example",
        b"\x0a\x05abc",
        b"\x0a\xff\xff\xff\xff\xff\xff",
        record_of(b"\x1a\x03\x0a\x01\x85"),
        record_of(b"\x12\x05\x0a\x03abc"),
        b"\x0a\x0c\x0a\x0a\x0a\x01\xff\x12\x05\x1a\x03\x0a\x01\x05",
    ],
)
def test_the_place_of_a_record_that_is_not_an_example_is_named(record):
    common = example({"x": 1}).SerializeToString()
    with pytest.raises(NotAnExample, match="record 2 of the block") as error:
        wire.parse_block([common, common, record, common])
    assert error.value.row == 2


def test_every_cut_of_a_record_is_judged_as_protobuf_does():
    whole = example({"a": [1, 2**40], "b": ["x", "yy"], "c": 1.5, "d": 3}).SerializeToString()
    for size in range(len(whole)):
        record = whole[:size]
        try:
            expected = reference([record])
        except Exception:
            with pytest.raises(NotAnExample):
                wire.parse_block([record])
        else:
            assert by_arrays([record]) == expected
