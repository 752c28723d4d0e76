"""Rows that a user's function gives, in the place of files.

    def rows(mode):                      # "train" or "eval"
        for row in connection.execute("SELECT price, click FROM ads ORDER BY id"):
            yield {"price": row[0], "click": row[1]}

    OwnRows(spec, rows, name="my_rows:rows", mode="train").blocks()    # as `tfrecords.blocks`

The function is called for each reading, in a separate thread, with eager execution. A connection
of sqlite3, for example, may only be used in the thread that has made it. Rows become serialized
records (`own_records`), so all that follows is the same as for one file with these rows.

The order of rows is the function's, and the kit cannot know whether it is the same at each reading.
`version` is the user's promise that it is. This module never stores rows.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import itertools
import math
import queue
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines import errors
from input_pipelines.eager import as_written
from input_pipelines.errors import DataError
from input_pipelines.reading import own_records
from input_pipelines.reading.selection import RowCounts, Selection
from input_pipelines.record_files import tfrecords
from input_pipelines.record_files.sharding import Shard

# How many blocks the thread reads ahead.
_AHEAD = 2

# How many rows a run looks at before it begins, as at the beginning of a file.
_FIRST = 64

# The number of rows of an epoch that did not end where counting stopped.
_MANY = 2**62

_KINDS = "a tf.data.Dataset, or an iterable of rows such as a generator"


class OwnRows:
    """The rows of a function.

    Args:
      spec: the feature spec.
      function: takes a mode, and returns rows: a `tf.data.Dataset` of dictionaries of tensors (see
        `own_records.of_dataset`), or an iterable of dictionaries (see `own_records.of_rows`). One
        call gives the rows of one epoch.
      name: the name of the function, for messages.
      mode: what the function is called with, "train" or "eval".
      version: a name for the rows and their order. With the same one, each call must give the same
        rows in the same order. None if the user promises nothing.

    Attributes:
      files: no files, as every source of rows has them.
      problem: the error of the function that has ended a reading, or None.
    """

    files: tuple[str, ...] = ()

    def __init__(
        self,
        spec: FeatureSpec,
        function: Callable[[str], Any],
        *,
        name: str,
        mode: str,
        version: Optional[str] = None,
    ):
        self._spec, self._function, self._mode = spec, function, mode
        self.name, self.version = name, version
        self.place = place_of_function(function, name)
        self.problem: Optional[Exception] = None
        self._before: Any = None
        self._first: Optional[list[bytes]] = None
        self._total: Optional[int] = None

    def blocks(self) -> Generator[np.ndarray, None, None]:
        """Arrays of up to `tfrecords.BLOCK` serialized records. Each call calls the function.

        Raises:
          DataError: the function returned something else, raised an error, or a row has another
            form than the spec says.
          tf.errors.UnavailableError: it raised an error of a connection.
        """
        with contextlib.closing(self._in_a_thread()) as items:
            next(items)
            yield from items

    def _in_a_thread(self) -> Generator[Any, None, None]:
        """The items of `_read`, which runs in a separate thread."""
        box: queue.Queue[Any] = queue.Queue(_AHEAD)
        over = threading.Event()

        def read() -> None:
            try:
                with contextlib.closing(self._read()) as items:
                    for item in items:
                        box.put(item)
                        if over.is_set():
                            return
                box.put(None)
            except Exception as error:
                box.put(error)

        threading.Thread(target=read, name=f"rows of {self.name}", daemon=True).start()
        try:
            while True:
                item = box.get()
                if item is None:
                    return
                if isinstance(item, Exception):
                    self.problem = self._explained(item)
                    raise self.problem from item
                yield item
        finally:
            over.set()
            with contextlib.suppress(queue.Empty):  # So that the thread does not wait.
                while True:
                    box.get_nowait()

    def _read(self) -> Generator[Any, None, None]:
        """The number of rows or another cardinality of tf.data, and then the blocks."""
        returned = self._function(self._mode)
        if isinstance(returned, tf.data.Dataset):
            with tf.device("/cpu:0"):
                yield own_records.length_of(self._spec, returned)
                for records in own_records.of_dataset(self._spec, returned):
                    yield records.numpy()
            return
        self._check_iterable(returned)
        yield tf.data.UNKNOWN_CARDINALITY
        try:
            records = own_records.of_rows(self._spec, returned)
            while block := list(itertools.islice(records, tfrecords.BLOCK)):
                yield np.array(block, object)
        finally:
            if inspect.isgenerator(returned):
                returned.close()

    def _check_iterable(self, returned: Any) -> None:
        wrong = isinstance(returned, (str, bytes, tuple, Mapping))
        if wrong or not hasattr(returned, "__iter__"):
            raise DataError(
                f"expected {_KINDS}, got {own_records.shown(returned)}. Return the rows, or write "
                "`yield` before each of them"
            )
        if hasattr(returned, "__next__"):
            if returned is self._before:
                raise DataError(
                    f"returned the same {type(returned).__name__} as in the call before, which has "
                    "no row left. Make a new one in each call: rows are read once to check them, "
                    "and again for each epoch"
                )
            self._before = returned

    def _explained(self, error: Exception) -> Exception:
        """The error for a user: the place in the user's code comes first."""
        if isinstance(error, DataError):
            return DataError(f"{self.place}: {error}")
        if isinstance(error, tf.errors.OpError):
            text = f"{self.place}: reading the data set failed: {errors.first_line(error)}"
        else:
            what = f"{type(error).__name__}: {error}".rstrip(": ")
            text = f"{self._place_in(error)}: {self.name} raised {what}"
        if isinstance(error, (ConnectionError, TimeoutError, tf.errors.UnavailableError)):
            result: Exception = tf.errors.UnavailableError(
                None, None, f"{text}. Start again to go on from the last checkpoint."
            )
            return result
        return DataError(text)

    def _place_in(self, error: Exception) -> str:
        """`file:line` of the function's file that an error came through last."""
        file, _, line = self.place.rpartition(f": {self.name}")[0].rpartition(":")
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == file:
                line = str(frame.lineno)
        return f"{file}:{line}" if file else self.name

    @as_written
    def dataset(
        self,
        selection: Selection,
        shard: Shard = Shard(),
        *,
        cut: Optional[Callable[[tf.data.Dataset], tf.data.Dataset]] = None,
    ) -> tf.data.Dataset:
        """The rows that pass the filter, as `Selection.blocks` returns the rows of a file.

        Every shard reads all rows, and keeps every `shard.count`th one.
        """
        rows = tf.data.Dataset.from_generator(
            self.blocks, output_signature=tf.TensorSpec([None], tf.string)
        )
        if shard.count > 1:
            rows = tfrecords.dealt(tfrecords.numbered(rows), shard).map(lambda block, _: block)
        if selection.drops_rows:
            rows = rows.map(selection.passing)
        return rows if cut is None else cut(rows)

    def first(self) -> list[bytes]:
        """The first records. They are read once."""
        if self._first is None:
            self._first = self._read_first()
        return self._first

    def _read_first(self) -> list[bytes]:
        with contextlib.closing(self.blocks()) as blocks:
            return list(itertools.islice(itertools.chain.from_iterable(blocks), _FIRST))

    def count(
        self, selection: Selection, shard: Shard = Shard(), *, more_than: Optional[int] = None
    ) -> RowCounts:
        """Counts the rows of an epoch: reads them, unless a data set knows their number.

        With `more_than`, counting ends when a shard has more rows than this, and the result is a
        very large number. So it also ends for a function whose rows never end.

        Raises:
          DataError: as `blocks`; or the rows never end.
        """
        # Without a filter, the number of all rows tells the number of each shard.
        read_by = shard if selection.drops_rows else Shard()
        enough = math.inf if more_than is None else more_than * shard.count // read_by.count
        if self._total is None or selection.drops_rows:
            read = kept = 0
            with contextlib.closing(self._in_a_thread()) as items:
                length = int(next(items))
                if length >= 0 and not selection.drops_rows:
                    read, items = length, (_ for _ in ())
                elif length == tf.data.INFINITE_CARDINALITY and more_than is None:
                    raise DataError(
                        f"{self.place}: the data set never ends, so it has no epochs. Use "
                        "--max_steps instead of --epochs"
                    )
                start = 0
                for block in items:
                    own = block[(read_by.index - start) % read_by.count :: read_by.count]
                    start += len(block)
                    read += len(own)
                    kept += len(selection.passing(own) if selection.drops_rows else own)
                    if kept > enough:
                        return RowCounts(_MANY, (_MANY,))
            if selection.drops_rows:
                return RowCounts(read, (kept,))
            self._total = read
        own_rows = len(range(shard.index, self._total, shard.count))
        return RowCounts(own_rows, (own_rows,))

    def identity(self) -> dict[str, Any]:
        """What decides the rows and their order. With a version, also a digest of the first."""
        result: dict[str, Any] = {"input_fn": self.name, "input_version": self.version}
        if self.version is not None:
            result["first_rows"] = hashlib.sha256(b"\0".join(self.first())).hexdigest()[:16]
        return result

    @contextlib.contextmanager
    def naming_problems(self) -> Iterator[None]:
        """Replaces TensorFlow's error about a function that failed by the error of the function."""
        self.problem = None
        try:
            yield
        except Exception as error:
            if self.problem is None or error is self.problem:
                raise
            raise self.problem from error


def place_of_function(function: Callable[..., Any], name: str) -> str:
    """`file:line: name` of a function; the name alone if it is not Python code."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(inner)
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return name if code is None else f"{code.co_filename}:{code.co_firstlineno}: {name}"
