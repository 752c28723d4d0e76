"""`RecordSummary`: everything that one pass learns about records. Summaries of parts can be merged.

Except for estimates, the order of merging does not matter. A feature must have one type. The first
record of each type is remembered, so that an error can name two records.

Workers on other machines send a summary as bytes: JSON, never pickle.

    from_bytes(to_bytes(summary))       # merges like the summary itself, to the same statistics

A type that JSON lacks becomes an object with one key, the name of the type. The sketch library
serializes sketches to bytes. Counts keep their order, which decides what a full sketch drops.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Optional

import numpy as np

from feature_specs.errors import counted
from feature_specs.statistics import (
    Cardinality,
    FeatureStatistics,
    Lengths,
    Numbers,
    Statistics,
    Words,
)
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze.feature_block import FeatureBlock
from input_pipelines.prepare.analyze.numbers import NumberSummary
from input_pipelines.prepare.analyze.row_sample import RowSample
from input_pipelines.prepare.analyze.values import EXACT_LIMIT, ValueCounter
from input_pipelines.prepare.convert.options import NEXT
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.storable import Rounded

# How many different floats are counted exactly, for exact quantiles.
_EXACT_FLOATS = 10_000

# Lengths of this size or more are counted by powers of two.
_EXACT_LENGTHS = 1024

# Each feature takes memory, so the number of features is limited.
_MOST_FEATURES = 10_000

# How many words the statistics list. A word that is not listed has a share below 0.1%, which is
# precise enough for drift. Vocabularies and counts have separate files.
_TOP = 1000

Place = tuple[str, int]


class FeatureSummary:
    """One feature: its type, lengths, numbers and words."""

    def __init__(self, name: str, limit: int = EXACT_LIMIT):
        self.name = name
        self.limit = limit
        self.first: dict[str, Place] = {}  # type -> the first record that has it
        # Whether it is in a feature list -> the first record that has it there.
        self.first_in: dict[bool, Place] = {}
        self.odd_steps = 0
        self.first_empty: Optional[Place] = None  # A list with a type and without a value.
        # A hash of a feature list's length in each record: equal for lists with equal lengths.
        self.digest = 0
        self.lengths: Counter[int] = Counter()  # of the records that have a value
        self.values = 0
        self.longest = 0
        self.shortest: Optional[int] = None
        self.numbers: Optional[NumberSummary] = None
        self.counter: Optional[ValueCounter] = None
        # Of next items: whether a record has an item twice, among its steps and the last next item.
        self.repeats = False

    @property
    def is_feature_list(self) -> bool:
        return next(iter(self.first_in), False)

    @property
    def dtype(self) -> Optional[str]:
        return next(iter(self.first), None)

    @property
    def value_counts(self) -> Optional[Mapping[Any, int]]:
        """How often each number occurs; None for too many numbers, or for other values."""
        return self.counter.exact if self.counter and self.numbers else None

    def add(self, block: FeatureBlock, file: str, before: int) -> None:
        """Adds a block of `file` that comes after its first `before` records."""
        place = (file, before + int(block.rows[0]))
        self._see_in(block.feature_list, place)
        if block.dtype:
            self._see(block.dtype, place)
        if block.feature_list:
            self.odd_steps += block.odd_steps
            self._add_digest(_positions(file, before, block.rows), block.lengths)
        elif block.dtype and not block.lengths.all():
            self._see_empty((file, before + int(block.rows[block.lengths == 0][0])))
        full = block.lengths[block.lengths > 0]
        if not len(full):
            return
        for length, count in zip(*(part.tolist() for part in np.unique(full, return_counts=True))):
            self.lengths[_length_bin(length)] += count
        self._see_lengths(int(full.min()), int(full.max()))
        self.values += int(full.sum())
        if self.counter is None:
            self._start(block.dtype)
        assert self.counter is not None
        if isinstance(block.values, list):
            self.counter.add(block.values)
        else:
            assert self.numbers is not None
            self.counter.add(self.numbers.add(block.values).tolist())

    def merge(self, other: FeatureSummary) -> None:
        """Adds another summary of the same feature."""
        for dtype, place in other.first.items():
            self._see(dtype, place)
        for feature_list, place in other.first_in.items():
            self._see_in(feature_list, place)
        if other.first_empty is not None:
            self._see_empty(other.first_empty)
        self.odd_steps += other.odd_steps
        self.digest = (self.digest + other.digest) % 2**64
        self.lengths.update(other.lengths)
        self.values += other.values
        self.repeats |= other.repeats
        if other.shortest is None:
            return
        self._see_lengths(other.shortest, other.longest)
        assert other.counter is not None and self.dtype is not None
        if self.counter is None:
            self._start(self.dtype)
        assert self.counter is not None
        self.counter.merge(other.counter)
        if self.numbers is not None and other.numbers is not None:
            self.numbers.merge(other.numbers)

    def statistics(self, rows: int) -> FeatureStatistics:
        """The feature's statistics among `rows` records."""
        have = sum(self.lengths.values())
        counts = Counter(self.lengths)
        if rows > have:
            counts[0] = rows - have
        lengths = Lengths(
            min=0 if rows > have or self.shortest is None else self.shortest,
            max=self.longest,
            mean=self.values / rows,
            counts={str(length): counts[length] for length in sorted(counts)},
        )
        counter = self.counter
        return FeatureStatistics(
            dtype=self.dtype,  # type: ignore[arg-type]
            missing=rows - have,
            values=self.values,
            lengths=lengths,
            cardinality=Cardinality(
                value=counter.cardinality if counter else 0,
                exact=counter is None or counter.exact is not None,
            ),
            numbers=self._numbers(),
            words=self._words(),
            **({"odd_steps": self.odd_steps} if self.is_feature_list else {}),
        )

    def _numbers(self) -> Optional[Numbers]:
        if self.numbers is None or self.counter is None:
            return None
        return self.numbers.result(self.counter.exact)

    def _words(self) -> Optional[Words]:
        counter = self.counter
        if counter is None or self.dtype == "float32":
            return None
        return Words(
            top=tuple(counter.words()[:_TOP]),
            exact=counter.exact is not None,
            largest_error=counter.largest_error,
            integers=self.dtype == "int64" or counter.integers,
            empty=counter.empty,
            not_words=counter.not_word_count,
        )

    def _start(self, dtype: str) -> None:
        if dtype == "float32":
            self.counter = ValueCounter(min(self.limit, _EXACT_FLOATS), frequent=False)
        else:
            self.counter = ValueCounter(self.limit)
        if dtype != "string":
            self.numbers = NumberSummary()

    def _see(self, dtype: str, place: Place) -> None:
        self.first[dtype] = min(self.first.get(dtype, place), place)
        if len(self.first) > 1:
            (one, first), (two, second) = sorted(self.first.items(), key=lambda item: item[1])
            raise DataError(
                f"feature {self.name!r} is {one} in {first[0]}: record {first[1]} and {two} in "
                f"{second[0]}: record {second[1]}; a feature must have one type: write the files "
                "again, or analyze only the files with one type"
            )

    def _see_empty(self, place: Place) -> None:
        self.first_empty = min(self.first_empty or place, place)

    def _see_in(self, feature_list: bool, place: Place) -> None:
        self.first_in[feature_list] = min(self.first_in.get(feature_list, place), place)
        if len(self.first_in) > 1:
            (file, record), (other, step) = self.first_in[False], self.first_in[True]
            raise DataError(
                f"feature {self.name!r} is a plain feature in {file}: record {record}, but a "
                f"feature list in {other}: record {step}; if some files have tf.train.Examples and "
                "others tf.train.SequenceExamples, analyze files of one kind, otherwise rename one "
                "of the two"
            )

    def _add_digest(self, positions: np.ndarray, lengths: np.ndarray) -> None:
        parts = positions * lengths.astype(np.uint64)
        self.digest = (self.digest + int(parts.sum(dtype=np.uint64))) % 2**64

    def _see_lengths(self, shortest: int, longest: int) -> None:
        self.longest = max(self.longest, longest)
        self.shortest = shortest if self.shortest is None else min(self.shortest, shortest)


