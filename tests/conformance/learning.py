"""How well a model learns a toy: a small training loop over `ModelFn`, all rows in a batch.

Each model reads a group with the `cell` of a row (`toys`), so it can learn the best prediction for
each cell.

    progress(pair("linear", [("cosine", None)]))    # {"cosine_0": 1.0}
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

import numpy as np
import tensorflow as tf

import feature_specs
from estimator_kit.models import MODELS
from estimator_kit.optimizers.choice import GRADIENT_NORM_TENSOR
from tests.conformance.toys import CELLS, IN_CELL, TOYS, Predictions, Toy, shares
from tests.estimator_kit.small_training import batch_of

# Rows of training without any value.
COLD = 6

SMALL = {"hidden_units": [16], "learning_rate": 0.2}
_STEPS = {**SMALL, "deep_group": None}
_TASKS = {**SMALL, "tasks": ["click", "buy"]}
# Parameters that make a model small, fast to train, and dependent on the part that gives its name.
PARAMS: dict[str, dict[str, Any]] = {
    "aitm": _TASKS,
    "autoint": {"learning_rate": 0.2, "attention_layers": 1, "attention_dimension": 8},
    "dien": {**_STEPS, "recurrent_units": 8},
    "din": {**_STEPS, "attention_units": [8]},
    "esmm": _TASKS,
    "fm": {"learning_rate": 0.3},
    "gru": {**_STEPS, "recurrent_units": [8]},
    "gru4rec": {"recurrent_units": [8], "learning_rate": 0.03},
    "linear": {"learning_rate": 1.0},
    "lstm": {**_STEPS, "recurrent_units": [8]},
    "sasrec": {"max_steps": 2, "blocks": 1, "steps_dropout": 0.0, "learning_rate": 0.03},
    "transformer": {**_STEPS, "width": 8, "feed_forward": 8},
    "two_tower": {**SMALL, "dimension": 4},
    "wide_deep": {**SMALL, "linear_learning_rate": 0.3},
    "xdeepfm": {**SMALL, "maps": [4]},
}
# The models of some heads only.
NEXT_ITEM_MODELS = ("gru4rec", "sasrec")
TASK_MODELS = ("aitm", "esmm")
MATCHING_MODELS = ("two_tower",)

_EMBEDDED = {"dimension": 4}
DOCUMENT: dict[str, Any] = {
    "features": {
        "cell": {"dtype": "int64"},
        "item": {"dtype": "int64"},
        "history": {"dtype": "int64", "shape": "variable"},
        "query": {"dtype": "int64"},
    },
    "columns": {
        "cell": {"identity": "cell", "size": CELLS},
        "item": {"identity": "item", "size": CELLS},
        "seen": {"identity": "history", "size": CELLS, "sequence": True},
        "cell_emb": {"embedding": "cell", **_EMBEDDED},
        "item_emb": {"embedding": "item", **_EMBEDDED},
        "seen_emb": {"embedding": "seen", **_EMBEDDED},
    },
    "groups": {
        "wide": ["cell"],
        "fields": ["cell_emb", "item_emb"],
        "deep": ["cell_emb"],
        "steps": ["seen_emb"],
        "target": ["item_emb"],
        "user": ["cell_emb"],
        "item": ["item_emb"],
    },
}


@dataclasses.dataclass(frozen=True)
class Pair:
    """A model, and what it learns: objectives {name: (toy, entry of the spec)}."""

    model: str
    objectives: dict[str, tuple[Toy, dict[str, Any]]]


def pair(model: str, cases: list[tuple[str, Optional[dict[str, Any]]]]) -> Pair:
    """A model that learns heads with losses, each as a separate objective."""
    objectives = {}
    for number, (head, loss) in enumerate(cases):
        entry = {"head": head, **TOYS[head].objective, **({"loss": loss} if loss else {})}
        objectives[f"{head}_{number}"] = (TOYS[head], entry)
    return Pair(model, objectives)


def task_pair(model: str, loss: dict[str, Any]) -> Pair:
    entry = {"head": "binary", "loss": loss}
    click = shares(0.05, 0.1, 0.9, 0.95)
    buy = shares(0.05, 0.05, 0.1, 0.9)
    click, buy = (dataclasses.replace(TOYS["binary"], values=v) for v in (click, buy))
    return Pair(model, {"click": (click, entry), "buy": (buy, entry)})


def matching_pair(model: str, cases: list[tuple[str, Optional[dict[str, Any]]]]) -> Pair:
    """The label says whether the item is the item of the cell."""
    toys = {
        "binary": dataclasses.replace(
            TOYS["binary"], values=lambda cell, i: (cell == i % CELLS).astype(int).tolist()
        ),
        "ranking": dataclasses.replace(
            TOYS["ranking"], values=lambda cell, i: (cell == i % CELLS).astype(int).tolist()
        ),
    }
    made = pair(model, cases)
    objectives = {n: (toys[entry["head"]], entry) for n, (_, entry) in made.objectives.items()}
    return Pair(model, objectives)


def document_and_rows(case: Pair, *, cold: bool = False) -> tuple[dict, list[dict], Any]:
    """The spec of a pair, its rows as records, and (cell, number in the cell, labels) of the rows.

    Args:
      case: the pair.
      cold: whether to make some rows without any value instead.
    """
    match = case.model in MATCHING_MODELS
    # The rows of a query follow each other. It has one row of each cell, or of each item.
    order: Any = "ij" if match else "xy"
    cell, i = (x.ravel() for x in np.meshgrid(range(CELLS), range(IN_CELL), indexing=order))
    if cold:
        cell, i = np.zeros(COLD, int), np.arange(COLD)
    rows, labels = _rows(case, cell, i, match, cold=cold)
    document = {**DOCUMENT, "features": {**DOCUMENT["features"]}}
    document["labels"] = {name: toy.label for name, (toy, _) in case.objectives.items()}
    document["objectives"] = {name: entry for name, (_, entry) in case.objectives.items()}
    for toy, entry in case.objectives.values():
        document["features"] |= {n: e for n, (e, _) in toy.features.items() if n in str(entry)}
    params = PARAMS.get(case.model, SMALL)
    groups = MODELS[case.model](feature_specs.parse(_used(document)), params).groups()
    if any("items" in entry for _, entry in case.objectives.values()):
        groups = (*groups, "steps")  # It needs the column, even if the model does not read it.
    document["groups"] = {group: DOCUMENT["groups"][group] for group in dict.fromkeys(groups)}
    return _used(document), rows, (cell, i, labels)


def progress(case: Pair, steps: int = 200) -> dict[str, float]:
    """How far each objective came from the best constant (0) to the best predictions (1).

    Training also has rows without any value, whose vectors are 0. They do not count here.
    """
    document, rows, (cell, i, labels) = document_and_rows(case)
    _, cold, _ = document_and_rows(case, cold=True)
    predicted = _trained(case.model, feature_specs.parse(document), rows, cold, steps)
    found = {}
    for name, (toy, _) in case.objectives.items():
        y = np.array(labels[name])
        kinds = cell * CELLS + i % CELLS if case.model in MATCHING_MODELS else cell
        best = {kind: toy.best(y[kinds == kind]) for kind in set(kinds.tolist())}
        of_kinds = {k: np.stack([best[kind][k] for kind in kinds.tolist()]) for k in best[0]}
        of_all = {k: np.stack([value] * len(cell)) for k, value in toy.best(y).items()}
        own = {k.split("/")[1]: v for k, v in predicted.items() if k.startswith(f"{name}/")}
        got, low, high = (toy.quality(p, y) for p in (own, of_all, of_kinds))
        assert high > low, name
        found[name] = (got - low) / (high - low)
    return found


def _rows(
    case: Pair, cell: np.ndarray, i: np.ndarray, match: bool, *, cold: bool = False
) -> tuple[list[dict[str, Any]], dict[str, list[Any]]]:
    """Rows as records, and the values of their labels by objective."""
    query = i // CELLS + cell * IN_CELL if match else i
    columns: dict[str, list[Any]] = {
        "cell": (cell * 0 - 1 if cold else cell).tolist(),
        "item": (np.where(i % 2, i % CELLS, -1) if cold else i % CELLS).tolist(),
        "history": [[] if cold else [c] * (1 + n % 2) for c, n in zip(cell.tolist(), i)],
        "query": (query * 0 - 2 if cold else query).tolist(),
    }
    labels = {name: toy.values(cell, i) for name, (toy, _) in case.objectives.items()}
    for name, (toy, _) in case.objectives.items():
        columns.update({n: make(cell, i) for n, (_, make) in toy.features.items()})
        columns[name] = labels[name]
        if toy.label.get("shape") == "variable":  # A label for each step: only the last one counts.
            steps = columns["history"]
            columns[name] = [
                [-1] * (len(s) - 1) + [y] if s else [] for s, y in zip(steps, labels[name])
            ]
    return [dict(zip(columns, row)) for row in zip(*columns.values())], labels


def _used(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the columns and features that its groups and objectives read."""
    groups = document["groups"]
    columns = {n for names in groups.values() for n in names}
    while True:
        sources = {next(iter(document["columns"][n].values())) for n in columns}
        more = {s for s in sources if s in document["columns"]} - columns
        if not more:
            break
        columns |= more
    items = {e["items"] for e in document["objectives"].values() if "items" in e}
    columns |= items
    sources |= {document["columns"][n]["identity"] for n in items}
    read = {n: c for n, c in document["columns"].items() if n in columns}
    sources |= {e["group_by"] for e in document["objectives"].values() if "group_by" in e}
    unread = [n for n in DOCUMENT["features"] if n not in sources]
    features = {n: f for n, f in document["features"].items() if n not in unread}
    return {**document, "columns": read, "features": features}


