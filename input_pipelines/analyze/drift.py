"""Two sets of statistics held against the thresholds of a spec: what moved, and how far is too far.

    report = drift.compare(spec, load(Path("last/statistics.json")), scan(files).statistics(2))
    report.errors      # a sentence for each distance over its `stop`

Every feature that is not ignored and every label is measured, whether or not it has a threshold, so
that a person can choose one. Which measure (`distances`): l_infinity for strings, for integers that
an identity, vocabulary, hash_bucket or crossed column reads, and for classes; jensen_shannon for
other numbers; missing for all. A threshold of the other measure adds that one. Reads no
records and writes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal, Optional, Union

from feature_specs.column_kinds import Crossed, HashBucket, Identity, Vocabulary
from feature_specs.drift_thresholds import Measures, Thresholds
from feature_specs.schema import Feature, FeatureSpec, Label
from feature_specs.statistics import FeatureStatistics, Statistics
from input_pipelines.analyze import distances
from input_pipelines.analyze.distances import Distance
from input_pipelines.errors import DataError

Verdict = Literal["stop", "warn", "ok", "-"]
_WORST_FIRST: tuple[Verdict, ...] = ("stop", "warn", "ok", "-")

# Distances are differences of shares, 0.4 - 0.3 among them, which is a little over 0.1.
_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True)
class Finding:
    """One measure of one feature or label.

    Attributes:
      kind: `feature` or `label`.
      name: its name.
      measure: `l_infinity`, `jensen_shannon` or `missing`.
      distance: what it is, and what moved.
      thresholds: what the spec says of it; empty when it says nothing.
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
    """What was found.

    Attributes:
      rows_before, rows: number of records.
      findings: the worst first: over `stop`, over `warn`, then by falling distance.
      unusable: features and labels that have another type than in the spec; they are errors.
    """

    rows_before: int
    rows: int
    findings: tuple[Finding, ...]
    unusable: tuple[str, ...]

    @property
    def errors(self) -> tuple[str, ...]:
        over = (finding.sentence for finding in self.findings if finding.verdict == "stop")
        return (*self.unusable, *over)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(finding.sentence for finding in self.findings if finding.verdict == "warn")

    @property
    def lines(self) -> tuple[str, ...]:
        """The table, for people."""
        head = ("what", "measure", "distance", "warn", "stop", "verdict")
        rows = [head, *map(_cells, self.findings)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = [f"drift of {self.rows:,} records against {self.rows_before:,} of the baseline"]
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
      now: those of the records in question.

    Raises:
      DataError: one of the two is of no record.
    """
    for statistics, what in ((before, "the baseline"), (now, "the records")):
        if not statistics.rows:
            raise DataError(f"the statistics of {what} are of no record; nothing can be compared")
    findings: list[Finding] = []
    unusable: list[str] = []
    for kind, name, entry in _entries(spec):
        wrong = _other_types(kind, name, entry, before, now)
        if wrong:
            unusable += wrong
        else:
            findings += _findings(spec, kind, name, before, now)
    findings.sort(key=lambda f: (_WORST_FIRST.index(f.verdict), -f.distance.value))
    return DriftReport(before.rows, now.rows, tuple(findings), tuple(unusable))


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
    for statistics, what in ((before, "in the baseline"), (now, "in the records")):
        found = statistics.features.get(name)
        if found is not None and found.dtype not in (None, entry.dtype):
            wrong.append(
                f"drift of {kind} {name!r}: it is {found.dtype} {what} and {entry.dtype} in the "
                "spec, so that nothing can be compared"
            )
    return wrong


def _findings(
    spec: FeatureSpec, kind: str, name: str, before: Statistics, now: Statistics
) -> Iterator[Finding]:
    section = spec.drift.features if kind == "feature" else spec.drift.labels
    own = section.get(name, Measures())
    old, new = before.features.get(name), now.features.get(name)
    usual = "l_infinity" if is_category(spec, kind, name) else "jensen_shannon"
    for measure in ("l_infinity", "jensen_shannon"):
        if measure == usual or getattr(own, measure) is not None:
            distance = _distance(spec, kind, name, measure, old, new)
            yield Finding(kind, name, measure, distance, thresholds(spec, kind, name, measure))
    distance = distances.missing(old, new, rows_before=before.rows, rows=now.rows)
    yield Finding(kind, name, "missing", distance, thresholds(spec, kind, name, "missing"))


def thresholds(spec: FeatureSpec, kind: str, name: str, measure: str) -> Thresholds:
    """What the spec says of a measure of a feature or label; empty when it says nothing."""
    section = spec.drift.features if kind == "feature" else spec.drift.labels
    own: Optional[Thresholds] = getattr(section.get(name, Measures()), measure)
    if own is not None:
        return own
    usual = ("l_infinity" if is_category(spec, kind, name) else "jensen_shannon", "missing")
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
    binary = kind == "label" and spec.label_classes(name) == 2
    return distances.l_infinity(
        distances.shares(old, binary=binary), distances.shares(new, binary=binary)
    )


def is_category(spec: FeatureSpec, kind: str, name: str) -> bool:
    """Whether values are names and not quantities, as the columns read them."""
    if kind == "label":
        return spec.label_classes(name) is not None
    dtype = spec.features[name].dtype
    if dtype != "int64":
        return dtype == "string"
    for column in spec.columns.values():
        if isinstance(column, Crossed):
            # A column of that name hides the feature.
            if name in column.sources and name not in spec.columns:
                return True
        elif isinstance(column, (Identity, Vocabulary, HashBucket)) and column.source == name:
            return True
    return False
