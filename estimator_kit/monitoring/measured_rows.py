"""What is kept of the rows of one version in one period while logs are read, and what it measures.

    rows = MeasuredRows(spec, of_version)
    rows.add(block)                          for each block of `request_logs`
    rows.result(labels, now=..., baseline=...)

Of features only summaries stay in memory, as of an analysis. Of each row there stay its time, its
key, its scores, and the features that slices, groups and labels need. Drift has the measures of
`input_pipelines.prepare.analyze.drift`, and the gate has the same metrics, so their numbers are the
same as elsewhere. This module reads and writes no file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from estimator_kit.model.heads import row_metric
from estimator_kit.monitoring.baselines import Baseline, summary_of_scores
from estimator_kit.monitoring.late_labels import Labeled, LateLabels, extras_of
from estimator_kit.monitoring.results import FeatureResult, Metric, ScoreResult, VersionResult
from estimator_kit.scoring import logged_answers, slices
from estimator_kit.scoring.eval_rows import as_now
from estimator_kit.scoring.raw_requests import is_private
from estimator_kit.scoring.request_logs import Block, has_dtype, values_of
from feature_specs.kinds import Identity, Vocabulary
from feature_specs.sections.monitoring import MonitorCondition
from feature_specs.spec import FeatureSpec
from input_pipelines.prepare.analyze import distances, drift
from input_pipelines.prepare.analyze.distances import Distance
from input_pipelines.prepare.analyze.summary import RecordSummary
from input_pipelines.reading import selection

_CLASS_MEASURE, _NUMBER_MEASURE = "l_infinity", "jensen_shannon"


class MeasuredRows:
    """The rows of one version in one period.

    Args:
      spec: the spec that is given now: its labels, its filter and its section `monitoring`.
      baseline: what the version is compared with, and its own spec.
      carried: the features of a request that its labels need.
    """

    def __init__(self, spec: FeatureSpec, baseline: Baseline, carried: Sequence[str]):
        self._spec, self._baseline, self._carried = spec, baseline, carried
        self._known = known_values(baseline.spec)
        self._conditions = spec.conditions
        self._summary = RecordSummary()
        self._summary.filter = [each.filter.as_dict() for each in self._conditions]
        self._requests = self._rows = self._dropped = 0
        self._unknown: dict[str, int] = dict.fromkeys(self._known, 0)
        self._values: dict[str, int] = dict.fromkeys(self._known, 0)
        self._other_types: set[str] = set()
        section = spec.monitoring
        needed = {c.slice for c in section.conditions} | {section.intervals.group_by}
        self._columns: dict[str, list[NDArray[Any]]] = {n: [] for n in sorted(filter(None, needed))}
        self._times: list[NDArray[np.float64]] = []
        self._keys: list[Any] = []
        self._extras: list[bytes] = []
        self._scores: dict[str, list[Optional[NDArray[Any]]]] = {
            name: [] for name in logged_answers.judged(spec)
        }

    @property
    def keys(self) -> list[Any]:
        """The key of each row that the filter keeps, or None."""
        return self._keys

    def add(self, block: Block) -> None:
        """Adds rows of whole requests."""
        self._requests += len(np.unique(block.requests))
        kept = self._kept(block)
        self._dropped += len(block.records) - len(kept)
        if len(kept) < len(block.records):
            block = block.take(kept)
        rows = len(block.records)
        if not rows:
            return
        features = self._usable(block.features)
        self._summary.add(features, rows, block.path, self._rows)
        self._rows += rows
        self._count_unknown(features)
        self._times.append(block.times)
        key = self._spec.monitoring.key
        self._keys += [None] * rows if key is None else self._keys_of(block, key)
        in_context = self._spec.sequence_examples
        self._extras += extras_of(block.records, self._carried, in_context=in_context)
        for name, parts in self._columns.items():
            parts.append(values_of(block.features, name, rows))
        for name, listed in self._scores.items():
            listed.append(self._as_now(name, block.scores.get(name)))

    def _keys_of(self, block: Block, name: str) -> list[Any]:
        """The key of each row, or None. A key of another type than the spec's does not count."""
        dtype = self._spec.features[name].dtype
        values = values_of(block.features, name, len(block.records)).tolist()
        keys = [value if has_dtype(value, dtype) else None for value in values]
        if keys != values:
            self._other_types.add(name)
        return keys

    def _kept(self, block: Block) -> NDArray[Any]:
        """The places of the rows that the filter keeps, or cannot decide."""
        if not self._conditions:
            return np.arange(len(block.records))
        verdicts = selection.verdicts(block.records, self._conditions)
        return np.flatnonzero([verdict is not False for verdict in verdicts])

    def _usable(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """The features of the spec, with the type that the spec says."""
        usable = {}
        for name, feature in self._spec.features.items():
            if name in self._spec.ignored and name not in self._spec.drift.features:
                continue
            if is_private(feature):
                continue
            blocks = [
                b
                for b in features.get(name, ())
                if len(b.rows)
                and b.dtype in ("", feature.dtype)
                and b.feature_list == feature.feature_list
            ]
            if len(blocks) < len(features.get(name, ())):
                self._other_types.add(name)
            if blocks:
                usable[name] = blocks
        return usable

    def _count_unknown(self, features: Mapping[str, Any]) -> None:
        for name, known in self._known.items():
            word = self._baseline.spec.missing_value(name)
            missing = word.encode() if isinstance(word, str) else word
            for block in features.get(name, ()):
                values = block.values if isinstance(block.values, list) else block.values.tolist()
                present = [value for value in values if missing is None or value != missing]
                self._values[name] += len(present)
                self._unknown[name] += sum(value not in known for value in present)

    def _as_now(self, name: str, values: Optional[NDArray[Any]]) -> Optional[NDArray[Any]]:
        """The scores with the classes of the given spec; None if they mean something else."""
        older = self._baseline.spec
        if values is None or name not in older.objectives:
            return None
        return as_now(older, self._spec, name, values)

    def result(self, labels: Optional[LateLabels], *, now: float) -> VersionResult:
        """What was measured.

        Args:
          labels: the labels that have come; None if the section `monitoring` has no key.
          now: rows older than the delay of labels have all of them, in seconds since 1970.
        """
        notes = [*self._baseline.notes]
        times = np.concatenate(self._times) if self._times else np.zeros(0)
        with_key = np.array([key is not None for key in self._keys], np.bool_)
        decided = with_key & (times + self._spec.monitoring.delay <= now)
        labeled = labels.have(self._keys) & decided if labels is not None else decided & False
        counts = {
            "open": int((with_key & ~decided).sum()) if labels is not None else 0,
            "labeled": int(labeled.sum()),
            "unlabeled": int((decided & ~labeled).sum()) if labels is not None else 0,
            "without_key": int((~with_key).sum()) if labels is not None else 0,
        }
        metrics: dict[str, Metric] = {}
        of_slices: dict[str, dict[str, Metric]] = {}
        means: dict[str, Optional[float]] = {}
        if labels is not None and decided.any():
            places = np.flatnonzero(decided)
            joined = labels.join([self._keys[i] for i in places], [self._extras[i] for i in places])
            for name, own in joined.items():
                self._measure(name, own, places, metrics, of_slices, means)
        features, comparison_notes = self._features()
        scores = {name: self._score(name) for name in self._scores}
        return VersionResult(
            version=self._baseline.version,
            requests=self._requests,
            rows=self._rows,
            dropped=self._dropped,
            **counts,
            features=features,
            scores={n: score for n, score in scores.items() if score is not None},
            metrics=metrics,
            slices=of_slices,
            label_means=means,
            notes=[*notes, *comparison_notes, *self._own_notes()],
        )

    def _own_notes(self) -> list[str]:
        return [
            f"feature {name!r} has another type in requests than in the spec, where it counts as "
            "missing"
            for name in sorted(self._other_types)
        ]

    # --- Features and scores ---

    def _features(self) -> tuple[dict[str, FeatureResult], list[str]]:
        """What was measured of each feature, and why features could not be compared."""
        if not self._rows:
            return {}, []
        statistics, notes = self._summary.statistics(1), []
        found: dict[str, drift.Finding] = {}
        missing: dict[str, float] = {}
        before = self._baseline.statistics
        report = drift.compare(self._spec, before or statistics, statistics)
        for finding in report.findings:
            if finding.kind != "feature" or is_private(self._spec.features[finding.name]):
                continue
            if finding.measure == "missing":
                missing[finding.name] = finding.distance.parts[0].now
            elif finding.name not in found:
                found[finding.name] = finding
        if before is not None:
            notes = [text for text in report.unusable if text.startswith("drift of feature")]
            notes += report.filters
        features = {}
        for name, share in sorted(missing.items()):
            values: dict[str, Any] = {"missing": share}
            if name in self._known:
                seen = self._values[name]
                values["unknown"] = self._unknown[name] / seen if seen else 0.0
            if name in found and before is not None:
                values.update(_moved(found[name].measure, found[name].distance))
            features[name] = FeatureResult(**values)
        return features, notes

    def _score(self, name: str) -> Optional[ScoreResult]:
        """What was measured of the scores of one objective; None without scores."""
        parts = [values for values in self._scores[name] if values is not None]
        if not parts:
            return None
        scores = np.concatenate(parts)
        entry = self._spec.objectives[name]
        shown = logged_answers.shown(entry, scores)
        result: dict[str, Any] = {"rows": len(shown)}
        if scores.ndim == 1:
            result["mean"] = float(shown.mean())
        before = self._baseline.scores
        if before is not None and name in before.features:
            now = summary_of_scores({name: shown}).features[name]
            old = before.features[name]
            if scores.ndim == 1:
                distance = distances.jensen_shannon(old, now)
                result.update(_moved(_NUMBER_MEASURE, distance))
            else:
                distance = distances.l_infinity(distances.shares(old), distances.shares(now))
                result.update(_moved(_CLASS_MEASURE, distance))
        return ScoreResult(**result)

    # --- Metrics of rows with labels ---

    def _measure(
        self,
        name: str,
        labeled: Labeled,
        places: NDArray[Any],
        metrics: dict[str, Metric],
        of_slices: dict[str, dict[str, Metric]],
        means: dict[str, Optional[float]],
    ) -> None:
        """Adds the metrics of one objective on the rows that have scores and labels."""
        scored, scores = self._aligned(name)
        if scores is None:
            return
        good = scored[places] & labeled.present
        rows, places = np.flatnonzero(good), places[good]
        if not len(rows):
            return
        labels, weights = labeled.labels[rows], labeled.weights[rows]
        own, entry = scores[places], self._spec.objectives[name]
        means[name] = _mean(labels, weights)
        for kind in entry.judged_by:
            metric = f"{kind.name}/{name}"
            metrics[metric] = self._metric(kind.name, entry.head, labels, own, weights, places)
            for feature in self._sliced_by(metric):
                column = np.concatenate(self._columns[feature])[places]
                texts = np.array([_text(value) for value in column], np.object_)
                by_value = of_slices.setdefault(metric, {})
                for value, count in zip(*np.unique(texts, return_counts=True)):
                    if count < self._least(metric, feature):
                        continue
                    at = np.flatnonzero(texts == value)
                    by_value[f"{feature}={value}"] = self._metric(
                        kind.name, entry.head, labels[at], own[at], weights[at], places[at]
                    )

    def _aligned(self, name: str) -> tuple[NDArray[np.bool_], Optional[NDArray[Any]]]:
        """Which rows have scores, and the scores of all rows, NaN where a row has none."""
        listed = self._scores[name]
        sizes = [len(times) for times in self._times]
        scored = np.repeat([values is not None for values in listed], sizes).astype(np.bool_)
        width = next((values.shape[1:] for values in listed if values is not None), None)
        if width is None:
            return scored, None
        filled = [
            values if values is not None else np.full((size, *width), math.nan)
            for values, size in zip(listed, sizes)
        ]
        return scored, np.concatenate(filled)

    def _metric(
        self,
        kind: str,
        head: str,
        labels: NDArray[Any],
        scores: NDArray[Any],
        weights: NDArray[Any],
        places: NDArray[Any],
    ) -> Metric:
        """A metric with its interval."""
        options = self._spec.monitoring.intervals
        metric = row_metric(kind, head, labels, scores, weights)
        groups = None
        if options.group_by is not None:
            column = np.concatenate(self._columns[options.group_by])[places]
            texts = np.array([_text(value) for value in column], np.object_)
            groups = np.unique(texts, return_inverse=True)[1].reshape(-1)
        interval = slices.difference(
            metric.value,
            lambda counts: 0.0,
            rows=len(labels),
            groups=groups,
            samples=options.samples,
            confidence=options.confidence,
            seed=options.seed,
        )
        estimate = metric.value()
        return Metric(
            value=_number(estimate),
            low=_number(interval.low),
            high=_number(interval.high),
            rows=len(labels),
        )

    def _of_metric(self, metric: str) -> list[MonitorCondition]:
        return [c for c in self._spec.monitoring.conditions if c.metric == metric]

    def _sliced_by(self, metric: str) -> list[str]:
        return list(dict.fromkeys(c.slice for c in self._of_metric(metric) if c.slice is not None))

    def _least(self, metric: str, feature: str) -> int:
        return min(c.min_rows for c in self._of_metric(metric) if c.slice == feature)


def known_values(spec: FeatureSpec) -> dict[str, Any]:
    """The values that the columns of a feature know, by feature.

    A feature of several columns has the values of the first one in the spec.
    """
    known: dict[str, Any] = {}
    for name, vocabulary in spec.of_kind(Vocabulary).items():
        words = spec.columns[name].row_names(spec)
        is_text = spec.features[vocabulary.source].dtype == "string"
        values = (word.encode() if is_text else int(word) for word in map(str, words))
        known.setdefault(vocabulary.source, frozenset(values))
    for identity in spec.of_kind(Identity).values():
        known.setdefault(identity.source, range(identity.size))
    return known


def _moved(measure: str, distance: Distance) -> dict[str, Any]:
    return {"measure": measure, "drift": distance.value, "moved": list(distance.moved)}


def _mean(labels: NDArray[Any], weights: NDArray[Any]) -> Optional[float]:
    total = float(weights.sum())
    return float((labels * weights).sum() / total) if labels.ndim == 1 and total else None


def _number(value: float) -> Optional[float]:
    return float(value) if math.isfinite(value) else None


def _text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
