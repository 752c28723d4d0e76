"""Reads a TFRecord file that may be damaged: returns its good records and describes its bad ones.

TensorFlow's reader stops at the first damage, and sometimes without an error: in a file that is
cut inside the first twelve bytes of a record, or in a GZIP file that is cut almost anywhere between
two records. This scanner continues after the damage if the framing allows it. A *bad record* is one
of these:

- A record with a correct length and a wrong payload. The next record follows directly.
- A stretch in which the framing is lost, because a length is wrong, larger than the rest of the
  file, or larger than `LARGEST_RECORD`. It ends where the next twelve bytes are a length with its
  correct checksum, or at the end of the file. It counts as one bad record, even if it had contained
  several. If no record follows a wrong payload, bytes are missing from the file, and the scanner
  searches inside this payload in the same way.
- The place where a GZIP stream breaks, with the incomplete record before it. Everything before the
  break is kept; everything after it cannot be read.
- A whole file that is empty, or whose compression does not match its name.

Records are numbered from 0, including bad ones. Offsets are bytes of the file, or of the unpacked
contents of a GZIP file. A file that was cut exactly between two records, or a GZIP file that was
cut between two members, looks like an intact file.

The scanner holds one piece of the file in memory, never changes a file, and never raises an error
because of a file's contents. It is written in Python and reads about 150,000 records a second,
which is enough for the few damaged files. `file_check` decides whether a payload can be used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import NamedTuple, Optional, Union

from input_pipelines.record_files import file_bytes, framing, kinds
from input_pipelines.record_files.file_bytes import CHUNK, FileBytes
from input_pipelines.record_files.framing import FRAME, HEADER, LARGEST_RECORD

# How many bytes are searched for the next record at a time.
_SEARCHED = 2**18


class Record(NamedTuple):
    """A record whose framing is correct.

    Attributes:
      number: its number among all records, good and bad, from 0.
      offset: the offset of its first byte.
      payload: the serialized bytes.
    """

    number: int
    offset: int
    payload: bytes


class BadRecord(NamedTuple):
    """A part of a file that cannot be used.

    Attributes:
      number: its number among all records, good and bad, from 0.
      offset: the offset of its first byte.
      reason: what is wrong, as the end of `sentence`.
      lost: the number of bytes that cannot be read because of it.
      packed: whether `offset` and `lost` count unpacked bytes.
      is_table: whether the file is a table, by its name, and has no record. `reason` says so.
    """

    number: int
    offset: int
    reason: str
    lost: int
    packed: bool = False
    is_table: bool = False

    @property
    def sentence(self) -> str:
        if self.is_table:
            return self.reason
        byte = "unpacked byte" if self.packed else "byte"
        return f"record {self.number} at {byte} {self.offset}: {self.reason}"


def scan(path: str, *, chunk: int = CHUNK) -> Generator[Union[Record, BadRecord], None, None]:
    """All records of a file in their order, good and bad. The file is closed with the generator.

    `chunk`: see `FileBytes`.
    """
    file_problem = _bad_as_a_whole(path)
    if file_problem is not None:
        yield BadRecord(0, 0, file_problem, file_bytes.size(path))
        return
    with contextlib.closing(FileBytes(path, chunk)) as data:
        yield from _records(path, data)


def _records(path: str, data: FileBytes) -> Iterator[Union[Record, BadRecord]]:
    """The records in the bytes of a file."""
    ends = None if data.packed else file_bytes.size(path)
    number = offset = 0
    is_reported = False  # Whether the end of a broken stream was reported.
    while True:
        header = data.at(offset, HEADER)
        if not header:
            break
        length = framing.length_of(header)
        is_too_large = length is not None and length > LARGEST_RECORD
        is_inside = ends is None or offset + FRAME + (length or 0) <= ends
        raw = b""
        if length is not None and not is_too_large and is_inside:
            raw = data.at(offset, FRAME + length + HEADER)
        if length is None or len(raw) < FRAME + length:
            next_offset = _next_record(data, offset + 1)
            lost = next_offset - offset
            at_end = not data.at(next_offset, 1)
            if at_end and data.broken:
                reason, is_reported = data.broken, True
                lost += data.unread
            else:
                have = len(raw) if ends is None else ends - offset
                reason = _lost_framing(header, length, have, lost, next_offset, at_end)
                if at_end and not number and not is_too_large:
                    table = _is_table(path)
                    if table:
                        yield BadRecord(number, offset, table, lost, data.packed, is_table=True)
                        break
                    reason += _is_it_one(path)
            yield BadRecord(number, offset, reason, lost, data.packed)
        else:
            payload = raw[HEADER : HEADER + length]
            next_offset = offset + FRAME + length
            if framing.payload_is_right(payload, raw[HEADER + length : FRAME + length]):
                yield Record(number, offset, payload)
            else:
                next_offset = offset + _end_of_wrong_payload(raw, length)
                reason = f"the checksum of its payload of {length:,} bytes is wrong"
                yield BadRecord(number, offset, reason, next_offset - offset, data.packed)
        number += 1
        offset = next_offset
    if data.broken and not is_reported:
        yield BadRecord(number, offset, data.broken, data.unread, data.packed)


def first_bad(path: str) -> Optional[BadRecord]:
    """The first bad record of a file, or None for one that is whole."""
    return next((record for record in scan(path) if isinstance(record, BadRecord)), None)


def _bad_as_a_whole(path: str) -> Optional[str]:
    size = file_bytes.size(path)
    if not size:
        return "the file is empty: it has 0 bytes"
    packed, looks_packed = file_bytes.is_gzip(path), file_bytes.starts_as_gzip(path)
    if packed and not looks_packed:
        return f"the file is not GZIP, but its name ends in .gz or .gzip{_is_it_one(path)}"
    if looks_packed and not packed:
        with contextlib.closing(FileBytes(path)) as data:
            start = data.at(0, HEADER)
        if size > 2 and framing.length_of(start) is None and start[2:3] == b"\x08":
            return f"the file is GZIP, but its name does not end in .gz or .gzip{_is_it_one(path)}"
    return None


def _is_table(path: str) -> str:
    """What to do with a file that is a table by its name; empty for other files."""
    kind = kinds.kind_of(path)
    if kind == kinds.TFRECORD:
        return ""
    return (
        f"this is a {kind} file by its name, expected a TFRecord file. Convert it first: "
        f"estimator-kit convert --convert_files={path} --convert_dir=<a new folder>, with "
        "--spec for its types"
    )


def _is_it_one(path: str) -> str:
    table = _is_table(path)
    if table:
        return f"; {table}"
    return (
        ". Is it a TFRecord file, and compressed as its name says? (The names of tables end in "
        f"{kinds.table_suffixes()}.)"
    )


def _next_record(data: FileBytes, offset: int) -> int:
    """Where the next length with its correct checksum is, or the end of the file."""
    while True:
        piece = data.at(offset, _SEARCHED + HEADER - 1)
        found = framing.first_header(piece)
        if found is not None:
            return offset + found
        if len(piece) < _SEARCHED + HEADER - 1:
            return offset + len(piece)
        offset += _SEARCHED


def _end_of_wrong_payload(raw: bytes, length: int) -> int:
    """Where a record with a wrong payload ends; `raw` is the record and the next header."""
    end = FRAME + length
    behind = raw[end:]
    if behind and framing.length_of(behind) is None:
        # No record follows. If one begins inside, bytes are missing before it.
        found = framing.first_header(raw[HEADER : end + HEADER - 1])
        if found is not None:
            return HEADER + found
    return end


def _lost_framing(
    header: bytes, length: Optional[int], have: int, lost: int, next_offset: int, at_end: bool
) -> str:
    to = "the end of the file" if at_end else f"the next record at byte {next_offset}"
    if len(header) < HEADER:
        return f"it is cut off: the file has only {len(header)} of its first {HEADER} bytes"
    if length is None:
        return f"the checksum of its length is wrong; {lost:,} bytes are lost, up to {to}"
    if length > LARGEST_RECORD:
        return (
            f"its length is {length:,} bytes, expected at most {LARGEST_RECORD:,}; {lost:,} bytes "
            f"are lost, up to {to}"
        )
    cut = f"it is cut off: the file has only {have:,} of its {FRAME + length:,} bytes"
    return cut if at_end else f"{cut}; {lost:,} bytes are lost, up to {to}"
