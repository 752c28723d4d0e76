"""Walks through a TFRecord file that may be damaged: its records, and what is bad between them.

TensorFlow's reader ends at the first damage, and at some kinds of it without a word (a file that is
cut inside the first twelve bytes of a record, or a GZIP file that is cut almost anywhere between
two records). This one goes on where the framing allows. A *bad record* is one of these:

- a record whose length is right and whose payload is not. The next record is the one behind it.
- a stretch in which the framing is lost, because a length is wrong or says more bytes than there
  are. It ends where the next twelve bytes are a length with its right checksum, or with the file;
  it counts as one, however many records it was. The same search is made inside a payload that is
  wrong when no record follows it: bytes are missing from the file there.
- the place at which a GZIP stream breaks, with the part of a record before it. What came earlier is
  kept, what would come after cannot be read.
- a whole file: one without a byte, or one that is not compressed as its name says.

Records are numbered from 0 and a bad one has a number, too. Offsets are bytes of the file, of a
GZIP file bytes of what it unpacks to. A file that was cut exactly between two records cannot be
told from a whole one, nor a GZIP file that was cut between two members.

It holds one piece of the file in memory, never changes a file, and raises nothing for its content.
Written in Python, it reads some 150,000 records a second: enough for the few files that are
damaged. Whether a payload can be used is not its concern, but `file_check`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Optional, Union

from input_pipelines.record_files import crc32c, file_bytes, kinds
from input_pipelines.record_files.crc32c import FRAME, HEADER
from input_pipelines.record_files.file_bytes import FileBytes

# Bytes that are searched at a time for the next record.
_SEARCHED = 2**18


class Record(NamedTuple):
    """A record whose framing is right.

    Attributes:
      number: its number, from 0, bad ones counted.
      offset: of its first byte.
      payload: what is stored in it.
    """

    number: int
    offset: int
    payload: bytes


class BadRecord(NamedTuple):
    """What cannot be used.

    Attributes:
      number: its number, from 0, among all records.
      offset: of its first byte.
      reason: the end of a sentence that names it.
      lost: bytes that are not read because of it.
      packed: whether offset and lost are those of unpacked bytes.
    """

    number: int
    offset: int
    reason: str
    lost: int
    packed: bool = False

    @property
    def sentence(self) -> str:
        byte = "unpacked byte" if self.packed else "byte"
        return f"record {self.number} at {byte} {self.offset}: {self.reason}"


def scan(path: str) -> Iterator[Union[Record, BadRecord]]:
    """All records of a file in their order, good and bad."""
    whole = _bad_as_a_whole(path)
    if whole is not None:
        yield BadRecord(0, 0, whole, file_bytes.size(path))
        return
    data = FileBytes(path)
    ends = None if data.packed else file_bytes.size(path)
    number = offset = 0
    told = False  # Of the end of a broken stream.
    while True:
        header = data.at(offset, HEADER)
        if not header:
            break
        length = crc32c.length_of(header)
        raw = b""
        if length is not None and (ends is None or offset + FRAME + length <= ends):
            raw = data.at(offset, FRAME + length + HEADER)
        if length is None or len(raw) < FRAME + length:
            next_offset = _next_record(data, offset + 1)
            lost = next_offset - offset
            at_end = not data.at(next_offset, 1)
            if at_end and data.broken:
                reason, told = data.broken, True
                lost += data.unread
            else:
                have = len(raw) if ends is None else ends - offset
                reason = _lost_framing(header, length, have, lost, next_offset, at_end)
                if at_end and not number:
                    reason += _is_it_one(path)
            yield BadRecord(number, offset, reason, lost, data.packed)
        else:
            payload = raw[HEADER : HEADER + length]
            next_offset = offset + FRAME + length
            if crc32c.payload_is_right(payload, raw[HEADER + length : FRAME + length]):
                yield Record(number, offset, payload)
            else:
                next_offset = offset + _end_of_wrong_payload(raw, length)
                reason = f"the checksum of its payload of {length:,} bytes is wrong"
                yield BadRecord(number, offset, reason, next_offset - offset, data.packed)
        number += 1
        offset = next_offset
    if data.broken and not told:
        yield BadRecord(number, offset, data.broken, data.unread, data.packed)


def first_bad(path: str) -> Optional[BadRecord]:
    """The first bad record of a file, or None for one that is whole."""
    return next((found for found in scan(path) if isinstance(found, BadRecord)), None)


def _bad_as_a_whole(path: str) -> Optional[str]:
    size = file_bytes.size(path)
    if not size:
        return "the file is empty: it has no byte"
    packed, looks_packed = file_bytes.is_gzip(path), file_bytes.starts_as_gzip(path)
    if packed and not looks_packed:
        return f"the file is no GZIP, as its name says that it is{_is_it_one(path)}"
    if looks_packed and not packed:
        start = FileBytes(path).at(0, HEADER)
        if size > 2 and crc32c.length_of(start) is None and start[2:3] == b"\x08":
            return f"the file is GZIP, and its name does not end in .gz or .gzip{_is_it_one(path)}"
    return None


def _is_it_one(path: str) -> str:
    kind = kinds.kind_of(path)
    if kind != kinds.TFRECORD:
        return (
            f"; by its name it is {kind}, and no TFRecord file; analysis reads tables, all else "
            "reads TFRecords: convert it with --mode=convert"
        )
    return (
        "; is it a TFRecord file, compressed as its name says? (Tables end in .csv, .tsv, .json, "
        ".jsonl or .parquet.)"
    )


def _next_record(data: FileBytes, offset: int) -> int:
    """Where the next length with its right checksum is, or the end of the file."""
    while True:
        piece = data.at(offset, _SEARCHED + HEADER - 1)
        found = crc32c.first_header(piece)
        if found is not None:
            return offset + found
        if len(piece) < _SEARCHED + HEADER - 1:
            return offset + len(piece)
        offset += _SEARCHED


def _end_of_wrong_payload(raw: bytes, length: int) -> int:
    """Where a record with a wrong payload ends: `raw` is it, with the header of the next."""
    end = FRAME + length
    behind = raw[end:]
    if behind and crc32c.length_of(behind) is None:
        # No record follows. One that begins inside shows that bytes are missing before it.
        found = crc32c.first_header(raw[HEADER : end + HEADER - 1])
        if found is not None:
            return HEADER + found
    return end


def _lost_framing(
    header: bytes, length: Optional[int], have: int, lost: int, next_offset: int, at_end: bool
) -> str:
    to = "the end of the file" if at_end else f"the next record at byte {next_offset}"
    if len(header) < HEADER:
        return f"it is cut off: of its first {HEADER} bytes {len(header)} are there"
    if length is None:
        return f"the checksum of its length is wrong; {lost:,} bytes are lost, up to {to}"
    cut = f"it is cut off: of its {FRAME + length:,} bytes {have:,} are there"
    return cut if at_end else f"{cut}; {lost:,} bytes are lost, up to {to}"
