"""Whether some records fit a spec: `--mode=validate --validate_rows=N`.

Looks at the first rows of the files, spread evenly over them, one record at a time: what stops a
run is an error, what makes a model worse than it looks is a warning. Prints rates a feature, a
label and a table, so that a person can judge. "Missing" is what the model takes for it: a feature
that is absent, and "" or -1 where they stand for that (`feature_specs.reference.missing_values`).
What share
of values collides in hash buckets is not measured but expected, from how many there are. Reads
only, and needs no session.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from feature_specs.kinds.column_kinds import (
    Crossed,
    DynamicEmbedding,
    Embedding,
    HashBucket,
    Identity,
    Vocabulary,
)
from feature_specs.reference.missing_values import missing_value
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.integrity import stored_records
from input_pipelines.integrity.cross_counts import CrossCounter
from input_pipelines.integrity.diagnosis import explain
from input_pipelines.prepare.analyze.sizes import collision_share
from input_pipelines.record_files import tfrecords

# From here on a rate is a warning. They are for a first look: low enough to see what is forgotten,
# high enough that ordinary data pass.
MANY_MISSING = 0.5
MANY_OUTSIDE = 0.2
MANY_COLLIDE = 0.2

_MIB = 2**20
_EXAMPLES = 3

# A label of more classes than this is told by its most frequent ones.
_CLASSES_ALL_TOLD = 10
_CLASSES_TOLD = 5


@dataclasses.dataclass(frozen=True)
class DataReport:
    """What was found.

    Attributes:
      lines: the report, for people.
      errors: what would stop a run, with the first records that have it.
      warnings: what a person should look at.
    """

    lines: tuple[str, ...]
    errors: tuple[str, ...]
    warnings: tuple[str, ...]


def check(spec: FeatureSpec, files: Sequence[str], *, rows: int) -> DataReport:
    """Holds up to `rows` records of some TFRecord files against a spec.

    Raises:
      DataError: a file is corrupt, or there is no record.
    """
    counts = _Counts(spec)
    share = -(-rows // len(files))
    for path in files:
        for number, record in enumerate(itertools.islice(_records(path), share)):
            counts.add(path, number, record)
    if not counts.rows:
        others = " and the others" if len(files) > 1 else ""
        raise DataError(f"there is no record in {files[0]}{others}")
    return counts.report()


def _records(path: str) -> Iterator[bytes]:
    try:
        for block in tfrecords.blocks([path]):
            yield from block.numpy()
    except tfrecords.READ_ERRORS:
        raise DataError(tfrecords.corruption(path) or f"{path}: cannot be read") from None


class _Counts:
    """Sums over the records seen so far."""

    def __init__(self, spec: FeatureSpec):
        self._spec = spec
        self.rows = 0
        self._problems: dict[str, list[str]] = {}
        self._missing: Counter[str] = Counter()
        self._values: dict[str, Counter[Any]] = {name: Counter() for name in spec.used_features()}
        self._labels: dict[str, Counter[Any]] = {name: Counter() for name in spec.labels}
        # As they are stored.
        words = {name: missing_value(spec, name) for name in spec.features}
        self._words = {n: w.encode() if isinstance(w, str) else w for n, w in words.items()}
        self._weights: dict[str, Counter[str]] = {
            name: Counter() for name, label in spec.labels.items() if label.weight is not None
        }
        self._crosses = {
            name: CrossCounter.of(spec, column)
            for name, column in spec.columns.items()
            if isinstance(column, Crossed)
        }

    def add(self, path: str, number: int, record: bytes) -> None:
        self.rows += 1
        reason = explain(self._spec, record)
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
                continue  # Long, and each another one.
            if values:
                counter.update(values)
            else:
                self._missing[name] += 1
        for name, counter in self._labels.items():
            counter.update(stored_records.values(features.get(name)))
        for name, found in self._weights.items():
            self._add_weight(str(self._spec.labels[name].weight), features, found)
        for cross in self._crosses.values():
            if cross is not None:
                cross.add(features)

    def _add_weight(self, weight: str, features: dict[str, Any], found: Counter[str]) -> None:
        values = stored_records.values(features.get(weight))
        if values:
            found["zero"] += not any(values)
            return
        found["missing"] += 1
        found["zero"] += not self._spec.features[weight].default

    def report(self) -> DataReport:
        good = self.rows - sum(map(len, self._problems.values()))
        lines, warnings = [f"{self.rows:,} records, {good:,} of them fit the spec"], []
        rates = [
            *self._feature_lines(good), *self._label_lines(), *self._weight_lines(good),
            *self._column_lines(), *self._table_lines(),
        ]  # fmt: skip
        if good:
            for line, warning in rates:
                lines.append(f"  {line}")
                if warning:
                    warnings.append(warning)
        return DataReport(tuple(lines), tuple(self._errors()), tuple(warnings))

    def _errors(self) -> Iterator[str]:
        for reason, places in self._problems.items():
            more = f" and {len(places) - _EXAMPLES:,} more" if len(places) > _EXAMPLES else ""
            yield f"{', '.join(places[:_EXAMPLES])}{more}: {reason}"

    def _feature_lines(self, good: int) -> Iterator[tuple[str, Optional[str]]]:
        for name, counter in self._values.items():
            missing = self._missing[name] / good if good else 0.0
            line = f"feature {name}: missing in {missing:.1%}"
            if self._spec.features[name].decode is None:
                line += f", {len(counter):,} different values"
            warning = None
            if missing >= MANY_MISSING:
                warning = f"feature {name!r} is missing in {missing:.1%} of the records"
            elif len(counter) == 1:
                warning = f"feature {name!r} has one value only, {next(iter(counter))!r}"
            yield line, warning

    def _label_lines(self) -> Iterator[tuple[str, Optional[str]]]:
        for name, counter in self._labels.items():
            total = sum(counter.values())
            classes = self._spec.label_classes(name)
            if classes is None:
                mean = sum(value * count for value, count in counter.items()) / max(total, 1)
                line = f"label {name}: mean {mean:.4g}"
            else:
                line = f"label {name}: {_class_shares(counter, classes)}"
            only = [_shown(value) for value in counter]
            warning = f"label {name!r} has one value only, {only[0]}" if len(only) == 1 else None
            yield line, warning

    def _weight_lines(self, good: int) -> Iterator[tuple[str, Optional[str]]]:
        for name, found in self._weights.items():
            weight = self._spec.labels[name].weight
            zero, missing = (found[what] / max(good, 1) for what in ("zero", "missing"))
            line = f"weight {weight} of label {name}: 0 in {zero:.1%}, missing in {missing:.1%}"
            warning = None
            if zero == 1:
                warning = f"weight {weight!r} of label {name!r} is 0 in all of the records"
            yield line, warning

    def _column_lines(self) -> Iterator[tuple[str, Optional[str]]]:
        for name, column in self._spec.columns.items():
            if isinstance(column, Vocabulary):
                yield self._outside(name, column)
            elif isinstance(column, Identity) and column.default_id is not None:
                values = self._values.get(column.source, Counter())
                outside = sum(n for v, n in values.items() if not 0 <= v < column.size)
                yield _outside_line(name, outside, sum(values.values()), "outside its size")
            elif isinstance(column, HashBucket):
                yield _hashed_line(
                    name, len(self._values.get(column.source, ())), "values", column.size
                )
            elif isinstance(column, Crossed):
                cross = self._crosses[name]
                if cross is not None:
                    yield _hashed_line(name, cross.different, "combinations", column.size)
                else:
                    yield f"column {name}: a cross of lists or buckets, which is not counted", None

    def _table_lines(self) -> Iterator[tuple[str, Optional[str]]]:
        shared: dict[str, list[str]] = {}
        for name in self._spec.used_columns():
            column = self._spec.columns[name]
            if isinstance(column, Embedding) and column.shared is not None:
                shared.setdefault(column.shared, []).append(name)
        for name in self._spec.used_columns():
            column = self._spec.columns[name]
            if isinstance(column, Embedding):
                size = self._spec.size_of(column.source)
                mib = size * column.dimension * 4 / _MIB
                of = name
                if column.shared is not None:
                    if name != shared[column.shared][0]:
                        continue  # The same table.
                    of = f"{column.shared} of {', '.join(shared[column.shared])}"
                yield f"table {of}: {size:,} x {column.dimension}, {mib:,.1f} MiB", None
            elif isinstance(column, DynamicEmbedding):
                yield self._dynamic_line(name, column), None
            elif isinstance(column, (Crossed, HashBucket)):
                size = self._spec.size_of(name)
                yield f"weights of {name}: {size:,}, {size * 4 / _MIB:,.1f} MiB a logit", None

    def _dynamic_line(self, name: str, column: DynamicEmbedding) -> str:
        if column.max_rows is None:
            seen = self._values.get(column.source, Counter())
            rows, what = sum(n >= column.min_count for n in seen.values()), "these records fill"
        else:
            rows, what = column.max_rows, "an eviction leaves"
        mib = rows * column.dimension * 4 / _MIB
        return f"table {name}: dynamic, {what} {rows:,} x {column.dimension}, {mib:,.1f} MiB"

    def _outside(self, name: str, column: Vocabulary) -> tuple[str, Optional[str]]:
        words = set(self._spec.words(column))
        values = self._values.get(column.source, Counter())
        outside = sum(n for value, n in values.items() if _shown(value) not in words)
        return _outside_line(name, outside, sum(values.values()), "outside its vocabulary")


def _class_shares(counter: Counter[Any], classes: int) -> str:
    """The share of each class; of many classes how many were seen, and the most frequent ones."""
    told, begin = sorted(counter.items()), ""
    if len(told) > _CLASSES_ALL_TOLD:
        told = sorted(told, key=lambda item: -item[1])[:_CLASSES_TOLD]
        begin = f"{len(counter):,} of {classes:,} classes, most often "
    total = sum(counter.values())
    return begin + ", ".join(f"{_shown(value)} in {count / total:.1%}" for value, count in told)


def _hashed_line(name: str, ids: int, what: str, size: int) -> tuple[str, Optional[str]]:
    share = collision_share(ids, size)
    line = f"column {name}: {ids:,} {what} in {size:,} buckets, {share:.1%} expected to collide"
    return line, f"{line}; raise size" if share >= MANY_COLLIDE else None


def _outside_line(name: str, outside: int, total: int, what: str) -> tuple[str, Optional[str]]:
    share = outside / total if total else 0.0
    line = f"column {name}: {share:.1%} of the values {what}"
    return line, line if share >= MANY_OUTSIDE else None


def _shown(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
