"""For each field of a spec: the smallest specs that differ in it, and their rows.

`cases(kind, field)` takes other values from the type of a field, or from `BY_HAND`. A new kind of
entry needs a place in `ENTRIES`, and a field whose type shows no valid value one in `BY_HAND`.
"""

from __future__ import annotations

import copy
import dataclasses
import random
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Optional, Union

import feature_specs
from feature_specs.entry import Declared
from feature_specs.feature import Feature
from feature_specs.heads import HEADS
from feature_specs.kinds import COLUMN_KINDS
from feature_specs.label import Label
from feature_specs.sections.monitoring import Monitoring
from feature_specs.sections.records import Drift, Filter, Tables
from feature_specs.sections.retraining import Retraining
from tests.conformance.observed import example, sequence_example
from tests.conformance.table import HEAD_CASES, losses_of_head

ENTRIES: Mapping[str, type[Declared]] = {
    "feature": Feature, "label": Label, **COLUMN_KINDS, **HEADS, "filter": Filter, "drift": Drift,
    "retraining": Retraining, "monitoring": Monitoring, "tables": Tables,
}  # fmt: skip

# A name with a 2 is the twin of the name without it: another feature or column of the same form.
FEATURES: dict[str, dict[str, Any]] = {
    "price": {"dtype": "float32", "default": 0.0},
    "age": {"dtype": "int64"},
    "city": {"dtype": "string", "default": ""},
    "tags": {"dtype": "string", "shape": "variable"},
    "views": {"dtype": "string", "shape": "variable"},
    "ids": {"dtype": "int64", "shape": "variable"},
    "stays": {"dtype": "float32", "shape": "variable"},
    "visits": {"dtype": "float32", "shape": "variable"},
    "share": {"dtype": "float32"},
    "ended": {"dtype": "int64"},
    "day": {"dtype": "string", "default": ""},
}
COLUMNS = {
    "cost": {"numeric": "price"},
    "tag": {"hash_bucket": "tags", "size": 5},
    "seen": {"hash_bucket": "tags", "size": 9, "sequence": True},
    "word": {"vocabulary": "city", "list": ["rome", "oslo", "lima"]},
}


