"""What each feature is worth to a trained model: `observed/importance.json`, by `--importance`.

    found = importance(spec, export, records)

A feature is worth what the metric loses when its values are shuffled among the rows, so that each
row has a value of the data but not its own (permutation importance: Breiman, Random Forests, 2001,
section 10). Values move between serialized records, so a list moves as a whole, together with its
weights and its row lengths. The model is asked as an export. Features that hold the same
information share their importance: shuffling only one of them costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from estimator_kit.model.heads import judged_labels, row_metric
from estimator_kit.observing.measured_export import Importance, Worth
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.labels import LabelReader
from input_pipelines.transform.record_parsing import RecordParser

REPEATS = 5

Ask = Callable[[NDArray[Any]], Mapping[str, NDArray[Any]]]


def importance(
    spec: FeatureSpec, ask: Ask, records: Sequence[bytes], *, repeats: int = REPEATS
) -> Importance:
    """The importance of each feature that the model reads.

    Args:
      spec: the feature spec.
      ask: gives the predictions of serialized records, by objective; see `EvalRows.predictions`.
      records: serialized, some thousands.
      repeats: shuffles of each feature.
    """
    labels, weights = _labels(spec, records)
    measured = {name: spec.objectives[name].main[0].kind for name in labels}

    def values(predictions: Mapping[str, NDArray[Any]]) -> dict[str, float]:
        scores = {}
        for name, metric in measured.items():
            rows = (labels[name], predictions[name], weights[name])
            value = row_metric(metric.name, spec.objectives[name].head, *rows).value()
            scores[name] = value if metric.better == "max" else -value
        return scores

    names = {name: metric.name for name, metric in measured.items()}
    random = np.random.default_rng(1)
    parsed = _Records(spec, records)
    before = values(ask(np.array(records, object)))
    features = {}
    for together in groups(spec):
        losses = []
        for _ in range(repeats):
            shuffled = parsed.shuffled(together, random.permutation(len(records)))
            after = values(ask(shuffled))
            losses.append({name: before[name] - after[name] for name in measured})
        features[", ".join(together)] = {
            name: Worth(
                mean=float(np.mean([loss[name] for loss in losses])),
                spread=float(np.std([loss[name] for loss in losses], ddof=1)),
            )
            for name in measured
        }
    return Importance(rows=len(records), repeats=repeats, metrics=names, features=features)


def groups(spec: FeatureSpec) -> list[tuple[str, ...]]:
    """The features that columns read, those that belong together as one entry."""
    read = {name for column in spec.columns.values() for name in column.features(spec)}
    feature_sets: list[set[str]] = []
    pairs = [{name, f.row_lengths} for name, f in spec.features.items() if f.row_lengths]
    pairs += [
        {*column.features(spec)}
        for column in spec.columns.values()
        if column.weighted_by is not None
    ]
    for together in [*pairs, *({name} for name in spec.features if name in read)]:
        overlapping = [other for other in feature_sets if other & together]
        for other in overlapping:
            feature_sets.remove(other)
        feature_sets.append(set(together).union(*overlapping))
    order = list(spec.features)
    return sorted(
        (tuple(sorted(names, key=order.index)) for names in feature_sets),
        key=lambda names: order.index(names[0]),
    )


def _labels(
    spec: FeatureSpec, records: Sequence[bytes]
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    parsed = RecordParser(spec).parse(tf.constant(list(records)), with_labels=True)
    read = LabelReader(spec).read(parsed)
    labels, weights = {}, {}
    for name, entry in spec.objectives.items():
        if entry.judged:
            label = spec.label_of(name)
            labels[name] = judged_labels(entry, read[label].numpy())
            weight = read.get(f"{label}/weight")
            weights[name] = np.ones(len(records)) if weight is None else weight.numpy()
    return labels, weights


class _Records:
    """Records taken apart into their features, to be put together with others' values."""

    def __init__(self, spec: FeatureSpec, records: Sequence[bytes]):
        self._sequence = spec.sequence_examples
        kind = tf.train.SequenceExample if self._sequence else tf.train.Example
        self._parts = [self._apart(kind.FromString(record)) for record in records]

    def shuffled(self, names: Sequence[str], order: NDArray[Any]) -> NDArray[Any]:
        """Serialized records, object [rows], in which these features have another order."""
        records = []
        for own, other in zip(self._parts, order):
            source = self._parts[other]
            records.append(self._together({**own, **_taken(source, own, names)}))
        return np.array(records, object)

    def _apart(self, record: Any) -> dict[str, Any]:
        if self._sequence:
            return {**record.context.feature, **record.feature_lists.feature_list}
        return dict(record.features.feature)

    def _together(self, parts: Mapping[str, Any]) -> bytes:
        present = {name: value for name, value in parts.items() if value is not None}
        if not self._sequence:
            result: bytes = tf.train.Example(
                features=tf.train.Features(feature=present)
            ).SerializeToString()
            return result
        context = {k: v for k, v in present.items() if isinstance(v, tf.train.Feature)}
        lists = {k: v for k, v in present.items() if not isinstance(v, tf.train.Feature)}
        other: bytes = tf.train.SequenceExample(
            context=tf.train.Features(feature=context),
            feature_lists=tf.train.FeatureLists(feature_list=lists),
        ).SerializeToString()
        return other


def _taken(
    source: Mapping[str, Any], own: Mapping[str, Any], names: Sequence[str]
) -> dict[str, Any]:
    """The values of features in another record; None for one that it lacks."""
    return {name: source.get(name) for name in names if name in source or name in own}
