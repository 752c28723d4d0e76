"""Toys that every pair of a model and a loss can learn, and how well a trained model has learned.

A row has one of four `cell`s, which decides the distribution of its labels. Each model reads a
group with the cell, so it can learn the best prediction for each cell. This prediction follows from
the labels of the cell in closed form, and so does the best constant. Both and the model's
predictions go into the same `quality`, a function in NumPy or scikit-learn.

    progress(pair("linear", [("cosine", None)]))    # {"cosine_0": 1.0}
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Optional

import numpy as np
import tensorflow as tf
from sklearn import metrics

import feature_specs
from estimator_kit.models import MODELS
from estimator_kit.optimizers.choice import GRADIENT_NORM_TENSOR
from feature_specs.heads import losses
from tests.conformance.table import losses_of_head
from tests.estimator_kit.small_training import batch_of

CELLS = 4
# Rows of a cell. The number of a row in its cell decides its label, so that shares are exact.
IN_CELL = 40
# Rows of training without any value.
COLD = 6

Predictions = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Toy:
    """A head's labels, and what the best predictions are.

    Attributes:
      label, objective: entries of the spec. `objective` has no head and no loss.
      values: the values of the label of all rows, from their cells and their numbers in the cell.
      best: the best predictions for some rows, if all of them get the same.
      quality: from predictions and labels; larger is better.
      features: what the head or a loss reads in addition: {name: (entry, its values)}.
    """

    label: dict[str, Any]
    values: Callable[[np.ndarray, np.ndarray], list[Any]]
    best: Callable[[np.ndarray], Predictions]
    quality: Callable[[Predictions, np.ndarray], float]
    objective: dict[str, Any] = dataclasses.field(default_factory=dict)
    features: dict[str, Any] = dataclasses.field(default_factory=dict)


def _shares(*shares: float) -> Callable[[np.ndarray, np.ndarray], list[Any]]:
    """1 for a share of the rows of each cell, and 0 for the rest."""
    return lambda cell, i: [int(n < shares[c] * IN_CELL) for c, n in zip(cell, i)]


def _classes(cell: np.ndarray, i: np.ndarray) -> list[Any]:
    """80 % of the rows of a cell have its class, 0, 1, 2 and 2; the rest have all classes."""
    return [min(int(c), 2) if n % 5 else int(n // 5) % 3 for c, n in zip(cell, i)]


def _around(*centers: float, spread: float) -> Callable[[np.ndarray, np.ndarray], list[Any]]:
    """Numbers that are symmetric around the center of the cell."""
    steps = np.linspace(-spread, spread, IN_CELL)
    return lambda cell, i: [float(centers[c] + steps[n]) for c, n in zip(cell, i)]


def _directions(cell: np.ndarray, i: np.ndarray) -> list[Any]:
    angle = cell * 0.8 + (i / (IN_CELL - 1) - 0.5) * 0.6
    return np.stack([np.cos(angle), np.sin(angle), 0.3 + 0 * angle], 1).tolist()


def _lognormal(cell: np.ndarray, i: np.ndarray) -> list[Any]:
    share, mean = np.array([0.2, 0.4, 0.6, 0.9])[cell], np.array([0.0, 2.0, 1.0, 3.0])[cell]
    value = np.exp(mean + 0.5 * np.sin(i))
    return np.where(i < share * IN_CELL, value, 0.0).astype("f").tolist()


def _times(cell: np.ndarray, i: np.ndarray) -> list[Any]:
    return (np.array([0.5, 1.5, 3.0, 6.0])[cell] * (0.1 + 1.9 * i / IN_CELL)).tolist()


def _auc(predictions: Predictions, labels: np.ndarray) -> float:
    return float(metrics.roc_auc_score(labels, predictions["probabilities"][:, -1]))


def _squared(predictions: Predictions, labels: np.ndarray) -> float:
    return -float(metrics.mean_squared_error(labels, predictions["predictions"][:, 0]))


def _correlation(predictions: Predictions, labels: np.ndarray) -> float:
    """The squared correlation: losses such as focal move all probabilities towards 1/2."""
    p = predictions["predictions"][:, 0]
    return float(np.corrcoef(p, labels)[0, 1] ** 2) if p.std() > 1e-9 else 0.0


def _cosine(predictions: Predictions, labels: np.ndarray) -> float:
    a, b = predictions["predictions"], labels
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(np.mean((a * b).sum(1) / np.maximum(lengths, 1e-9)))


QUANTILES = (0.1, 0.5, 0.9)


def _pinball(predictions: Predictions, labels: np.ndarray) -> float:
    return -sum(
        float(metrics.mean_pinball_loss(labels, column, alpha=q))
        for q, column in zip(QUANTILES, predictions["predictions"].T)
    )


def _ndcg(predictions: Predictions, labels: np.ndarray) -> float:
    """The mean NDCG of the queries. Equal scores count as the mean over their orders."""
    gains, scores = 2.0**labels - 1, np.round(predictions["scores"][:, 0], 6)
    return float(metrics.ndcg_score(gains.reshape(-1, CELLS), scores.reshape(-1, CELLS)))


def _lognormal_likelihood(predictions: Predictions, labels: np.ndarray) -> float:
    z, mean, s = predictions["logits"].astype("d").T
    sigma, y = np.logaddexp(0, s), np.where(labels > 0, labels, 1.0)
    density = -np.log(y * sigma * np.sqrt(2 * np.pi)) - ((np.log(y) - mean) / sigma) ** 2 / 2
    return float(np.mean(np.where(labels > 0, density - np.logaddexp(0, -z), -np.logaddexp(0, z))))


def _best_lognormal(labels: np.ndarray) -> Predictions:
    above = np.log(labels[labels > 0])
    share, sigma = len(above) / len(labels), above.std()
    logits = [np.log(share / (1 - share)), above.mean(), np.log(np.expm1(sigma))]
    return {"logits": np.array(logits)}


BOUNDARIES = (1.0, 2.0, 4.0, 8.0)


def _survival_likelihood(predictions: Predictions, labels: np.ndarray) -> float:
    """Every time is an event; those after the last boundary are censored there."""
    survival = predictions["survival_probabilities"].astype("d")
    ends = np.concatenate([np.ones((len(survival), 1)), survival, np.zeros((len(survival), 1))], 1)
    at = np.searchsorted(BOUNDARIES, labels, side="right")
    rows = np.arange(len(labels))
    return float(np.mean(np.log(np.maximum(ends[rows, at] - ends[rows, at + 1], 1e-9))))


def _best_survival(labels: np.ndarray) -> Predictions:
    return {"survival_probabilities": np.mean(labels[:, None] >= np.array(BOUNDARIES), axis=0)}


def _probability(labels: np.ndarray) -> Predictions:
    return {"probabilities": np.array([1 - np.mean(labels), np.mean(labels)])}


def _mean(labels: np.ndarray) -> Predictions:
    return {"predictions": np.array([np.mean(labels)])}


_CLASS_SHARES = Toy(
    {"dtype": "int64"},
    _classes,
    lambda y: {"probabilities": np.bincount(y, minlength=3) / len(y)},
    lambda p, y: float(np.mean(np.argmax(p["probabilities"], axis=1) == y)),
    {"num_classes": 3},
)

TOYS: dict[str, Toy] = {
    "binary": Toy(
        {"dtype": "int64"}, _shares(0.05, 0.1, 0.9, 0.95), _probability, _auc,
        features={"waited": ({"dtype": "float32"}, lambda cell, i: (5.0 + i % 3).tolist())},
    ),
    "multi_class": _CLASS_SHARES,
    "ordinal": _CLASS_SHARES,
    "regression": Toy({"dtype": "float32"}, _around(-2, 0, 1, 3, spread=0.5), _mean, _squared),
    "multi_label": Toy(
        {"dtype": "int64", "shape": [2]},
        lambda cell, i: np.stack(
            [_shares(0.1, 0.1, 0.9, 0.9)(cell, i), _shares(0.9, 0.1, 0.1, 0.9)(cell, i)], 1
        ).tolist(),
        lambda y: {"probabilities": np.mean(y, axis=0)},
        lambda p, y: float(metrics.roc_auc_score(y, p["probabilities"], average="macro")),
        {"num_classes": 2},
    ),
    "poisson": Toy(
        {"dtype": "int64"},
        lambda cell, i: (np.array([1, 2, 4, 7])[cell] + i % 3 - 1).tolist(),
        _mean,
        _squared,
    ),
    "logistic_regression": Toy(
        {"dtype": "float32"}, _around(0.1, 0.35, 0.6, 0.9, spread=0.05), _mean, _correlation
    ),
    "cosine": Toy(
        {"dtype": "float32", "shape": [3]},
        _directions,
        lambda y: {"predictions": np.mean(y / np.linalg.norm(y, axis=1, keepdims=True), axis=0)},
        _cosine,
        {"dimension": 3},
    ),
    "quantile": Toy(
        {"dtype": "float32"},
        _around(-2, 0, 1, 3, spread=0.5),
        lambda y: {"predictions": np.quantile(y, QUANTILES)},
        _pinball,
        {"quantiles": list(QUANTILES)},
    ),
    "ranking": Toy(
        {"dtype": "int64"},
        lambda cell, i: np.array([0, 0, 1, 3])[cell].tolist(),
        lambda y: {"scores": np.array([np.mean(y)])},
        _ndcg,
        {"group_by": "query"},
    ),
    "ziln": Toy({"dtype": "float32"}, _lognormal, _best_lognormal, _lognormal_likelihood),
    "survival": Toy(
        {"dtype": "float32"}, _times, _best_survival, _survival_likelihood,
        {"event": "ended", "boundaries": list(BOUNDARIES)},
        {"ended": ({"dtype": "int64"}, lambda cell, i: [1] * len(cell))},
    ),
    "next_item": Toy(
        {"dtype": "int64", "shape": "variable", "missing": "mask"},
        lambda cell, i: [(c + 1 if n % 5 else n // 5) % CELLS for c, n in zip(cell, i)],
        lambda y: {"scores": np.bincount(y, minlength=CELLS) / len(y)},
        lambda p, y: float(np.mean(np.argmax(p["scores"], axis=1) == y)),
        {"items": "seen"},
    ),
}  # fmt: skip

# Options that a loss needs.
_NEEDED = {"delayed_feedback": {"elapsed": "waited", "delay": 6.0}}


def losses_and_options(head: str) -> list[Optional[dict[str, Any]]]:
    """All losses of a head; one more for each choice of an option that has names as choices."""
    entries = {next(iter(m.model_fields)): m for m in losses.Loss.__args__}  # type: ignore
    found: list[Optional[dict[str, Any]]] = []
    for name in losses_of_head(head):
        needed = _NEEDED.get(name, {})
        found.append({name: needed})
        (options,) = (field.annotation for field in entries[name].model_fields.values())
        for key, schema in options.model_json_schema()["properties"].items():
            choices = [c for s in (schema, *schema.get("anyOf", ())) for c in names_in(s)]
            default = options.model_fields[key].default
            found += [{name: {**needed, key: c}} for c in choices if c != default]
    return found or [None]


def names_in(schema: dict[str, Any]) -> list[str]:
    return [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])]


# --- Models --------------------------------------------------------------------------------------

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
    click = _shares(0.05, 0.1, 0.9, 0.95)
    buy = _shares(0.05, 0.05, 0.1, 0.9)
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
