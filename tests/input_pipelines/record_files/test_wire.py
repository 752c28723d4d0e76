"""record_files/wire.py, by hand. Other tests compare whole messages with the protobuf library."""

from __future__ import annotations

import pytest

from input_pipelines.record_files import wire

pytestmark = pytest.mark.no_tensorflow


def test_varints():
    assert [wire.varint(n).hex() for n in (0, 127, 128, 300)] == ["00", "7f", "8001", "ac02"]


def test_messages():
    # Field 2 as a varint: the key 0x10, then 1001 = 7 * 128 + 105.
    assert wire.message([(2, 1001)]) == b"\x10\xe9\x07"
    assert wire.message([(1, "ä"), (2, True)]) == b"\x0a\x02\xc3\xa4\x10\x01"
    # An IEEE double, the lowest byte first.
    assert wire.message([(5, 1.0)]) == b"\x29\0\0\0\0\0\0\xf0\x3f"
