"""The rows on which the kit compares candidate and live model, and their predictions.

Labels and weights are the same as in an evaluation (`input_pipelines.transform.labels`). As there,
rows that the spec's `filter` drops are never parsed: they may lack what others need. The
predictions come from the SavedModels, which are what a server would load. Everything is in memory:
some bytes for each row and objective.

`as_now` gives the outputs of an older model as a newer spec means them. Two specs may list the
words of a label in another order, and a warm start then moves the weights of each class. So the
outputs of both models have the same shape, and their columns mean other classes. Words, boundaries
and the name of the label say which output is which. What they do not say is None, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from estimator_kit.errors import ConfigError
from estimator_kit.model.heads import judged_labels
from estimator_kit.scoring import export as exports
from estimator_kit.serving.loaded_model import LoadedModel
from feature_specs.files import file_systems
from feature_specs.heads import Objective
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.reading.selection import Selection
from input_pipelines.record_files import tfrecords
from input_pipelines.transform.labels import LabelReader
from input_pipelines.transform.record_parsing import RecordParser


def as_now(
    older: FeatureSpec, spec: FeatureSpec, name: str, values: NDArray[Any]
) -> Optional[NDArray[Any]]:
    """The outputs of a model of the spec `older`, in the order of classes of `spec`.

    Args:
      older, spec: the specs. Both have the objective.
      name: the objective.
      values: the outputs as `row_metric` takes them: [rows], or [rows, n] for n classes or
        intervals.

    Returns:
      The outputs with the shape of `values`, or None if they mean something else: of another head,
      another label, other classes or other boundaries.
    """
    now, before = spec.objectives[name], older.objectives[name]
    if now.head != before.head or spec.label_of(name) != older.label_of(name):
        return None
    if now.classes is None:
        return values if now.logit_names(None) == before.logit_names(None) else None
    words, were = (each.labels[each.label_of(name)].vocabulary for each in (spec, older))
    if words == were:
        return values
    if words is None or were is None or sorted(words) != sorted(were):
        return None
    if values.ndim == 1:  # The logit of the second of two classes.
        return -values
    return values[:, [were.index(word) for word in words]]


class EvalRows:
    """Labels, weights and features of all rows of some files, in order.

    Args:
      spec: the feature spec.
      paths: TFRecord files.
      features: the features whose values are needed, for example for slices. Each has one string or
        integer in a row.
      batch_size: how many rows are read at a time.
      damaged: the files of which only the good records are read.

    Raises:
      DataError: the spec's filter keeps no row.
    """

    def __init__(
        self,
        spec: FeatureSpec,
        paths: Sequence[str],
        *,
        features: Sequence[str],
        batch_size: int,
        damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    ):
        self._spec = spec
        self._paths = file_systems.ordered(paths)
        self._batch_size = batch_size
        self._damaged = damaged
        self._rows = 0
        entries = {name: _parse_entry(spec, name) for name in features}
        parser, reader = RecordParser(spec), LabelReader(spec)
        columns: dict[str, list[NDArray[Any]]] = {}
        for records in Selection(spec).lists(self._paths, batch_size, damaged=damaged):
            block = tf.constant(records)
            self._rows += len(records)
            labels = reader.read(parser.parse(block, with_labels=True))
            dense = {n: v for n, v in labels.items() if isinstance(v, tf.Tensor)}
            tensors = {f"label:{name}": value for name, value in dense.items()}
            tensors |= {f"feature:{k}": v for k, v in _parse(spec, block, entries).items()}
            for name, value in tensors.items():
                columns.setdefault(name, []).append(value.numpy())
        self._columns = {name: np.concatenate(parts) for name, parts in columns.items()}
        if spec.filter and not self._rows:
            raise DataError(
                f"the filter of the spec keeps no row of the {len(paths)} evaluation files. Check "
                "`filter` in the spec."
            )

    def __len__(self) -> int:
        return self._rows

    def labels(self, objective: str) -> NDArray[Any]:
        """The labels as `row_metric` expects them."""
        stored = self._columns[f"label:{self._spec.label_of(objective)}"]
        return judged_labels(self._spec.objectives[objective], stored)

    def weights(self, objective: str) -> NDArray[Any]:
        """The weights, float64 [rows]; 1 if the spec has no weight."""
        stored_weights = self._columns.get(f"label:{self._spec.label_of(objective)}/weight")
        return np.ones(len(self)) if stored_weights is None else stored_weights.astype(np.float64)

    def values(self, feature: str) -> NDArray[Any]:
        return self._columns[f"feature:{feature}"]

    def predictions(
        self,
        export: str,
        objectives: Sequence[str],
        *,
        all_of_them: bool = True,
        model: Optional[LoadedModel] = None,
    ) -> dict[str, NDArray[Any]]:
        """The predictions of a SavedModel for each objective.

        Args:
          export: the folder of the SavedModel.
          objectives: the objectives to predict.
          all_of_them: if False, the spec may be newer than the model. Classes whose words have
            moved are put into the order of the spec. Objectives that the model does not predict, or
            whose outputs mean something else, are left out; see `as_now`.
          model: the SavedModel, if it is loaded already.

        Raises:
          ConfigError: the model does not have such an output, or not one for each row.
        """
        return _predicted(
            self._spec,
            export,
            objectives,
            lambda facts: exports.predictions(
                facts,
                self._paths,
                self._batch_size,
                damaged=self._damaged,
                filtered_by=self._spec,
                model=model,
            ),
            rows=len(self),
            all_of_them=all_of_them,
        )


def predictions_of(
    spec: FeatureSpec,
    export: str,
    objectives: Sequence[str],
    records: Sequence[bytes],
    *,
    batch_size: int,
    all_of_them: bool = True,
    model: Optional[LoadedModel] = None,
) -> dict[str, NDArray[Any]]:
    """The predictions of a SavedModel for some records; see `EvalRows.predictions`."""
    starts = range(0, len(records), batch_size)
    batches = (np.array(records[i : i + batch_size], np.object_) for i in starts)
    return _predicted(
        spec,
        export,
        objectives,
        lambda facts: exports.answers(facts, batches, model=model),
        rows=len(records),
        all_of_them=all_of_them,
    )


def _predicted(
    spec: FeatureSpec,
    export: str,
    objectives: Sequence[str],
    batches: Callable[[exports.Export], Iterable[dict[str, NDArray[Any]]]],
    *,
    rows: int,
    all_of_them: bool,
) -> dict[str, NDArray[Any]]:
    """The predictions in batches together; see `EvalRows.predictions`."""
    export_facts = exports.read(export, "")
    older = None if all_of_them else export_facts.spec
    if older is not None:
        heads = {name: entry.head for name, entry in older.objectives.items()}
        objectives = [n for n in objectives if heads.get(n) == spec.objectives[n].head]
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in objectives}
    for batch in batches(export_facts):
        for name, output in answers(spec, objectives).items():
            if output not in batch and not all_of_them:
                continue
            if output not in batch:
                raise ConfigError(f"{export}: its predictions have no output {output!r}")
            parts[name].append(batch[output])
    predicted = {name: np.concatenate(values) for name, values in parts.items() if values}
    for name, values in predicted.items():
        if len(values) != rows:
            raise ConfigError(
                f"{export}: expected {rows:,} predictions, one for each record, got {len(values):,}"
            )
        predicted[name] = by_row(spec.objectives[name], values)
    if older is None:
        return predicted
    moved = {n: as_now(older, spec, n, values) for n, values in predicted.items()}
    return {name: values for name, values in moved.items() if values is not None}


def by_row(entry: Objective, outputs: NDArray[Any]) -> NDArray[Any]:
    """The answers of an export as `row_metric` expects them: [rows], or [rows, n]."""
    if entry.answer is not None and entry.answer.wide:
        return outputs
    # The head `binary` with delayed feedback has a second logit.
    return outputs.reshape(len(outputs), -1)[:, 0]


def answers(spec: FeatureSpec, objectives: Sequence[str]) -> dict[str, str]:
    """The outputs of an export from which metrics of rows are computed, by objective."""
    entries = {name: spec.objectives[name] for name in objectives}
    return {n: f"{n}/{entry.answer.output}" for n, entry in entries.items() if entry.answer}


def first_records(spec: FeatureSpec, paths: Sequence[str], count: int) -> NDArray[Any]:
    """The first `count` records that the spec's filter keeps; fewer if the files have fewer.

    Raises:
      DataError: the files have no record.
    """
    for records in Selection(spec).lists(file_systems.ordered(paths), count):
        return np.array(records, np.object_)
    raise DataError(
        f"the {len(paths)} evaluation files have no record, so no request can be sent to a model"
    )


def _parse_entry(spec: FeatureSpec, name: str) -> Any:
    feature = spec.features[name]
    default: Any = {"string": "", "int64": -1, "float32": float("nan")}[feature.dtype]
    if feature.default is not None:
        default = feature.default
    return tf.io.FixedLenFeature([], tf.as_dtype(feature.dtype), default)


def _parse(spec: FeatureSpec, block: tf.Tensor, entries: dict[str, Any]) -> dict[str, tf.Tensor]:
    if not entries:
        return {}
    if spec.sequence_examples:
        result: dict[str, tf.Tensor] = tf.io.parse_sequence_example(block, entries)[0]
        return result
    other: dict[str, tf.Tensor] = tf.io.parse_example(block, entries)
    return other
