"""Toys: labels for each head, and what the best predictions are, in closed form.

A row has one of four `cell`s, which decides the distribution of its labels. The best predictions
for a cell follow from the labels of the cell, and the best constant from all labels. A `quality`, a
function in NumPy or scikit-learn, compares them with the predictions of a model.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Optional

import numpy as np
from sklearn import metrics

from feature_specs.heads import LOSSES
from tests.conformance.table import losses_of_head

CELLS = 4
# Rows of a cell. The number of a row in its cell decides its label, so that shares are exact.
IN_CELL = 40

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


def shares(*shares: float) -> Callable[[np.ndarray, np.ndarray], list[Any]]:
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
        {"dtype": "int64"}, shares(0.05, 0.1, 0.9, 0.95), _probability, _auc,
        features={"waited": ({"dtype": "float32"}, lambda cell, i: (5.0 + i % 3).tolist())},
    ),
    "multi_class": _CLASS_SHARES,
    "ordinal": _CLASS_SHARES,
    "regression": Toy({"dtype": "float32"}, _around(-2, 0, 1, 3, spread=0.5), _mean, _squared),
    "multi_label": Toy(
        {"dtype": "int64", "shape": [2]},
        lambda cell, i: np.stack(
            [shares(0.1, 0.1, 0.9, 0.9)(cell, i), shares(0.9, 0.1, 0.1, 0.9)(cell, i)], 1
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
    found: list[Optional[dict[str, Any]]] = []
    for name in losses_of_head(head):
        needed = _NEEDED.get(name, {})
        found.append({name: needed})
        (options,) = (field.annotation for field in LOSSES[name].model_fields.values())
        for key, schema in options.model_json_schema()["properties"].items():
            choices = [c for s in (schema, *schema.get("anyOf", ())) for c in _names_in(s)]
            default = options.model_fields[key].default
            found += [{name: {**needed, key: c}} for c in choices if c != default]
    return found or [None]


def _names_in(schema: dict[str, Any]) -> list[str]:
    return [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])]