class RecordSummary:
    """All features of the records that were added so far.

    Attributes:
      rows: the number of records that count.
      dropped: the number of other records, which a filter drops.
      filter: the entries of that filter.
      features: the features by name.
      rounded: for tables, how many values a float32 does not keep.
      notes: for tables, notes for the user about how columns were read.
      csv: for tables, how CSV files are written.
      sample: a sample of the rows, if one is wanted.
    """

    sample: Optional[RowSample] = None  # Older summaries of days lack it.

    def __init__(self, limit: int = EXACT_LIMIT, *, sample: bool = False):
        self.rows = 0
        self.dropped = 0
        self.filter: list[dict[str, Any]] = []
        self.features: dict[str, FeatureSummary] = {}
        self.rounded: Rounded = Counter()
        self.notes: list[str] = []
        self.csv = CsvOptions()
        self.files: dict[bool, str] = {}  # Whether it has feature lists -> the first such file.
        self.sample = RowSample() if sample else None
        self._limit = limit

    def add(self, blocks: dict[str, list[FeatureBlock]], rows: int, file: str, before: int) -> None:
        """Adds `rows` parsed records of a file that come after its first `before` records."""
        self.rows += rows
        for name, parts in blocks.items():
            for block in parts:
                self._feature(name).add(block, file, before)
        for name, targets in blocks.items():
            steps = blocks.get(name.removeprefix(NEXT), ())
            if name.startswith(NEXT) and len(steps) == len(targets) == 1:
                feature = self.features[name]
                feature.repeats = feature.repeats or repeats(steps[0], targets[0])

    def see_file(self, path: str, *, feature_lists: bool) -> None:
        """Remembers a file with records, and whether any of them has feature lists."""
        self.files[feature_lists] = min(self.files.get(feature_lists, path), path)

    def check_files(self) -> None:
        """Raises DataError if only some of the files have feature lists."""
        if len(self.files) > 1:
            raise DataError(
                f"the records of {self.files[True]} are tf.train.SequenceExamples, but the records "
                f"of {self.files[False]} have no feature_lists, so they seem to be "
                "tf.train.Examples (or all their lists are absent); analyze files of one kind"
            )

    def check_empty_lists(self) -> None:
        """Raises DataError if a record has an empty list where a spec would say one value.

        TensorFlow's parser takes the default only if a record lacks the feature.
        """
        for name in sorted(self.features):
            feature = self.features[name]
            if feature.first_empty is not None and feature.longest == 1:
                file, record = feature.first_empty
                raise DataError(
                    f"{file}: record {record}: feature {name!r} is an empty list, but other "
                    "records have one value. TensorFlow refuses such a record. Leave the feature "
                    "out of it"
                )

    def step_groups(self) -> list[list[str]]:
        """Groups of feature lists that have equal lengths in every record, by name."""
        groups: dict[int, list[str]] = {}
        for name in sorted(self.features):
            if self.features[name].is_feature_list:
                groups.setdefault(self.features[name].digest, []).append(name)
        return list(groups.values())

    def merge(self, other: RecordSummary) -> None:
        for feature_lists, path in other.files.items():
            self.see_file(path, feature_lists=feature_lists)
        self.rows += other.rows
        self.dropped += other.dropped
        self.rounded.update(other.rounded)
        if self.sample is not None and other.sample is not None:
            self.sample.merge(other.sample)
        for name in sorted(other.features):
            self._feature(name).merge(other.features[name])

    def statistics(self, files: int) -> Statistics:
        """All statistics, features by name.

        Raises:
          DataError: no record counts.
        """
        if self.dropped and not self.rows:
            raise DataError(
                f"the filter of the spec drops all {counted(self.dropped, 'record')}. Check "
                "`filter`, or name other files"
            )
        result = Statistics(
            version=1,
            rows=self.rows,
            files=files,
            features={
                name: self.features[name].statistics(self.rows) for name in sorted(self.features)
            },
        )
        if not self.filter:
            return result
        return result.model_copy(update={"dropped": self.dropped, "filter": tuple(self.filter)})

    def _feature(self, name: str) -> FeatureSummary:
        if name not in self.features:
            if len(self.features) == _MOST_FEATURES:
                raise DataError(
                    f"the records have more than {_MOST_FEATURES:,} different features, the last "
                    f"one {name!r}. Check whether values are stored as names"
                )
            self.features[name] = FeatureSummary(name, self._limit)
        return self.features[name]


