"""What the conformance test makes of each built-in model and of each head.

A new model needs an entry in MODEL_CASES and a new head one in HEAD_CASES; the suite fails without.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any, Callable, Optional

from feature_specs.heads import HEADS

_SMALL = {"hidden_units": [8, 4]}
_TASKS = {"click": "binary", "buy": "binary"}
_NEXT = {"next_item": "next_item"}
_STEPS = {**_SMALL, "steps_dropout": 0.1}


@dataclasses.dataclass(frozen=True)
class ModelCase:
    """Attributes:
    params: of the model, small ones.
    heads: those that it takes; None for all of them, together.
    """

    params: dict[str, Any] = dataclasses.field(default_factory=lambda: dict(_SMALL))
    objectives: Optional[dict[str, str]] = None


MODEL_CASES = {
    "aitm": ModelCase({**_SMALL, "tasks": ["click", "buy"]}, _TASKS),
    "autoint": ModelCase({**_SMALL, "attention_layers": 2, "attention_dimension": 4}),
    "cgc": ModelCase({**_SMALL, "tower_units": [], "shared_experts": 1}),
    "dcn": ModelCase({**_SMALL, "rank": 2, "experts": 2, "structure": "parallel"}),
    "deepfm": ModelCase({**_SMALL, "dropout": 0.2}),
    "dien": ModelCase({**_SMALL, "recurrent_units": 4}),
    "din": ModelCase({**_SMALL, "attention_units": [4]}),
    "dnn": ModelCase({**_SMALL, "batch_norm": True, "residual": True, "regularizer": {"l2": 0.01}}),
    "esmm": ModelCase(_SMALL, _TASKS),
    "fm": ModelCase({}),
    "gru": ModelCase({**_STEPS, "recurrent_units": [4, 3]}),
    "gru4rec": ModelCase(
        {"recurrent_units": [3], "steps_dropout": 0.1, "optimizer": "adagrad"}, _NEXT
    ),
    "linear": ModelCase({}),
    "lstm": ModelCase({**_STEPS, "recurrent_units": [4]}),
    "mmoe": ModelCase({**_SMALL, "experts": 2}),
    "ple": ModelCase(
        {"hidden_units": [4], "layer_norm": True, "shared_experts": 1, "own_experts": 1}
    ),
    "sasrec": ModelCase({"max_steps": 3, "optimizer": "adagrad"}, _NEXT),
    "shared_bottom": ModelCase(),
    "transformer": ModelCase({**_STEPS, "width": 8, "feed_forward": 8}),
    "two_tower": ModelCase({**_SMALL, "dimension": 4}, {"binary": "binary", "ranking": "ranking"}),
    "wide_deep": ModelCase({**_SMALL, "initializer": "he_normal", "activation": "prelu"}),
    "xdeepfm": ModelCase({**_SMALL, "maps": [3, 2]}),
}


@dataclasses.dataclass(frozen=True)
class HeadCase:
    """Attributes:
    label, objective: entries of the spec, of the head's own name.
    value: the label of a row, from a random generator.
    """

    label: dict[str, Any]
    objective: dict[str, Any]
    value: Callable[[random.Random], Any]


HEAD_CASES = {
    "binary": HeadCase({"dtype": "int64"}, {}, lambda rng: rng.randint(0, 1)),
    "multi_class": HeadCase(
        {"dtype": "string", "vocabulary": ["a", "b", "c"]},
        {"num_classes": 3},
        lambda rng: rng.choice("abc"),
    ),
    "regression": HeadCase({"dtype": "float32"}, {}, lambda rng: rng.gauss(1, 2)),
    "multi_label": HeadCase(
        {"dtype": "int64", "shape": "variable"},
        {"num_classes": 3},
        lambda rng: rng.sample(range(3), k=rng.randint(1, 3)),
    ),
    "poisson": HeadCase({"dtype": "int64"}, {}, lambda rng: rng.randint(0, 4)),
    "logistic_regression": HeadCase({"dtype": "float32"}, {}, lambda rng: rng.random()),
    "cosine": HeadCase(
        {"dtype": "float32", "shape": [2]},
        {"dimension": 2},
        lambda rng: [rng.uniform(0.1, 1), rng.gauss(0, 1)],
    ),
    "quantile": HeadCase(
        {"dtype": "float32"}, {"quantiles": [0.1, 0.5]}, lambda rng: rng.gauss(1, 2)
    ),
    "ranking": HeadCase({"dtype": "int64"}, {"group_by": "city"}, lambda rng: rng.randint(0, 3)),
    "ordinal": HeadCase({"dtype": "int64"}, {"num_classes": 3}, lambda rng: rng.randint(0, 2)),
    "ziln": HeadCase(
        {"dtype": "float32"},
        {},
        lambda rng: rng.lognormvariate(0, 1) if rng.random() < 0.5 else 0.0,
    ),
    "survival": HeadCase(
        {"dtype": "float32"},
        {"event": "ended", "boundaries": [1, 2, 4]},
        lambda rng: rng.uniform(0, 6),
    ),
    "next_item": HeadCase(
        {"dtype": "string", "shape": "variable", "missing": "mask"},
        {"items": "seen", "loss": {"sampled_softmax": {"samples": 9, "negatives": "uniform"}}},
        lambda rng: rng.choice("abcde"),
    ),
}


def losses_of_head(head: str) -> list[str]:
    """The names of the losses that a head can choose; none if it has only one, without a name."""
    field = HEADS[head].model_json_schema()["properties"].get("loss")
    return list(field["anyOf"][0]["enum"]) if field else []


# The heads that any model can learn. `next_item` needs a column of items.
ROW_HEADS = [head for head in HEAD_CASES if head != "next_item"]

_KINDS = {
    "numeric", "sequence_numeric", "hash_bucket", "vocabulary", "embedding", "indicator",
}  # fmt: skip

# A spec with a group for whatever part a model has.
DOCUMENT: dict[str, dict[str, Any]] = {
    "features": {
        "price": {"dtype": "float32", "default": 0.0},
        "user": {"dtype": "string", "default": ""},
        "city": {"dtype": "string"},
        "item": {"dtype": "string"},
        "tags": {"dtype": "string", "shape": "variable"},
        "seen": {"dtype": "string", "shape": "variable"},
        "stay": {"dtype": "float32", "shape": "variable"},
        "ended": {"dtype": "int64"},
    },
    "columns": {
        "price": {"numeric": "price", "normalizer": "log1p"},
        "user": {"hash_bucket": "user", "size": 20},
        "city": {"vocabulary": "city", "list": ["rome", "oslo"], "oov_buckets": 1},
        "item": {"hash_bucket": "item", "size": 20},
        "tag": {"hash_bucket": "tags", "size": 10},
        "seen": {"hash_bucket": "seen", "size": 20, "sequence": True},
        "stay": {"sequence_numeric": "stay"},
        "user_emb": {"embedding": "user", "dimension": 4},
        "tag_emb": {"embedding": "tag", "dimension": 4},
        "item_emb": {"embedding": "item", "table": "items"},
        "seen_emb": {"embedding": "seen", "table": "items"},
        "city_hot": {"indicator": "city"},
    },
    "groups": {
        "wide": ["price", "user", "city", "tag"],
        "fields": ["user_emb", "tag_emb", "item_emb"],
        "deep": ["price", "user_emb", "city_hot", "tag_emb"],
        "steps": ["seen_emb", "stay"],
        "target": ["item_emb", "price"],
        "user": ["user_emb", "city_hot"],
        "item": ["item_emb", "price"],
    },
}


def document(heads: dict[str, str], groups: tuple[str, ...]) -> dict[str, Any]:
    """The spec with objectives, {name: head}, and with the groups that a model reads."""
    columns = set()
    objectives = {
        name: {"head": head, **HEAD_CASES[head].objective} for name, head in heads.items()
    }
    read = ("group_by", "event")
    features = {o[key] for o in objectives.values() for key in read if key in o}
    waiting = [name for group in groups for name in DOCUMENT["groups"][group]]
    for name in waiting:
        (source,) = (v for k, v in DOCUMENT["columns"][name].items() if k in _KINDS)
        columns.add(name)
        if source in DOCUMENT["columns"] and source != name:
            waiting.append(source)
        else:
            features.add(source)
    tables = {"items": {"dimension": 4}} if {"item_emb", "seen_emb"} & columns else {}
    return {
        "features": {n: f for n, f in DOCUMENT["features"].items() if n in features},
        **({"embedding_tables": tables} if tables else {}),
        "columns": {n: c for n, c in DOCUMENT["columns"].items() if n in columns},
        "groups": {group: DOCUMENT["groups"][group] for group in groups},
        "labels": {name: HEAD_CASES[head].label for name, head in heads.items()},
        "objectives": objectives,
    }


def make_rows(count: int, objectives: dict[str, str]) -> list[dict[str, Any]]:
    rng = random.Random(1)
    rows = []
    for _ in range(count):
        seen = rng.choices("abcde", k=rng.randint(0, 4))
        rows.append(
            {
                "price": rng.uniform(0, 9),
                "user": rng.choice([None, "ann", "bob", "cy"]),
                "city": rng.choice(["rome", "oslo", "lima"]),
                "item": rng.choice("abcde"),
                "tags": rng.choices("abcd", k=rng.randint(0, 3)),
                "seen": seen,
                "stay": [rng.uniform(0, 2) for _ in seen],
                "ended": len(rows) % 2,
                **{name: HEAD_CASES[head].value(rng) for name, head in objectives.items()},
            }
        )
        if "next_item" in objectives:
            rows[-1]["next_item"] = rng.choices("abcde", k=len(seen))
        if "buy" in objectives:
            rows[-1]["buy"] *= rows[-1]["click"]
    return rows
