"""A feature spec: features, columns, groups, labels and objectives, all frozen.

The models of entries (`feature`, `kinds`, `label`, `heads`, `sections`) check one entry each; what
spans entries (names that refer to each other) is checked in `validation`. Users get a `FeatureSpec`
from `parser.load` or `parser.parse`, never by hand. This module imports no TensorFlow.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from feature_specs.errors import Path, Problem, located
from feature_specs.feature import Feature
from feature_specs.heads.objectives import Objective
from feature_specs.kinds.column_kinds import (
    Bucketized,
    Column,
    Crossed,
    Embedding,
    HashBucket,
    Identity,
    Indicator,
    Numeric,
    Ragged,
    SequenceNumeric,
    Vocabulary,
    Weighted,
)
from feature_specs.label import Label
from feature_specs.sections.drift_thresholds import NO_DRIFT, Drift
from feature_specs.sections.filters import Filter
from feature_specs.sections.retraining import NO_RETRAINING, Retraining
from feature_specs.sections.tables import NO_TABLES, Tables
from feature_specs.vocabulary import read_words


@dataclasses.dataclass(frozen=True)
class FeatureSpec:
    """A whole, checked spec. Mappings keep the order of the document and are never changed.

    Attributes:
      features, columns, labels, objectives: entries by name.
      groups: names of columns for each part of a model, in the order of the document.
      ignored: features that the records hold and that are left out on purpose.
      drift: how far the records may move from those of before.
      filter: what a row must be to be trained on and scored; all of them.
      retraining: what a cycle of --mode=retrain checks, and when its model goes live.
      tables: how the CSV files are written that the records are made from.
      directory: the folder that vocabulary files are relative to.
      source: the file it was read from, for messages.
      lines: where in that file each part of the document is, for messages; no part of what makes
        two specs equal.
    """

    features: Mapping[str, Feature]
    columns: Mapping[str, Column]
    groups: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, Label]
    objectives: Mapping[str, Objective]
    ignored: tuple[str, ...] = ()
    drift: Drift = NO_DRIFT
    filter: tuple[Filter, ...] = ()
    retraining: Retraining = NO_RETRAINING
    tables: Tables = NO_TABLES
    directory: pathlib.Path = pathlib.Path(".")
    source: str = "<dict>"
    lines: Mapping[Path, int] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def feature_lists(self) -> tuple[str, ...]:
        """The features that are in `feature_lists`; those of the `context` are all others."""
        return tuple(name for name, feature in self.features.items() if feature.feature_list)

    @property
    def sequence_examples(self) -> bool:
        """Whether records are `tf.train.SequenceExample`s, not `tf.train.Example`s."""
        return bool(self.feature_lists)

    @property
    def kept_together(self) -> Optional[str]:
        """The feature whose rows of one value must come in one batch, for the head `ranking`."""
        groups = (o.group for o in self.objectives.values() if o.ranks)
        return next(groups, None)

    def label_of(self, objective: str) -> str:
        """The name of the label that an objective learns."""
        return self.objectives[objective].label or objective

    def objective_of(self, label: str) -> str:
        """The name of the objective that learns a label; there is one."""
        return next(name for name in self.objectives if self.label_of(name) == label)

    def label_classes(self, label: str) -> Optional[int]:
        """Labels must be in [0, this); None when any finite number will do."""
        counts = [
            objective.classes
            for name, objective in self.objectives.items()
            if self.label_of(name) == label and objective.classes is not None
        ]
        return min(counts) if counts else None

    def category_of(self, name: str) -> tuple[str, Column]:
        """The categorical column under an embedding, indicator or ragged one, or itself."""
        column = self.columns[name]
        source = self.ragged_ids(column)
        if isinstance(column, (Embedding, Indicator)):
            source = column.source
        return (name, column) if source is None else (source, self.columns[source])

    def ragged_ids(self, column: Column) -> Optional[str]:
        """The categorical column that a ragged one is of; None of other columns.

        One of numbers names a feature; a categorical column's name hides that of a feature.
        """
        source = self.columns.get(column.source) if isinstance(column, Ragged) else None
        if source is None or not source.categorical:
            return None
        assert isinstance(column, Ragged)
        return column.source

    def is_sequence(self, name: str) -> bool:
        """Whether a column has one value a step, not one a record."""
        if isinstance(self.columns[name], Ragged):
            return False
        column = self.category_of(name)[1]
        return isinstance(column, SequenceNumeric) or getattr(column, "sequence", False)

    def numeric_source(self, column: Bucketized) -> Numeric:
        """What a bucketized column cuts: a numeric column, or the bare feature as one."""
        source = self.columns.get(column.source)
        return source if isinstance(source, Numeric) else Numeric(numeric=column.source)

    def features_of(self, name: str) -> Iterator[str]:
        """The features that a column reads, directly or through other columns."""
        column = self.columns[name]
        if isinstance(column, Crossed):
            for key in column.sources:
                yield from self.features_of(key) if key in self.columns else (key,)
        elif isinstance(column, (Embedding, Indicator)):
            yield from self.features_of(column.source)
        elif self.ragged_ids(column) is not None:
            yield from self.features_of(column.source)
        elif isinstance(column, Weighted):
            yield from self.features_of(column.source)
            yield column.weight
        elif isinstance(column, Bucketized):
            yield self.numeric_source(column).source
        else:
            yield column.source

    def made_from(self, name: str) -> tuple[str, ...]:
        """A column and all that are made from it, directly or through other columns."""
        found = [name]
        for candidate in found:
            for other, column in self.columns.items():
                sources = column.sources if isinstance(column, Crossed) else (column.source,)
                # A column of a feature's name is no source of columns over that feature.
                through = isinstance(column, (Crossed, Embedding, Indicator, Weighted, Bucketized))
                through = through or self.ragged_ids(column) is not None
                if through and candidate in sources and other not in found:
                    found.append(other)
        return tuple(found)

    def size_of(self, name: str) -> int:
        """Number of ids of a categorical column."""
        column = self.columns[name]
        if isinstance(column, Bucketized):
            values = self.features[self.numeric_source(column).source].width
            return values * (len(column.boundaries) + 1)
        if isinstance(column, Weighted):
            return self.size_of(column.source)
        if isinstance(column, Vocabulary):
            words = len(column.words) if column.words is not None else column.size or 0
            return words + column.oov_buckets
        assert isinstance(column, (Identity, HashBucket, Crossed)), column
        return column.size

    def used_columns(self) -> tuple[str, ...]:
        """The columns of all groups, each once, in the order of the document."""
        used = {name for group in self.groups.values() for name in group}
        return tuple(name for name in self.columns if name in used)

    def used_features(self) -> tuple[str, ...]:
        """The features that some group reads: what serving needs, in the document's order."""
        used = {f for name in self.used_columns() for f in self.features_of(name)}
        used.update(f.row_lengths for n, f in self.features.items() if n in used and f.row_lengths)
        return tuple(name for name in self.features if name in used)

    def filter_features(self) -> tuple[str, ...]:
        """The features that `filter` reads, each once."""
        return tuple(dict.fromkeys(entry.feature for entry in self.filter))

    def vocabulary_path(self, column: Vocabulary) -> pathlib.Path:
        assert column.file is not None
        return self.directory / column.file

    def words(self, column: Vocabulary) -> list[str]:
        """The words of a vocabulary column in the order of their ids; integers as digits."""
        if column.words is not None:
            return [str(word) for word in column.words]
        return read_words(self.vocabulary_path(column))[: column.size]

    def to_dict(self) -> dict[str, Any]:
        """The document that `parser.parse` reads back into an equal spec."""

        def dump(entries: Mapping[str, Any]) -> dict[str, Any]:
            return {
                name: entry.model_dump(mode="json", by_alias=True, exclude_defaults=True)
                for name, entry in entries.items()
            }

        document: dict[str, Any] = {
            "features": dump(self.features),
            "columns": dump(self.columns),
            "groups": {name: list(group) for name, group in self.groups.items()},
            "labels": dump(self.labels),
            "objectives": dump(self.objectives),
            "ignored": list(self.ignored),
        }
        if self.drift != NO_DRIFT:
            # `{}` for a measure sets no threshold, which is not the same as leaving it out.
            document["drift"] = self.drift.model_dump(mode="json", exclude_none=True)
        if self.filter:
            document["filter"] = [
                entry.model_dump(mode="json", by_alias=True, exclude_none=True)
                for entry in self.filter
            ]
        if self.retraining != NO_RETRAINING:
            document["retraining"] = self.retraining.model_dump(
                mode="json", exclude_defaults=True
            )
        if self.tables != NO_TABLES:
            document["tables"] = self.tables.model_dump(mode="json", exclude_none=True)
        return document

    def problem(self, path: Path, message: str) -> Problem:
        """What is wrong at a place of the document, with the line of it where there is one."""
        return located(path, message, self.lines)

    def fingerprint(self) -> str:
        """SHA-256 over the document and the bytes of its vocabulary files, in hex."""
        digest = hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode())
        for column in self.columns.values():
            if isinstance(column, Vocabulary) and column.file is not None:
                words = self.vocabulary_path(column).read_bytes()
                digest.update(hashlib.sha256(words).digest())
        return digest.hexdigest()
