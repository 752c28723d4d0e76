"""A feature spec: features, columns, groups, labels and objectives, all frozen.

The models of entries (`feature`, `kinds`, `label`, `heads`, `sections`) check one entry each.
`validation` checks whether the entries fit each other, for instance whether each name exists. Users
get a `FeatureSpec` from `parser.load` or `parser.parse` and never construct one. This module does
not import TensorFlow.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Optional, TypeVar

from feature_specs import meaning
from feature_specs.entry import Declared, Scalar
from feature_specs.errors import Path, Problem, located
from feature_specs.feature import Feature
from feature_specs.heads import Objective
from feature_specs.heads.base import LabelPart
from feature_specs.kinds import Column, EmbeddingTable
from feature_specs.label import Label
from feature_specs.meaning import ASPECTS
from feature_specs.sections.monitoring import NO_MONITORING, Monitoring
from feature_specs.sections.records import NO_DRIFT, NO_TABLES, Condition, Drift, Filter, Tables
from feature_specs.sections.retraining import NO_RETRAINING, Retraining

# The sections whose values `meaning` finds: what a training reads, and what others read.
OF_TRAINING = ("features", "columns", "groups", "labels", "objectives", "filter")
SECTIONS = (*OF_TRAINING, "drift", "retraining", "monitoring", "tables")

Kind = TypeVar("Kind", bound=Column)


@dataclasses.dataclass(frozen=True)
class FeatureSpec:
    """A complete, checked spec. Mappings keep the order of the document and never change.

    Attributes:
      features, columns, labels, objectives: the entries by name.
      embedding_tables: the tables that embeddings with `table` use. Each embedding also has the
        options of its table.
      groups: the column names of each part of a model, in the order of the document.
      raw: features that a model that you write reads with `self.raw`, as the records have them.
        Groups may read them, too. Each request needs them.
      ignored: features that the records contain and the model deliberately does not read.
      drift: how much new data may differ from earlier data.
      filter: the conditions that a row must meet to be used in training and scoring. A row must
        meet all of them.
      retraining: what a cycle of --mode=retrain checks, and when it promotes its model.
      monitoring: how logged requests get labels, and when a live model is too bad.
      tables: the format of the CSV files that the records are made from.
      directory: the folder that relative file paths start from.
      source: the file of the spec, for messages.
      lines: the line of each part of the document, for messages. Two specs that differ only in
        `lines` are equal.
    """

    features: Mapping[str, Feature]
    columns: Mapping[str, Column]
    groups: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, Label]
    objectives: Mapping[str, Objective]
    embedding_tables: Mapping[str, EmbeddingTable] = dataclasses.field(default_factory=dict)
    raw: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    drift: Drift = NO_DRIFT
    filter: tuple[Filter, ...] = ()
    retraining: Retraining = NO_RETRAINING
    monitoring: Monitoring = NO_MONITORING
    tables: Tables = NO_TABLES
    directory: pathlib.Path = pathlib.Path(".")
    source: str = "<dict>"
    lines: Mapping[Path, int] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def feature_lists(self) -> tuple[str, ...]:
        """The features in `feature_lists`. All other features are in the `context`."""
        return tuple(name for name, feature in self.features.items() if feature.feature_list)

    @property
    def sequence_examples(self) -> bool:
        """Whether records are `tf.train.SequenceExample`s instead of `tf.train.Example`s."""
        return bool(self.feature_lists)

    @property
    def kept_together(self) -> Optional[str]:
        """The feature that the head `ranking` groups by. Rows with one value share a batch."""
        groups = (o.group for o in self.objectives.values() if o.ranks)
        return next(groups, None)

    def label_of(self, objective: str) -> str:
        """The name of the label that an objective learns."""
        return self.objectives[objective].label or objective

    def objective_of(self, label: str) -> str:
        """The name of the one objective that learns a label."""
        return next(name for name in self.objectives if self.label_of(name) == label)

    def label_classes(self, label: str) -> Optional[int]:
        """The number of classes: labels are in [0, this). None if any finite number is valid."""
        counts = [
            objective.classes
            for name, objective in self.objectives.items()
            if self.label_of(name) == label and objective.classes is not None
        ]
        return min(counts) if counts else None

    def items_of_label(self, label: str) -> Optional[str]:
        """The column whose ids a label of the head `next_item` has, or None for other heads."""
        columns = (o.items_column for n, o in self.objectives.items() if self.label_of(n) == label)
        return next(columns, None)

    def parts_named(self, name: str) -> Iterator[tuple[str, LabelPart]]:
        """The objectives whose label has this feature or label as a part, and the part."""
        for objective, entry in self.objectives.items():
            for part in entry.label_parts:
                if part.name == name:
                    yield objective, part

    def named_ids(self, name: str) -> int:
        """The number of ids of a categorical column without its out-of-vocabulary buckets."""
        return self.size_of(name) - self.columns[name].unnamed_ids

    def of_kind(self, kind: type[Kind]) -> Mapping[str, Kind]:
        """The columns of one kind, by name. For code that concerns only that kind."""
        if kind not in self._of_kinds:
            columns = {n: column for n, column in self.columns.items() if isinstance(column, kind)}
            self._of_kinds[kind] = columns
        return self._of_kinds[kind]

    @functools.cached_property
    def _of_kinds(self) -> dict[type[Column], Mapping[str, Any]]:
        """What `of_kind` has found. Models ask for each column, and specs can have thousands."""
        return {}

    def category_of(self, name: str) -> tuple[str, Column]:
        """The categorical column that an embedding, indicator or ragged column reads, or itself."""
        category = self.columns[name].category(self)
        name = name if category is None else category
        return name, self.columns[name]

    def ids_of(self, name: str) -> str:
        """The column that makes the ids of an embedding, an indicator or a weighted column."""
        while (source := self.columns[name].ids_source) is not None:
            name = source
        return name

    def canned_name(self, name: str) -> str:
        """The name of a column in the checkpoints of TensorFlow's canned estimators.

        `{hash_bucket: user_id}` is the variable `linear/linear_model/user_id/weights`, and an
        embedding of it `.../user_id_embedding/embedding_weights`: the name comes from the features
        instead of from the column's name in the spec. It is the `.name` of the
        `tf.feature_column`. The kit has the same names, so that both read each other's checkpoints.
        """
        return self.columns[name].canned_name(self, name)

    def missing_value(self, name: str) -> Optional[Scalar]:
        """The value that means "missing" in a feature: "", -1, its default, or None if none does.

        For a feature with `decode` it is the empty string. For a feature of one value, columns that
        look values up (identity, vocabulary, hash_bucket, growing) treat the empty string
        and -1 as missing: the model gets no id. The same happens if the feature is absent and its
        default is such a value. Columns that know a missing number (`is_missing`, or with the
        option `missing`) treat the default so. In lists, feature lists, other numbers and labels,
        and in a cross that names the feature itself, all values are ordinary values.
        """
        feature = self.features[name]
        if not feature.single:
            return None
        if feature.decode is not None:
            return ""
        for column in self.columns.values():
            value = column.missing_value(feature) if name in column.features(self) else None
            if value is not None:
                return value
        return None

    def is_sequence(self, name: str) -> bool:
        """Whether a column has one value per step instead of one per record."""
        return self.columns[name].is_sequence(self)

    def features_of(self, name: str) -> Iterator[str]:
        """The features that a column reads, directly or through other columns."""
        return self.columns[name].features(self)

    def made_from(self, name: str) -> tuple[str, ...]:
        """A column and all columns that are made from it, directly or through other columns."""
        names = [name]
        for candidate in names:
            for other, column in self.columns.items():
                if candidate in column.below(self) and other not in names:
                    names.append(other)
        return tuple(names)

    def size_of(self, name: str) -> int:
        """Number of ids of a categorical column."""
        return self.columns[name].id_count(self)

    def used_columns(self) -> tuple[str, ...]:
        """The columns of all groups, each once, in the order of the document."""
        used = {name for group in self.groups.values() for name in group}
        return tuple(name for name in self.columns if name in used)

    def used_features(self) -> tuple[str, ...]:
        """The features that groups or `raw` read, in the document's order. Serving needs them."""
        return self._used_features

    @functools.cached_property
    def _used_features(self) -> tuple[str, ...]:
        """Found once, because checks of records ask for each record."""
        used = {f for name in self.used_columns() for f in self.features_of(name)}
        used.update(self.raw)
        used.update(f.row_lengths for n, f in self.features.items() if n in used and f.row_lengths)
        return tuple(name for name in self.features if name in used)

    def filter_features(self) -> tuple[str, ...]:
        """The features that `filter` reads, each once."""
        return tuple(dict.fromkeys(entry.feature for entry in self.filter))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All that decides which rows count in training, and wherever rows are measured for it."""
        features = ((entry, self.features[entry.feature]) for entry in self.filter)
        return tuple(Condition(entry, f.dtype, f.default) for entry, f in features)

    def features_read(self, *, with_filter: bool = True) -> tuple[str, ...]:
        """The features that anything reads, in the document's order: groups, `raw`, labels with
        their weights, objectives or `filter`."""
        read: set[Optional[str]] = {*self.used_features()}
        if with_filter:
            read.update(self.filter_features())
        for label in self.labels.values():
            read |= {label.weight, label.true_probability}
        for objective in self.objectives.values():
            read |= {objective.group, *(part.name for part in objective.label_parts)}
        return tuple(name for name in self.features if name in read)

    def meaning(
        self,
        aspects: Iterable[str],
        sections: Iterable[str] = SECTIONS,
    ) -> dict[str, Any]:
        """The values that change one of these aspects, by place, such as `columns.city.size`.

        They are complete with defaults, because the defaults of another version can differ. Words
        count, and not the file that has them. What no column, label, objective or filter reads is
        left out, and so is what the spec only points at, such as pretrained vectors.

        Args:
          aspects: names of `feature_specs.meaning.ASPECTS`.
          sections: the sections of the spec that the caller uses.
        """
        wanted, sections = frozenset(aspects), tuple(sections)
        features: Iterable[str] = self.features_read(with_filter="filter" in sections)
        if "records" in wanted:  # A conversion writes them all.
            features = self.features
        entries: dict[str, Mapping[str, Declared]] = {
            "features": {name: self.features[name] for name in features},
            "columns": self.columns,
            "labels": self.labels,
            "objectives": self.objectives,
            "filter": {str(number): entry for number, entry in enumerate(self.filter)},
        }
        values: dict[str, Any] = {}
        for section in sections:
            for name, entry in entries.get(section, {}).items():
                for field, value in entry.counted(wanted).items():
                    values[f"{section}.{name}.{field}"] = value
            if section == "columns" and "values" in wanted:
                for name, column in self.columns.items():
                    words = column.words_text(self)
                    if words is not None:
                        values[f"columns.{name}.words"] = words
            elif section == "objectives" and wanted & {"weights", "outputs"}:
                values["objectives"] = list(self.objectives)  # In the order of the logits.
            elif section == "groups" and wanted & {"values", "weights"}:
                values.update({f"groups.{name}": [*group] for name, group in self.groups.items()})
                values["raw"] = list(self.raw)
            elif section in ("drift", "retraining", "monitoring", "tables"):
                for field, value in getattr(self, section).counted(wanted).items():
                    values[f"{section}.{field}"] = value
        return values

    def to_dict(self, *, defaults: bool = False) -> dict[str, Any]:
        """The document from which `parser.parse` makes an equal spec.

        Args:
          defaults: whether it has values that are defaults, for another version of the kit. A value
            of None is always left out.
        """

        def dump(entries: Mapping[str, Any]) -> dict[str, Any]:
            left_out = {"exclude_none": True} if defaults else {"exclude_defaults": True}
            return {
                name: entry.model_dump(mode="json", by_alias=True, **left_out)
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
        for name, column in self.columns.items():
            for field in column.borrowed:
                document["columns"][name].pop(field, None)
        if self.embedding_tables:
            document["embedding_tables"] = dump(self.embedding_tables)
        if self.raw:
            document["raw"] = list(self.raw)
        if self.drift != NO_DRIFT:
            # `{}` for a measure removes its default threshold. Leaving it out keeps the default.
            document["drift"] = self.drift.model_dump(mode="json", exclude_none=True)
        if self.filter:
            document["filter"] = [entry.as_dict() for entry in self.filter]
        if self.retraining != NO_RETRAINING:
            document["retraining"] = self.retraining.model_dump(mode="json", exclude_defaults=True)
        if self.monitoring != NO_MONITORING:
            document["monitoring"] = self.monitoring.model_dump(mode="json", exclude_defaults=True)
        if self.tables != NO_TABLES:
            document["tables"] = self.tables.model_dump(mode="json", exclude_none=True)
        return document

    def problem(self, path: Path, message: str) -> Problem:
        """A problem at a place of the document, with its line if the line is known."""
        return located(path, message, self.lines)

    def fingerprint_of_rows(self) -> str:
        """The SHA-256, in hex, of what turns a record into the row that a model gets."""
        reads = {
            name: [entry.group, [part.name for part in entry.label_parts], entry.reads_seen]
            for name, entry in self.objectives.items()
        }
        return _sha256(
            self.meaning(
                meaning.ROWS_OF_A_FILE.aspects, ("features", "columns", "labels", "filter")
            ),
            self.meaning(("values", "weights"), ("objectives",)),
            # A model gets the ids of the columns below an embedding.
            {name: [self.category_of(n)[0] for n in group] for name, group in self.groups.items()},
            [self.raw, reads],
        )

    def fingerprint(
        self, aspects: Iterable[str] = ASPECTS, sections: Iterable[str] = SECTIONS
    ) -> str:
        """The SHA-256, in hex, of what changes these aspects; see `meaning`."""
        return _sha256(self.meaning(aspects, sections))


def _sha256(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
