"""Compares two sets of statistics, and checks the distances with the thresholds of a spec.

    report = drift.compare(spec, load(Path("last/statistics.json")), scan(files).statistics(2))
    report.errors      # a sentence for each distance over its `stop`

Every label and every feature that is not ignored is measured, even without a threshold, so that a
person can choose one. The measures (`distances`) are l_infinity for strings, for classes, and for
integers that an identity, vocabulary, hash_bucket or crossed column reads; jensen_shannon for other
numbers; and missing for all. If a threshold names another measure, that measure is added.

If the model treats "" or -1 as missing (`FeatureSpec.missing_value`), `missing` and
`l_infinity` do the same. So it is not drift if records store these values or omit the feature. The
statistics always count empty strings. The count of -1 comes from the listed words. It is 0 if -1 is
not listed (then it is less frequent than each listed word), and a lower bound if counts are
estimates. If a threshold asks for jensen_shannon of such an integer, -1 counts as a number.

Reads no records and writes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal, Optional, Union

from feature_specs.entry import Scalar
from feature_specs.feature import Feature
from feature_specs.label import Label
from feature_specs.sections.records import Measures, Thresholds
from feature_specs.spec import FeatureSpec
from feature_specs.statistics import FeatureStatistics, Statistics, population
from feature_specs.validation import accepted_values
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import distances
from input_pipelines.prepare.analyze.distances import Distance

Verdict = Literal["stop", "warn", "ok", "-"]
_WORST_FIRST: tuple[Verdict, ...] = ("stop", "warn", "ok", "-")

# Distances are differences of shares, which have rounding errors: 0.4 - 0.3 is a little over 0.1.
_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True)
class Finding:
    """One measure of one feature or label.

    Attributes:
      kind: `feature` or `label`.
      name: its name.
      measure: `l_infinity`, `jensen_shannon` or `missing`.
      distance: the distance, and what moved.
      thresholds: the thresholds in the spec; empty if it has none.
    """

    kind: str
    name: str
    measure: str
    distance: Distance
    thresholds: Thresholds

    @property
    def verdict(self) -> Verdict:
        for verdict, threshold in (("stop", self.thresholds.stop), ("warn", self.thresholds.warn)):
            if threshold is not None and self.distance.value > threshold + _ROUNDING:
                return verdict  # type: ignore[return-value]
        return "-" if self.thresholds == Thresholds() else "ok"

    @property
    def sentence(self) -> str:
        threshold = self.thresholds.stop if self.verdict == "stop" else self.thresholds.warn
        moved = "; ".join(self.distance.moved) or "one of the two has no value"
        return (
            f"drift of {self.kind} {self.name!r}: {self.measure} {self.distance.value:.4f} is "
            f"over {self.verdict}: {threshold:g}; {moved}"
        )


@dataclasses.dataclass(frozen=True)
class DriftReport:
    """What the comparison found.

    Attributes:
      rows_before, rows: the number of records that count in the baseline, and now.
      findings: the worst first: over `stop`, over `warn`, then by decreasing distance.
      unusable: errors about what cannot be compared: features and labels that have another type
        than in the spec, or are feature lists only on one side.
      dropped_before, dropped: the number of records that the filter drops.
      filters: a warning if the two count by different filters.
    """

    rows_before: int
    rows: int
    findings: tuple[Finding, ...]
    unusable: tuple[str, ...]
    dropped_before: int = 0
    dropped: int = 0
    filters: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[str, ...]:
        over = (finding.sentence for finding in self.findings if finding.verdict == "stop")
        return (*self.unusable, *over)

    @property
    def warnings(self) -> tuple[str, ...]:
        over = (finding.sentence for finding in self.findings if finding.verdict == "warn")
        return (*self.filters, *over)

    @property
    def lines(self) -> tuple[str, ...]:
        """The table, for people."""
        head = ("what", "measure", "distance", "warn", "stop", "verdict")
        rows = [head, *map(_cells, self.findings)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        now = population(self.rows, self.dropped, "record")
        before = population(self.rows_before, self.dropped_before, "record")
        lines = [f"drift of {now} against {before} of the baseline"]
        for row in rows:
            left = "  ".join(cell.ljust(width) for cell, width in zip(row[:2], widths))
            right = "  ".join(cell.rjust(width) for cell, width in zip(row[2:5], widths[2:]))
            lines.append(f"  {left}  {right}  {row[5]}")
        return tuple(lines)


def _cells(finding: Finding) -> tuple[str, ...]:
    limits = (finding.thresholds.warn, finding.thresholds.stop)
    return (
        f"{finding.kind} {finding.name}",
        finding.measure,
        f"{finding.distance.value:.4f}",
        *("-" if limit is None else f"{limit:g}" for limit in limits),
        finding.verdict,
    )


def compare(spec: FeatureSpec, before: Statistics, now: Statistics) -> DriftReport:
    """Measures how far the records moved from the baseline.

    Args:
      spec: says which features there are, how they are read, and what is too far.
      before: the statistics of the baseline.
      now: the statistics of the new records.

    Raises:
      DataError: one of the two has no records.
    """
    for statistics, what in ((before, "the baseline"), (now, "the records")):
        if not statistics.rows:
            raise DataError(f"the statistics of {what} have 0 records, so they cannot be compared")
    findings: list[Finding] = []
    unusable = [*_other_records(spec, before, "baseline"), *_other_records(spec, now, "records")]
    for kind, name, entry in _entries(spec):
        wrong = _other_types(kind, name, entry, before, now)
        if not wrong and kind == "label" and entry.dtype == "float32":
            wrong = _other_values(spec, name, before, now)
        if wrong:
            unusable += wrong
        else:
            findings += _findings(spec, kind, name, before, now)
    findings.sort(key=lambda f: (_WORST_FIRST.index(f.verdict), -f.distance.value))
    filters = []
    if before.filter != now.filter:
        filters.append(
            "the baseline and the records do not count by the same filter, so a difference may "
            "come from the filter. Analyze the baseline again with --mode=analyze --spec"
        )
    return DriftReport(
        before.rows,
        now.rows,
        tuple(findings),
        tuple(unusable),
        before.dropped,
        now.dropped,
        tuple(filters),
    )


def _entries(spec: FeatureSpec) -> Iterator[tuple[str, str, Union[Feature, Label]]]:
    for name, feature in spec.features.items():
        if name not in spec.ignored or name in spec.drift.features:
            yield "feature", name, feature
    for name, label in spec.labels.items():
        yield "label", name, label


def _other_types(
    kind: str, name: str, entry: Union[Feature, Label], before: Statistics, now: Statistics
) -> list[str]:
    wrong = []
    listed = getattr(entry, "feature_list", False)
    for statistics, what in ((before, "in the baseline"), (now, "in the records")):
        feature = statistics.features.get(name)
        if feature is None:
            continue
        if feature.dtype not in (None, entry.dtype):
            wrong.append(
                f"drift of {kind} {name!r}: it is {feature.dtype} {what} but {entry.dtype} in the "
                "spec, so it cannot be compared"
            )
        elif listed != (feature.odd_steps is not None):
            wrong.append(
                f"drift of {kind} {name!r}: it is {'not ' * listed}a feature list {what}, but "
                f"{'not ' * (not listed)}in the spec, so it cannot be compared"
            )
    return wrong


def _other_values(spec: FeatureSpec, name: str, before: Statistics, now: Statistics) -> list[str]:
    """An error if a float32 label of classes has values other than 0 and 1."""
    accepted = accepted_values.of_head(spec, name)
    if not accepted.whole:
        return []
    wrong = []
    for statistics, what in ((before, "in the baseline"), (now, "in the records")):
        feature = statistics.features.get(name)
        numbers = feature.numbers if feature is not None else None
        if feature is None or numbers is None:
            continue
        finite = feature.values - numbers.non_finite
        # If no value is outside of [0, 1], the sum is smaller than the number of values that are
        # not 0, unless each of these is 1.
        least = (finite - numbers.zeros) * (1 - _ROUNDING)
        if numbers.min < 0 or numbers.max > 1 or numbers.mean * finite < least:
            remedy = accepted.remedy or "correct the records"
            wrong.append(
                f"drift of label {name!r}: it has values other than 0 and 1 {what} (mean "
                f"{numbers.mean:.6g}), expected {accepted.expected}, so it cannot be compared; "
                f"{remedy}"
            )
    return wrong


def _other_records(spec: FeatureSpec, statistics: Statistics, what: str) -> Iterator[str]:
    """An error if records have the wrong kind, unless a measured feature already reports it.

    This uses the same signs as `stored_records.wrong_kind`: feature lists that the spec would not
    read; or features that the spec declares as feature lists, in records without feature lists.
    """
    lists = sorted(n for n, feature in statistics.features.items() if feature.odd_steps is not None)
    measured = {name for _, name, _ in _entries(spec)}
    if lists and not spec.sequence_examples and not measured.intersection(lists):
        yield (
            f"the {what}: these are tf.train.SequenceExamples, with the feature lists "
            f"{', '.join(lists)}, but the spec describes tf.train.Examples, so they cannot be "
            "compared"
        )
    inside = [name for name in spec.feature_lists if name in statistics.features]
    if inside and not lists and not measured.intersection(inside):
        yield (
            f"the {what}: these are tf.train.Examples, with {', '.join(inside)} among their "
            "features, but the spec describes tf.train.SequenceExamples, so they cannot be "
            "compared"
        )


def _findings(
    spec: FeatureSpec, kind: str, name: str, before: Statistics, now: Statistics
) -> Iterator[Finding]:
    section = spec.drift.features if kind == "feature" else spec.drift.labels
    own = section.get(name, Measures())
    old, new = before.features.get(name), now.features.get(name)
    usual = "l_infinity" if is_category(spec, kind, name) else "jensen_shannon"
    present, new_present = old, new
    if kind == "feature":
        word = spec.missing_value(name)
        present, new_present = _without(old, word), _without(new, word)
    for measure in ("l_infinity", "jensen_shannon"):
        if _is_decoded(spec, kind, name):
            break
        if measure == usual or getattr(own, measure) is not None:
            sides = (present, new_present) if measure == "l_infinity" else (old, new)
            distance = _distance(spec, kind, name, measure, *sides)
            yield Finding(kind, name, measure, distance, thresholds(spec, kind, name, measure))
    distance = distances.missing(present, new_present, rows_before=before.rows, rows=now.rows)
    yield Finding(kind, name, "missing", distance, thresholds(spec, kind, name, "missing"))


def _without(
    statistics: Optional[FeatureStatistics], word: Optional[Scalar]
) -> Optional[FeatureStatistics]:
    """The statistics for l_infinity and missing: values that mean "missing" count as missing."""
    if statistics is None or statistics.words is None or word is None or statistics.lengths.max > 1:
        return statistics
    top = dict(statistics.words.top)
    count = statistics.words.empty if word == "" else top.pop(str(word), 0)
    words = statistics.words.model_copy(update={"top": tuple(top.items())})
    if word == "":
        words = words.model_copy(update={"empty": 0})
    return statistics.model_copy(
        update={
            "values": statistics.values - count,
            "missing": statistics.missing + count,
            "words": words,
        }
    )


def thresholds(spec: FeatureSpec, kind: str, name: str, measure: str) -> Thresholds:
    """The thresholds of the spec for a measure of a feature or label; empty if it has none."""
    section = spec.drift.features if kind == "feature" else spec.drift.labels
    if section.get(name) == Measures():
        return Thresholds()
    own: Optional[Thresholds] = getattr(section.get(name, Measures()), measure)
    if own is not None:
        return own
    usual = {"l_infinity" if is_category(spec, kind, name) else "jensen_shannon", "missing"}
    if _is_decoded(spec, kind, name):
        usual = {"missing"}
    default: Optional[Thresholds] = getattr(spec.drift.default, measure)
    return (default if measure in usual else None) or Thresholds()


def _distance(
    spec: FeatureSpec,
    kind: str,
    name: str,
    measure: str,
    old: Optional[FeatureStatistics],
    new: Optional[FeatureStatistics],
) -> Distance:
    if measure == "jensen_shannon":
        return distances.jensen_shannon(old, new)
    binary = kind == "label" and spec.labels[name].dtype == "float32"
    return distances.l_infinity(
        distances.shares(old, binary=binary), distances.shares(new, binary=binary)
    )


def _is_decoded(spec: FeatureSpec, kind: str, name: str) -> bool:
    """Whether values are decoded bytes. Statistics only count such values."""
    return kind == "feature" and spec.features[name].decode is not None


def is_category(spec: FeatureSpec, kind: str, name: str) -> bool:
    """Whether the columns read the values as names, not as quantities."""
    if kind == "label":
        return spec.label_classes(name) is not None or spec.items_of_label(name) is not None
    dtype = spec.features[name].dtype
    if dtype != "int64":
        return dtype == "string"
    return any(name in column.names_values_of(spec) for column in spec.columns.values())
