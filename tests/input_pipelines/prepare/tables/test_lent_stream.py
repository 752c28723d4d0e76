"""No thread of pyarrow reads a CSV file after the code that opened it has left."""

from __future__ import annotations

import threading
import time
import types

import pytest

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import csv_files, library
from input_pipelines.prepare.tables.library import LentStream
from input_pipelines.prepare.tables.options import CsvOptions

pytestmark = pytest.mark.no_tensorflow


def test_the_end_waits_for_a_read_that_has_begun(monkeypatch):
    begun, go = threading.Event(), threading.Event()
    contents = []

    class Stream:
        def read(self, size):
            begun.set()
            assert go.wait(60)
            return b"x" * size

    def read_ahead(feeds):
        feed = feeds.pop()
        contents.append(feed.read(3))
        contents.append(feed.read(3))  # The block has ended, so the file seems to end.

    # The read goes on only when the end of the block waits for it.
    clock = types.SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: go.set())
    monkeypatch.setattr(library, "time", clock)
    with LentStream(Stream()) as lent:
        thread = threading.Thread(target=read_ahead, args=([lent.feed()],))
        thread.start()
        assert begun.wait(60)
    assert contents == [b"xxx", b""]
    thread.join()


@pytest.mark.parametrize("end", ["error", "left early", "read to its end"])
def test_pyarrow_has_dropped_the_stream(tmp_path, monkeypatch, end):
    opened = []

    class Recorded(LentStream):
        def __init__(self, stream):
            super().__init__(stream)
            opened.append(self)

    monkeypatch.setattr(csv_files, "LentStream", Recorded)
    monkeypatch.setattr(csv_files, "_BLOCK", 4096)  # The file has about 60 blocks.
    path = tmp_path / "a.csv"
    bad = "1,2,3\n" if end == "error" else ""
    path.write_text("a,b\n" + "1,2\n" * 1200 + bad + "1,2\n" * 60_000)
    batches = csv_files.batches(str(path), CsvOptions(), ("a", "b"))
    if end == "error":
        with pytest.raises(DataError, match="line 1202: has 3 fields, expected 2") as error:
            list(batches)
        assert error.value.__traceback__ is not None  # It has the frames of the reader.
    elif end == "left early":
        next(batches)
        assert opened[0]._feed() is not None
        batches.close()
    else:
        assert sum(batch.num_rows for batch in batches) == 61_200
    assert opened[0]._feed() is None and opened[0].table is None
