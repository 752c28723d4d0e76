"""Cleans the bytes of a CSV file for pyarrow, where pyarrow has no suitable option.

If `CsvOptions` says so, this removes comment lines and spaces at the start of fields, but never
inside quotes. It removes the UTF-8 signature (BOM) first, because a comment, a space or a quote may
come after it. It adds a missing line break at the end of the file. It also remembers the last bytes
of the file, because pyarrow reads everything after an unclosed quote as one field, without error.
"""

from __future__ import annotations

import re
from typing import Any

from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.record_files.framing import LARGEST_RECORD

_TAIL = 1 << 16

SIGNATURE = b"\xef\xbb\xbf"  # the UTF-8 signature before the first line

# Complete lines are cleaned in memory. A longer line is an error.
LONGEST_LINE = LARGEST_RECORD


class LineCleaner:
    """Removes comments and spaces, line by line, and tracks what is inside quotes.

    Args:
      path: the path of the file; its suffix may decide the delimiter.
      options: how the file is written.

    Attributes:
      in_quotes: whether the next line begins inside quotes.
      changes: whether these options change any line.
    """

    def __init__(self, path: str, options: CsvOptions):
        self._delimiter = options.separator(path).encode()
        self._comment = options.comment.encode()
        self._skip = bool(options.skip_spaces)
        self._spaces = re.compile(re.escape(self._delimiter) + b" +")
        self.in_quotes = False
        self.changes = bool(self._comment) or self._skip

    def clean(self, line: bytes) -> bytes:
        """A complete line without the removed parts; empty for a comment line."""
        if not self.in_quotes:
            if self._comment and line.startswith(self._comment):
                return b""
            if b'"' not in line:
                return self._spaces.sub(self._delimiter, line.lstrip(b" ")) if self._skip else line
        parts = []
        at, starts = 0, not self.in_quotes  # whether a field starts here
        while at < len(line):
            if self.in_quotes:
                quote = line.find(b'"', at)
                if quote < 0:
                    parts.append(line[at:])
                    break
                twice = line[quote + 1 : quote + 2] == b'"'
                self.in_quotes = twice
                parts.append(line[at : quote + 1 + twice])
                at = quote + 1 + twice
                continue
            if starts:
                starts = False
                while self._skip and line[at : at + 1] == b" ":
                    at += 1
                if line[at : at + 1] == b'"':
                    parts.append(b'"')
                    at += 1
                    self.in_quotes = True
                    continue
            end = line.find(self._delimiter, at)
            if end < 0:
                parts.append(line[at:])
                break
            parts.append(line[at : end + 1])
            at, starts = end + 1, True
        return b"".join(parts)


class CsvStream:
    """A file of cleaned bytes that is read from its start, with a `read` like a Python file."""

    def __init__(self, source: Any, path: str, options: CsvOptions):
        """A stream.

        Args:
          source: the file; it is closed with the stream.
          path: its path; the suffix may decide the delimiter.
          options: how the file is written.
        """
        self._source = source
        self._cleaner = LineCleaner(path, options)
        self._rest = b""  # the start of a line that the last read cut
        self._tail = b""
        self._begun = False
        self._done = False

    def close(self) -> None:
        self._source.close()

    def read(self, size: int) -> bytes:
        """The next bytes, about `size` of them; empty at the end."""
        content = b""
        while not content and not self._done:
            content = self._next(size)
            if not content:
                self._done = True
                content = self._cleaner.clean(self._rest) if self._rest else b""
                if (self._tail + content)[-1:] not in (b"\n", b"\r", b""):
                    content += b"\n"
            elif self._cleaner.changes:
                content = self._lines(content)
            self._tail = (self._tail + content)[-_TAIL:]
        return content

    def _next(self, size: int) -> bytes:
        """The next bytes of the file, without the signature."""
        if self._begun:
            return bytes(self._source.read(size))
        self._begun = True
        start = b""
        while len(start) < len(SIGNATURE):
            more = bytes(self._source.read(size))
            if not more:
                break
            start += more
        rest = start.removeprefix(SIGNATURE)
        return rest if rest or not start else bytes(self._source.read(size))

    def unclosed(self, value: bytes) -> bool:
        """Whether the last value of the file is in an unclosed quote."""
        end = self._tail.rstrip(b"\r\n")
        written = b'"' + value.replace(b'"', b'""')
        if len(written) > _TAIL // 2:
            return not end.endswith(b'"')
        if end.endswith(written + b'"'):
            return False
        return self._tail.endswith(written) or end.endswith(written.rstrip(b"\r\n"))

    def _lines(self, content: bytes) -> bytes:
        """The lines that are complete so far, cleaned."""
        content = self._rest + content
        if len(content) > LONGEST_LINE and b"\n" not in content:
            raise OSError(f"a line is longer than {LONGEST_LINE // 2**20} MB")
        end = content.rfind(b"\n") + 1
        self._rest = content[end:]
        lines = content[:end].splitlines(keepends=True)
        return b"".join(self._cleaner.clean(line) for line in lines)
