"""Checks whether some records fit a spec: `--mode=validate --validate_rows=N`.

Reads the first rows of the files, the same number from each file, and checks them one by one. A
record that would stop a run is an error. Something that makes a model worse than it looks is a
warning. Prints rates for each feature, label, column and table, so that a person can judge.

"Missing" means what the model treats as missing: an absent feature, and "" or -1 if they stand for
a missing value (`FeatureSpec.missing_value`). The share of values that collide in hash
buckets is not measured, but estimated from the number of different values. Only reads files, and
needs no session.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

import tensorflow as tf

from feature_specs import kinds
from feature_specs.errors import counted
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.integrity import diagnosis, stored_records
from input_pipelines.integrity.stored_records import CrossCounter
from input_pipelines.prepare.analyze.vocabularies import collision_share
from input_pipelines.reading import selection
from input_pipelines.record_files import record_lists, tfrecords

# From these rates on there is a warning. They are low enough to find mistakes in a spec, and high
# enough to accept ordinary data.
MANY_MISSING = 0.5
MANY_OUTSIDE = 0.2
MANY_COLLIDE = 0.2

# A line of the report, and a warning or None.
Line = tuple[str, Optional[str]]

_MIB = 2**20
_EXAMPLES = 3

# If a label has more classes than this, only the most frequent ones are listed.
_CLASSES_ALL_LISTED = 10
_CLASSES_LISTED = 5


@dataclasses.dataclass(frozen=True)
class DataReport:
    """What the check found.

    Attributes:
      lines: the report, for people.
      errors: what would stop a run, with the first records where it was found.
      warnings: what a person should look at.
    """

    lines: tuple[str, ...]
    errors: tuple[str, ...]
    warnings: tuple[str, ...]


def check(spec: FeatureSpec, files: Sequence[str], *, rows: int) -> DataReport:
    """Checks up to `rows` records of TFRecord files with a spec.

    Records that the spec's filter drops are not checked, because no run reads more of them.

    Raises:
      DataError: a file is corrupt, or the files have no records.
    """
    counts = _Counts(spec)
    share = -(-rows // len(files))
    with tf.init_scope():
        of_training = diagnosis.file_check(spec)
        for path in files:
            number = 0
            for records in _blocks(path, share):
                # Training's own transformation decides what is an error.
                bad = dict(of_training.bad_of(tf.constant(records)))
                kept = selection.verdicts(records, spec.conditions)
                for i, record in enumerate(records):
                    if kept[i] is False:
                        counts.dropped += 1
                    else:
                        counts.add(path, number + i, record, bad.get(i))
                number += len(records)
    if not counts.rows and not counts.dropped:
        if len(files) == 1:
            raise DataError(f"{files[0]} has no records")
        raise DataError(f"{files[0]} and the other {len(files) - 1} files have no records")
    return counts.report()


def _blocks(path: str, count: int) -> Iterator[list[bytes]]:
    """The first records of a file."""
    try:
        for block in record_lists.of_files([path]):
            yield block[:count]
            count -= len(block[:count])
            if not count:
                return
    except tfrecords.READ_ERRORS:
        raise DataError(tfrecords.corruption(path) or f"{path}: cannot be read") from None


class _Counts:
    """Sums over the records seen so far."""

    def __init__(self, spec: FeatureSpec):
        self._spec = spec
        self.rows = 0
        self.dropped = 0  # By the filter.
        self._problems: dict[str, list[str]] = {}
        self._missing: Counter[str] = Counter()
        self._values: dict[str, Counter[Any]] = {name: Counter() for name in spec.used_features()}
        self._labels: dict[str, Counter[Any]] = {name: Counter() for name in spec.labels}
        # The values that stand for "missing", as they are stored.
        words = {name: spec.missing_value(name) for name in spec.features}
        self._words = {n: w.encode() if isinstance(w, str) else w for n, w in words.items()}
        self._weights: dict[str, Counter[str]] = {
            name: Counter() for name, label in spec.labels.items() if label.weight is not None
        }
        self._crosses = {
            name: CrossCounter.of(spec, column)
            for name, column in spec.of_kind(kinds.Crossed).items()
        }

    def add(self, path: str, number: int, record: bytes, reason: Optional[str]) -> None:
        """Adds a record. `reason` says why training refuses it, and is None otherwise."""
        self.rows += 1
        if reason is not None:
            self._problems.setdefault(reason, []).append(f"{path}: record {number}")
            return
        features = stored_records.read(self._spec, record)

        def present(name: str) -> list[Any]:
            word = self._words[name]
            stored = stored_records.values(features.get(name))
            return [value for value in stored if word is None or value != word]

        for name, counter in self._values.items():
            values = present(name)
            if values and self._spec.features[name].decode is not None:
                continue  # Encoded values are long and usually all different.
            if values:
                counter.update(values)
            else:
                self._missing[name] += 1
        for name, counter in self._labels.items():
            counter.update(stored_records.values(features.get(name)))
        for name, counts in self._weights.items():
            self._add_weight(str(self._spec.labels[name].weight), features, counts)
        for cross in self._crosses.values():
            if cross is not None:
                cross.add(features)

    def _add_weight(self, weight: str, features: dict[str, Any], counts: Counter[str]) -> None:
        values = stored_records.values(features.get(weight))
        if values:
            counts["zero"] += not any(values)
            return
        counts["missing"] += 1
        # Missing labels have no default. As weights they are 0.
        feature = self._spec.features.get(weight)
        counts["zero"] += feature is None or not feature.default

    def report(self) -> DataReport:
        good = self.rows - sum(map(len, self._problems.values()))
        lines, warnings = [f"{self.rows:,} records, {good:,} of them fit the spec"], []
        if self.dropped:
            lines.append(f"  {counted(self.dropped, 'more record')} dropped by the filter")
        if not self.rows:
            warnings.append(
                f"the filter of the spec drops all {counted(self.dropped, 'record')} that were "
                "read, so no record was checked. Check `filter`, or read more rows"
            )
        rates = [
            *self._feature_lines(good),
            *self._label_lines(),
            *self._weight_lines(good),
            *self._column_lines(),
            *self._table_lines(),
        ]
        if good:
            if good < self.rows:
                lines.append(f"  the lines below count only the {counted(good, 'record')} that fit")
            for line, warning in rates:
                lines.append(f"  {line}")
                if warning:
                    warnings.append(warning)
        return DataReport(tuple(lines), tuple(self._errors()), tuple(warnings))

    def _errors(self) -> Iterator[str]:
        for reason, places in self._problems.items():
            more = f" and {len(places) - _EXAMPLES:,} more" if len(places) > _EXAMPLES else ""
            yield f"{', '.join(places[:_EXAMPLES])}{more}: {reason}"

    def _feature_lines(self, good: int) -> Iterator[Line]:
        for name, counter in self._values.items():
            missing = self._missing[name] / good if good else 0.0
            line = f"feature {name}: missing in {missing:.1%}"
            if self._spec.features[name].decode is None:
                line += f", {len(counter):,} different values"
            warning = None
            if missing >= MANY_MISSING:
                warning = f"feature {name!r} is missing in {missing:.1%} of the records"
            elif len(counter) == 1:
                warning = f"feature {name!r} has only one value, {next(iter(counter))!r}"
            yield line, warning

    def _label_lines(self) -> Iterator[Line]:
        for name, counter in self._labels.items():
            total = sum(counter.values())
            classes = self._spec.label_classes(name)
            if self._spec.items_of_label(name) is not None:
                line = f"label {name}: {len(counter):,} different items"
            elif classes is None:
                mean = sum(value * count for value, count in counter.items()) / max(total, 1)
                line = f"label {name}: mean {mean:.4g}"
            else:
                line = f"label {name}: {_class_shares(counter, classes)}"
            only = [_shown(value) for value in counter]
            warning = f"label {name!r} has only one value, {only[0]}" if len(only) == 1 else None
            yield line, warning

    def _weight_lines(self, good: int) -> Iterator[Line]:
        for name, counts in self._weights.items():
            weight = self._spec.labels[name].weight
            zero, missing = (counts[what] / max(good, 1) for what in ("zero", "missing"))
            line = f"weight {weight} of label {name}: 0 in {zero:.1%}, missing in {missing:.1%}"
            warning = None
            if zero == 1:
                warning = f"weight {weight!r} of label {name!r} is 0 in all of the records"
            yield line, warning

    def _column_lines(self) -> Iterator[Line]:
        """The lines about columns. Kinds without a rate have no line."""
        lines: dict[type[kinds.Column], Callable[[str, Any], Iterator[Line]]] = {
            kinds.Vocabulary: self._outside_words,
            kinds.Identity: self._outside_size,
            kinds.Time: self._not_times,
            kinds.HashBucket: self._hashed_values,
            kinds.Crossed: self._crossed_values,
        }
        for name, column in self._spec.columns.items():
            if type(column) in lines:
                yield from lines[type(column)](name, column)

    def _outside_words(self, name: str, column: kinds.Vocabulary) -> Iterator[Line]:
        words = set(column.row_names(self._spec))
        values = self._values.get(column.source, Counter())
        outside = sum(n for value, n in values.items() if _shown(value) not in words)
        yield _outside_line(name, outside, sum(values.values()), "outside its vocabulary")

    def _outside_size(self, name: str, column: kinds.Identity) -> Iterator[Line]:
        if column.default_id is not None:
            values = self._values.get(column.source, Counter())
            outside = sum(n for v, n in values.items() if not 0 <= v < column.size)
            yield _outside_line(name, outside, sum(values.values()), "outside its size")

    def _not_times(self, name: str, column: kinds.Time) -> Iterator[Line]:
        values = self._values.get(column.source, Counter())
        times = (v if isinstance(v, int) else _shown(v) for v in values)
        other = sum(n for time, n in zip(times, values.values()) if column.read(time) is None)
        what = f"are not times of the format {column.format!r}"
        yield _outside_line(name, other, sum(values.values()), what)

    def _hashed_values(self, name: str, column: kinds.HashBucket) -> Iterator[Line]:
        values = self._values.get(column.source, ())
        yield _hashed_line(name, len(values), "values", column.size)

    def _crossed_values(self, name: str, column: kinds.Crossed) -> Iterator[Line]:
        cross = self._crosses[name]
        if cross is not None:
            yield _hashed_line(name, cross.different, "combinations", column.size)
        else:
            yield f"column {name}: a cross of lists or buckets, which is not counted", None

    def _table_lines(self) -> Iterator[Line]:
        """The lines about tables of columns in the groups, for kinds that have large tables."""
        lines: dict[type[kinds.Column], Callable[[str, Any], Iterator[str]]] = {
            kinds.Embedding: self._table,
            kinds.HashBucket: self._weights_of_ids,
            kinds.Growing: self._weights_of_ids,
            kinds.Crossed: self._weights_of_ids,
        }
        for name in self._spec.used_columns():
            column = self._spec.columns[name]
            if type(column) in lines:
                for line in lines[type(column)](name, column):
                    yield line, None

    def _table(self, name: str, column: kinds.Embedding) -> Iterator[str]:
        of, size = name, self._spec.size_of(column.source)
        if column.table is not None:
            used, tables = self._spec.used_columns(), self._spec.of_kind(kinds.Embedding)
            members = [n for n in used if n in tables and tables[n].table == column.table]
            if name != members[0]:
                return  # The line of the first member describes the shared table.
            of = f"{column.table} of {', '.join(members)}"
        mib = size * column.dimension * 4 / _MIB
        yield f"table {of}: {size:,} x {column.dimension}, {mib:,.1f} MiB"

    def _weights_of_ids(self, name: str, column: kinds.Column) -> Iterator[str]:
        size = self._spec.size_of(name)
        yield f"weights of {name}: {size:,}, {size * 4 / _MIB:,.1f} MiB for each logit"


def _class_shares(counter: Counter[Any], classes: int) -> str:
    """The share of each class; with many classes only their number and the most frequent ones."""
    listed, begin = sorted(counter.items()), ""
    if len(listed) > _CLASSES_ALL_LISTED:
        listed = sorted(listed, key=lambda item: -item[1])[:_CLASSES_LISTED]
        begin = f"{len(counter):,} of {classes:,} classes, most often "
    total = sum(counter.values())
    return begin + ", ".join(f"{_shown(value)} in {count / total:.1%}" for value, count in listed)


def _hashed_line(name: str, ids: int, what: str, size: int) -> Line:
    share = collision_share(ids, size)
    line = f"column {name}: {ids:,} {what} in {size:,} buckets, {share:.1%} expected to collide"
    return line, f"{line}; raise size" if share >= MANY_COLLIDE else None


def _outside_line(name: str, outside: int, total: int, what: str) -> Line:
    share = outside / total if total else 0.0
    line = f"column {name}: {share:.1%} of the values {what}"
    return line, line if share >= MANY_OUTSIDE else None


def _shown(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