def _twins(entries: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, entry in entries.items():
        found[name] = entry
        found[f"{name}2"] = {
            key: f"{value}2" if isinstance(value, str) and value in FEATURES else value
            for key, value in entry.items()
        }
    return found


def make_rows(count: int = 16) -> list[dict[str, Any]]:
    """Rows with all features; rows of one city are together."""
    rng, rows = random.Random(1), []
    for i in range(count):
        row = {}
        for end in ("", "2"):
            tags = [rng.choice(["a", "b", "c", ""]) for _ in range(rng.randrange(1, 5))]
            row.update({
                f"price{end}": rng.choice([None, rng.randrange(1, 40) / 4]),
                f"age{end}": rng.randrange(10),
                f"city{end}": ["rome", "oslo", "lima", None][i // 3 % 4 if not end else i // 2 % 3],
                f"tags{end}": tags,
                f"views{end}": [tag * 2 for tag in tags],
                f"ids{end}": [rng.randrange(10) for _ in tags],
                f"stays{end}": [rng.randrange(1, 9) / 4 for _ in tags],
                f"visits{end}": [rng.randrange(1, 9) / 4 for _ in tags],
                f"share{end}": rng.randrange(1, 9) / 10,
                f"ended{end}": rng.randrange(2),
                f"day{end}": f"{i % 12 + 1}/{(i * 7) % 12 + 1}/17" if end else f"{i % 11 + 1}/5/17",
            })  # fmt: skip
        rows.append(row)
    return rows


ROWS = make_rows()


@dataclasses.dataclass(frozen=True)
class Side:
    """A document, the rows of its table (or records, or a CSV file), and the model's name."""

    document: dict[str, Any]
    table: Any
    model: Optional[str] = None
    params: Optional[dict[str, Any]] = None


# The entry of each kind.
START: dict[str, dict[str, Any]] = {
    "feature": {"dtype": "float32"},
    "label": {"dtype": "float32"},
    "numeric": {"numeric": "price"},
    "sequence_numeric": {"sequence_numeric": "stays"},
    "ragged": {"ragged": "stays"},
    "bucketized": {"bucketized": "age", "boundaries": [3.0, 6.0]},
    "is_missing": {"is_missing": "price"},
    "time": {"time": "day", "part": "month", "format": "%m/%d/%y"},
    "identity": {"identity": "age", "size": 10},
    "vocabulary": {"vocabulary": "city", "list": ["rome", "oslo"]},
    "hash_bucket": {"hash_bucket": "city", "size": 7},
    "crossed": {"crossed": ["city", "age"], "size": 20},
    "weighted": {"weighted": "tag", "weight": "stays"},
    "indicator": {"indicator": "tag"},
    "embedding": {"embedding": "tag", "dimension": 3},
    "growing": {"growing": "city", "rows": 5, "buckets": 2},
    "filter": {"feature": "age", "min": 3},
    "drift": {},
    "retraining": {},
    "monitoring": {},
    "tables": {},
}
_GROUP = {
    "numeric": "deep", "indicator": "deep", "embedding": "deep",
    "sequence_numeric": "steps", "ragged": "lists",
}  # fmt: skip


def _smallest(document: dict[str, Any]) -> dict[str, Any]:
    """The document without the columns and features that nothing names."""
    parts = {k: v for k, v in document.items() if k not in ("features", "columns")}
    names, columns = set(_texts(parts)), document["columns"]
    for _ in columns:
        names.update(_texts([entry for name, entry in columns.items() if name in names]))
    names.update(_texts([e for n, e in document["features"].items() if n in names]))
    kept = {
        k: {n: e for n, e in document[k].items() if n in names} for k in ("features", "columns")
    }
    return {**document, **kept}


def _texts(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        yield from _texts([*part, *part.values()])
    elif isinstance(part, (list, tuple)):
        for each in part:
            yield from _texts(each)


def side(kind: str, **changes: Any) -> Side:
    """The smallest spec with an entry of a kind.

    Args:
      kind: a key of `ENTRIES`.
      **changes: fields of the entry that are not as in `START`; None removes a field. These names
        with `_` at their start are other parts of the spec: `_columns`, `_group`, `_label`, `_raw`,
        `_head`, `_rows`.
    """
    also = {name: changes.pop(name) for name in list(changes) if name.startswith("_")}
    if kind in HEADS:
        return _side_of_head(kind, changes, also)
    entry = {**START[kind], **changes}
    entry = {key: value for key, value in entry.items() if value is not None}
    document: dict[str, Any] = copy.deepcopy({
        "features": _twins(FEATURES), "columns": {**_twins(COLUMNS), **also.get("_columns", {})},
        "groups": {"deep": ["cost"]}, "labels": {"y": {"dtype": "int64"}},
        # Its metrics are the quickest.
        "objectives": {"y": {"head": "multi_class", "num_classes": 3}},
    })  # fmt: skip
    if kind in COLUMN_KINDS:
        document["columns"]["x"] = entry
        if "table" in entry:
            document["embedding_tables"] = {entry["table"]: {"dimension": 3}}
        group = also.get("_group", _GROUP.get(kind, "wide"))
        document["groups"] = {group: also.get("_names", ["x"])}
    elif kind == "label":
        document["labels"]["y"] = entry
        document["objectives"]["y"] = also.get("_head", {"head": "regression"})
    elif kind == "feature":
        document["features"]["x"] = entry
        document["raw"] = ["x"]
        if "_numeric" in also:
            document["columns"]["x"] = {"numeric": "x"}
            document["groups"]["deep"] = ["x"]
    elif kind == "filter":
        document["filter"] = [entry]
    elif entry:
        document[kind] = entry
    if kind == "monitoring":
        document["groups"]["wide"] = ["word"]
    if kind == "tables":
        document["groups"]["wide"] = ["word", "tag"]
    rows = [{**row, "y": i % 3} for i, row in enumerate(ROWS)]
    value = also.get("_rows", lambda i: {})
    if not isinstance(value, (list, bytes)):
        value = [{**row, **value(i)} for i, row in enumerate(rows)]
    return Side(_smallest(document), value)


def _side_of_head(head: str, changes: dict[str, Any], also: dict[str, Any]) -> Side:
    case = HEAD_CASES[head]
    entry = {"head": head, **case.objective, **changes}
    if head == "multi_class":
        case = HEAD_CASES["ordinal"]  # Whose label has no words.
    label = {**case.label, **also.get("_label", {})}
    document = {
        "features": _twins(FEATURES), "columns": _twins(COLUMNS), "groups": {"deep": ["cost"]},
        "labels": {"y": label},
        "objectives": {"y": {k: v for k, v in entry.items() if v is not None}},
    }  # fmt: skip
    rng = random.Random(2)
    rows = [{**row, "y": case.value(rng), "z": case.value(rng)} for row in ROWS]
    if "_labels" in also:  # Of two objectives.
        document["labels"]["z"] = label
        document["objectives"] = {
            name: {**document["objectives"]["y"], "label": learned}
            for name, learned in zip("ab", also["_labels"])
        }
    if "_value" in also:
        rows = [{**row, "y": also["_value"](i)} for i, row in enumerate(rows)]
    if head != "next_item":
        return Side(_smallest(document), rows)
    document["columns"].update(
        left={"hash_bucket": "views", "size": 8, "sequence": True},
        seen_emb={"embedding": "seen", "dimension": 3},
        left_emb={"embedding": "left", "dimension": 2},
    )
    document["groups"] = {"steps": ["seen_emb", "left_emb"]}
    rows = [{**row, "y": [rng.choice("abc") for _ in row["tags"]]} for row in rows]
    return Side(_smallest(document), rows, "gru4rec", {"recurrent_units": [3], "tied": False})


def _records(*rows: dict[str, Any]) -> list[bytes]:
    return [example({"y": 1, "price": 1.0, **row}) for row in rows]


_OF_HEADS = {
    "binary": "regression", "multi_class": "ordinal", "ordinal": "multi_class",
    "regression": "poisson", "poisson": "regression", "logistic_regression": "regression",
    "ziln": "poisson",
}  # fmt: skip
_STEPS = [
    ({"_label": {"shape": [n]}, "steps": n, "_value": lambda i, n=n: [1] * n}) for n in (2, 3)
]
_LIST = {"dtype": "int64", "shape": "variable"}
_LABELS = {"head": "multi_label", "num_classes": 2}


def _both(before: dict[str, Any], **after: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return before, {**before, **after}


def _tables(before: bytes, **after: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"_rows": before}, {"_rows": before, **after}


_OTHER = {"y": {"growing": "city2", "rows": 5, "buckets": 2}}

# What a type does not show: pairs of changes of the entry, as `side` takes them.
BY_HAND: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    **{f"{kind}.normalizer": [({}, {"normalizer": "log1p"})]
       for kind in ("numeric", "sequence_numeric", "ragged")},
    "feature.dtype": [({"_rows": lambda i: {"x": i}}, {"dtype": "int64",
                                                       "_rows": lambda i: {"x": i}})],
    "feature.shape": [
        *(_both({"shape": [2], "_rows": lambda i: {"x": [i, 1]}}, shape=shape)
          for shape in ([1, 2], "variable")),
        _both({"shape": [1], "default": 0.0, "_rows": lambda i: {"x": [[i], None][i % 2]}},
              shape="variable", default=None),
    ],
    "feature.default": [_both({"default": 1.0}, default=2.0)],
    "feature.required": [_both({"_rows": lambda i: {"x": 1.5}}, required=True)],
    "feature.private": [_both({"_rows": lambda i: {"x": 1.5}}, private=True)],
    "feature.feature_list": [
        _both({"shape": "variable", "_rows": lambda i: {"x": [1.5] * (i % 3)}}, shape=None,
              feature_list=True),
        _both({"shape": "variable", "_rows": _records({"x": [1.0, 2.0]})}, feature_list=True,
              _rows=[sequence_example({"y": 1, "price": 1.0}, {"x": [[1.0], [2.0]]})]),
    ],
    "feature.row_lengths": [
        _both({"shape": "variable", "_rows": _records({"x": [1.0, 2.0], "ids": [1, 1]})},
              row_lengths="ids")
    ],
    "feature.decode": [
        _both({"dtype": "string", "_numeric": True, "_rows": _records({"x": b"\xc8\x01"}),
               "decode": {"raw": {"dtype": "uint8", "shape": [2]}}},
              decode={"raw": {"dtype": "int8", "shape": [2]}})
    ],
    "label.dtype": [({}, {"dtype": "int64"})],
    "label.shape": [
        _both({"dtype": "int64", "shape": [2], "_head": _LABELS,
               "_rows": lambda i: {"y": [i % 2, 1]}}, shape="variable")
    ],
    "label.vocabulary": [
        _both({"dtype": "string", "vocabulary": ["a", "b", "c"],
               "_head": {"head": "multi_class", "num_classes": 3},
               "_rows": lambda i: {"y": "abc"[i % 3]}}, vocabulary=["b", "c", "a"])
    ],
    "label.missing": [
        _both({**_LIST, "_head": _LABELS, "_rows": lambda i: {"y": [1] * (i % 2)},
               "missing": "mask"}, missing="no_class")
    ],
    "label.weight": [({}, {"weight": "share"})],
    "label.true_probability": [
        _both({"_head": {"head": "binary"}, "_rows": lambda i: {"y": i % 2}},
              true_probability="share")
    ],
    "bucketized.boundaries": [({}, {"boundaries": [3.0, 7.0]})],
    "numeric.missing": [({}, {"missing": 3.5}), ({"missing": 3.5}, {"missing": 4.5})],
    "bucketized.missing": [
        _both({"bucketized": "price", "boundaries": [-1.0, 5.0]}, missing="own_bucket")
    ],
    "time.part": [({}, {"part": "day"})],
    "time.format": [({}, {"format": "%d/%m/%y"})],
    "identity.size": [({}, {"size": 11}), _both({"size": 5, "default_id": 0}, size=6)],
    "identity.default_id": [_both({"size": 5, "default_id": 0}, default_id=1)],
    **{
        f"{kind}.sequence": [
            _both({**entry, "_columns": {"e": {"embedding": "x", "dimension": 2}}, "_names": ["e"],
                   "_group": "deep"}, sequence=True, _group="steps")
        ]
        for kind, entry in {
            "identity": {"identity": "ids"}, "growing": {"growing": "tags", "rows": 5},
            "hash_bucket": {"hash_bucket": "tags"},
            "vocabulary": {"vocabulary": "tags", "list": ["a", "b"]},
        }.items()
    },
    "vocabulary.file": [_both({"list": None, "file": "words.txt"}, file="more.txt")],
    "vocabulary.size": [_both({"list": None, "file": "words.txt", "size": 2}, size=3)],
    "weighted.weighted": [({}, {"weighted": "less",
                              "_columns": {"less": {"hash_bucket": "tags", "size": 4}}})],
    "weighted.weight": [({}, {"weight": "visits"})],
    "crossed.hash_key": [({}, {"hash_key": 7})],
    "growing.ids_of": [
        ({"_columns": _OTHER, "_names": ["x", "y"]},
         {"_columns": _OTHER, "_names": ["x", "y"], "ids_of": "y", "rows": None, "buckets": None})
    ],
    "embedding.initializer": [({}, {"initializer": {"uniform": {"min": -1.0, "max": 1.0}}})],
    "embedding.max_norm": [({}, {"max_norm": 0.2})],
    "embedding.l2": [({}, {"l2": 0.5})],
    "embedding.trainable": [_both({"initializer": "zeros"}, trainable=False)],
    "hash_bucket.salt": [({}, {"salt": "other "})],
    "embedding.table": [
        tuple(
            {"table": name, "dimension": None, "_names": ["x", "z"],
             "_columns": {"z": {"embedding": "tag2", "table": name}}}
            for name in ("one", "two")
        )
    ],
    "embedding.pretrained": [({"embedding": "word"}, {"embedding": "word",
                                                      "pretrained": {"file": "vectors.txt"}})],
    **{f"{head}.head": [_both({"_value": lambda i, head=head: i % 3 / 2 if "logistic" in head
                               else i % (2 if head == "binary" else 3)}, head=other)]
       for head, other in _OF_HEADS.items()},
    **{f"{head}.label": [({"_labels": "yz"}, {"_labels": "zy"})]
       for head in HEADS if head != "next_item"},
    "multi_label.head": [_both({"_label": {"shape": [2]}, "_value": lambda i: [1, i % 2],
                                "num_classes": 2}, head="cosine", num_classes=None, dimension=2)],
    "cosine.head": [_both({"_label": {"dtype": "int64"}, "_value": lambda i: [1, i % 2]},
                          head="multi_label", dimension=None, num_classes=2)],
    "quantile.head": [({}, {"head": "regression", "quantiles": None})],
    "ranking.head": [({}, {"head": "regression", "group_by": None})],
    "survival.head": [({}, {"head": "regression", "event": None, "boundaries": None})],
    **{f"{head}.steps": [tuple(_STEPS)]
       for head in ("binary", "regression", "poisson", "logistic_regression")},
    "cosine.steps": [
        tuple({"_label": {"shape": [n, 2]}, "steps": n, "_value": lambda i, n=n: [1, i % 3] * n}
              for n in (2, 3))
    ],
    **{f"{head}.metrics": [({}, {"metrics": ["mean_relative_error"]})]
       for head in ("regression", "poisson", "logistic_regression", "ziln")},
    "binary.metrics": [({}, {"metrics": ["confusion", {"recall_at_precision": 0.5}]})],
    "multi_class.metrics": [({}, {"metrics": ["f1", {"top_k_accuracy": 2}]})],
    "ordinal.metrics": [({}, {"metrics": ["f1", {"top_k_accuracy": 2}]})],
    "multi_label.metrics": [({}, {"metrics": ["auc", "log_loss"]})],
    "ranking.metrics": [({}, {"metrics": ["mrr"]})],
    "next_item.metrics": [({}, {"metrics": [{"hit_rate": 2}, {"popularity_lift": 2}]})],
    "binary.group_by": [_both({"metrics": ["gauc"], "group_by": "city"}, group_by="city2")],
    "ranking.group_by": [({}, {"group_by": "city2"})],
    **{f"{head}.class_penalties": [({}, {"class_penalties": [1.0, 2.0, 3.0]})]
       for head in ("multi_class", "ordinal")},
    "cosine.dimension": [
        tuple({"dimension": n, "_label": {"shape": [n]}, "_value": lambda i, n=n: [1, i, 2][:n]}
              for n in (2, 3))
    ],
    "quantile.quantiles": [({}, {"quantiles": [0.2, 0.5]}), ({}, {"quantiles": [0.1, 0.5, 0.9]})],
    "survival.boundaries": [({}, {"boundaries": [1.0, 2.0, 5.0]}), ({}, {"boundaries": [1.0]})],
    "poisson.loss": [({}, {"loss": {"poisson": {"full": True}}})],
    "next_item.items": [({}, {"items": "left"})],
    "next_item.loss": [({}, {"loss": {name: {"samples": 4, "negatives": negatives}}})
                       for name in ("bpr", "bpr_max") for negatives in ("uniform", "mixed")],
    "next_item.top_k": [({"top_k": 3}, {"top_k": 4})],
    "filter.min": [({}, {"min": 6})],
    "filter.in": [({"feature": "city", "min": None, "in": ["rome"]},
                   {"feature": "city", "min": None, "in": ["oslo"]})],
    "filter.not_in": [({"feature": "city", "min": None, "not_in": ["rome"]},
                       {"feature": "city", "min": None, "not_in": ["oslo"]})],
    "filter.max": [({"max": 8}, {"max": 7})],
    "drift.default": [({}, {"default": {"missing": {"stop": 0.1}}})],
    "drift.features": [({}, {"features": {"price": {"missing": {"stop": 0.1}}}})],
    "drift.labels": [({}, {"labels": {"y": {"missing": {"stop": 0.1}}}})],
    "retraining.label_rate": [({}, {"label_rate": {"y": {"max": 0.5}}})],
    "retraining.period_rows": [({}, {"period_rows": {"max_ratio": 2.0}})],
    "retraining.warm_start_epochs": [({}, {"warm_start_epochs": 2})],
    "retraining.full_every": [({}, {"full_every": 7})],
    "retraining.gate": [({}, {"gate": {"conditions": [{"metric": "size_mib", "max": 9.0}]}})],
    "monitoring.key": [({}, {"key": "city", "label_delay": "1h"})],
    "monitoring.label_delay": [_both({"key": "city", "label_delay": "1h"}, label_delay="1d")],
    "monitoring.no_label_means": [_both({"key": "city", "label_delay": "1h"},
                                        no_label_means={"y": 0.0})],
    "monitoring.intervals": [({}, {"intervals": {"samples": 50}})],
    "monitoring.conditions": [({}, {"conditions": [{"metric": "requests", "min": 9.0}]})],
    "tables.csv_columns": [_both({"_rows": b"1,2\n", "csv_columns": ["price", "y"]},
                                 csv_columns=["y", "price"])],
    "tables.csv_delimiter": [_tables(b"y,price;y\n1,5;2\n", csv_delimiter=";")],
    "tables.csv_skip_spaces": [_tables(b"city,y\n oslo,2\nrome,2\n", csv_skip_spaces=True)],
    "tables.csv_comment": [_tables(b"city,y\n#oslo,2\nrome,2\n", csv_comment="#")],
    "tables.csv_missing": [_tables(b"city,y\n?,2\nrome,2\n", csv_missing=["?"])],
    "tables.csv_list_separator": [_tables(b"tags,y\na|b,2\n", csv_list_separator="|")],
    "tables.csv_thousands": [_tables(b'income,y\n"1,200",2\n', csv_thousands=True)],
}  # fmt: skip

# Fields without a case, and why.
WITHOUT_CASE = {
    "next_item.label": "a model of items has one objective; other heads show the field",
    "cosine.loss": "its one loss has no options",
    **{
        f"growing.{field}": "it acts between steps; test_growing_ids.py shows it"
        for field in ("min_count", "admit_every", "evict", "evict_every")
    },
    "next_item.head": "no other head learns its label, a list with an item for each step",
}


def cases(kind: str, field: str) -> Iterator[tuple[Side, Side]]:
    """Pairs of specs that differ in a field of a kind of entry."""
    name = ENTRIES[kind].model_fields[field].alias or field
    place = f"{kind}.{name}"
    if place in BY_HAND:
        for before, after in BY_HAND[place]:
            yield side(kind, **before), side(kind, **after)
        return
    first = side(kind)
    for value in _others(kind, field):
        second = side(kind, **{name: value})
        try:
            spec = feature_specs.parse(second.document)
        except feature_specs.SpecError:
            continue
        if spec != feature_specs.parse(first.document):  # A loss may be the default.
            yield first, second


def _others(kind: str, field: str) -> Iterator[Any]:
    """Other values of a field than in `START`, from its type."""
    info = ENTRIES[kind].model_fields[field]
    given = {**START.get(kind, {}), **(HEAD_CASES[kind].objective if kind in HEADS else {})}
    value = given.get(info.alias or field, info.default)
    if kind in HEADS and field == "loss":
        for name in losses_of_head(kind):
            yield {name: {"elapsed": "share"}} if name == "delayed_feedback" else name
    else:
        yield from by_type(info.annotation, value)


def by_type(annotation: Any, value: Any) -> Iterator[Any]:
    """Other values of a type than this one; none if it shows no valid one."""
    if isinstance(value, bool):
        yield not value
    elif literals := _literals(annotation):
        yield from (each for each in literals if each != value)
    elif isinstance(value, (int, float)):
        yield value + 1
    elif isinstance(value, str):
        yield f"{value}2"
    elif isinstance(value, (list, tuple)):
        yield list(reversed(value))


def _literals(kind: Any) -> list[Any]:
    if typing.get_origin(kind) is Literal:
        return list(typing.get_args(kind))
    if typing.get_origin(kind) is Union:
        return [each for part in typing.get_args(kind) for each in _literals(part)]
    return []
