"""The wire format in `framing`, by hand. Others compare whole messages with the library."""

from __future__ import annotations

import pytest

from input_pipelines.record_files import framing

pytestmark = pytest.mark.no_tensorflow


def test_varints():
    assert [framing.varint(n).hex() for n in (0, 127, 128, 300)] == ["00", "7f", "8001", "ac02"]


def test_messages():
    # Field 2 as a varint: the key 0x10, then 1001 = 7 * 128 + 105.
    assert framing.message([(2, 1001)]) == b"\x10\xe9\x07"
    assert framing.message([(1, "ä"), (2, True)]) == b"\x0a\x02\xc3\xa4\x10\x01"
    # An IEEE double, the lowest byte first.
    assert framing.message([(5, 1.0)]) == b"\x29\0\0\0\0\0\0\xf0\x3f"