def repeats(steps: FeatureBlock, targets: FeatureBlock) -> bool:
    """Whether a record has a value twice, among its steps and the last of its next items.

    The steps a, b with the next items b, c are the history a, b, c. False for blocks of which one
    does not follow the other.
    """
    if steps.dtype != targets.dtype or not np.array_equal(steps.lengths, targets.lengths):
        return False
    full = steps.lengths > 0
    last = np.cumsum(targets.lengths)[full] - 1
    values = np.asarray(steps.values, object), np.asarray(targets.values, object)[last]
    _, codes = np.unique(np.concatenate(values).astype(_KINDS[steps.dtype]), return_inverse=True)
    records = np.arange(len(full))
    owners = np.concatenate([np.repeat(records, steps.lengths), records[full]])
    pairs = owners * (codes.max(initial=0) + 1) + codes
    return len(np.unique(pairs)) < len(pairs)


_KINDS = {"string": bytes, "int64": np.int64, "float32": np.float32}


def _positions(file: str, before: int, rows: np.ndarray) -> np.ndarray:
    """A random number for each record of a file, the same for every feature."""
    number = rows.astype(np.uint64) + np.uint64(before + (zlib.crc32(file.encode()) << 32))
    number = number * np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return number ^ (number >> np.uint64(32))