def _trained(
    name: str, spec: Any, rows: list[dict[str, Any]], cold: list[dict[str, Any]], steps: int
) -> Predictions:
    """The predictions for the rows, after steps with all rows in a batch."""
    v1 = tf.compat.v1
    params = PARAMS.get(name, SMALL)
    options = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
    with tf.Graph().as_default(), v1.Session(config=options) as session:
        v1.set_random_seed(1)
        batches = batch_of(spec, [*rows, *cold])().take(1).cache().repeat()
        iterator = v1.data.make_initializable_iterator(batches)
        model = MODELS[name](spec, params)
        train = model(*iterator.get_next(), tf.estimator.ModeKeys.TRAIN)
        session.run(
            [v1.global_variables_initializer(), v1.tables_initializer(), iterator.initializer]
        )
        norm, _ = session.run([f"{GRADIENT_NORM_TENSOR}:0", train.train_op])
        assert norm < 1000, f"the first step has a gradient of {norm}"
        for _ in range(steps - 1):
            session.run(train.train_op)
        values = session.run({v.op.name: v for v in v1.global_variables()})
    with tf.Graph().as_default(), v1.Session(config=options) as session:
        iterator = v1.data.make_initializable_iterator(batch_of(spec, rows, labels=False)())
        served = MODELS[name](spec, params)(
            iterator.get_next(), None, tf.estimator.ModeKeys.PREDICT
        )
        feeds = {v.initializer.inputs[1]: values[v.op.name] for v in v1.global_variables()}
        session.run([v1.tables_initializer(), iterator.initializer])
        session.run([v.initializer for v in v1.global_variables()], feeds)
        found = session.run(served.predictions)
    (first, *more) = spec.objectives
    if not more:  # The predictions of a single objective have no prefix.
        found = {**found, **{f"{first}/{k}": v for k, v in found.items()}}
    return found