def _length_bin(length: int) -> int:
    return length if length < _EXACT_LENGTHS else 1 << (length.bit_length() - 1)


_CLASSES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (RecordSummary, FeatureSummary, NumberSummary, ValueCounter, CsvOptions, RowSample)
}


def to_bytes(summary: RecordSummary) -> bytes:
    return json.dumps(_plain(summary), separators=(",", ":"), ensure_ascii=False).encode()


def from_bytes(content: bytes) -> RecordSummary:
    summary = _value(json.loads(content))
    assert isinstance(summary, RecordSummary)
    return summary


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Fraction):
        # Hexadecimal, because Python refuses decimal numbers of more than 4,300 digits.
        return {"fraction": [f"{value.numerator:x}", f"{value.denominator:x}"]}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_plain(entry) for entry in value]}
    if isinstance(value, dict):
        keys: Any = [_plain(key) for key in value]
        if value and all(isinstance(key, bytes) for key in value):
            keys = {"all bytes": [key.decode("latin-1") for key in value]}
        name = "counter" if isinstance(value, Counter) else "dict"
        return {name: [keys, [_plain(entry) for entry in value.values()]]}
    name = type(value).__name__
    assert _CLASSES.get(name) is type(value), f"{name} has no form in JSON"
    state = value.__getstate__() if "__getstate__" in vars(type(value)) else vars(value)
    return {name: {key: _plain(entry) for key, entry in state.items()}}


def _value(plain: Any) -> Any:
    if not isinstance(plain, dict):
        return plain
    ((name, content),) = plain.items()
    if name == "bytes":
        return base64.b64decode(content)
    if name == "fraction":
        return Fraction(*(int(part, 16) for part in content))
    if name in ("list", "tuple"):
        entries = (_value(entry) for entry in content)
        return tuple(entries) if name == "tuple" else list(entries)
    if name in ("dict", "counter"):
        keys, values = content
        if isinstance(keys, dict):
            keys_of = [key.encode("latin-1") for key in keys["all bytes"]]
        else:
            keys_of = [_value(key) for key in keys]
        pairs = dict(zip(keys_of, map(_value, values)))
        return Counter(pairs) if name == "counter" else pairs
    kind = _CLASSES[name]
    item = kind.__new__(kind)
    state = {key: _value(entry) for key, entry in content.items()}
    if "__setstate__" in vars(kind):
        item.__setstate__(state)
    else:
        vars(item).update(state)
    return item
