"""The numbers of one evaluation that the report page draws: `observed/curves/<step>.json`.

    path = curves.write(model_dir, step, {"click": curves.curve("histogram", totals)})
    by_step = curves.read(model_dir)

An evaluation returns one array for each objective (`model.objectives.observed`). `curve` reduces it
to at most 200 points, so a file has only a few KB for any number of rows. A file contains
aggregates, never rows. This module builds no graph.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit import storage
from estimator_kit.model.objectives import deciles
from feature_specs.files import documents

POINTS = 200  # Points of a ROC curve. Its area has an error of at most 0.0005.
RELIABILITY_BINS = 20
_FINITE = (float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))
_FOLDER = os.path.join("observed", "curves")


def curve(kind: str, total: np.ndarray) -> dict[str, Any]:
    """The numbers to keep from an array, which depend on its kind.

    Returns:
      - `histogram` (binary), float64 [3, bins], the logits and the weights of their positives and
        negatives: `points`, up to 200 thresholds with the weight of the positives and of the
        negatives whose logit is at least the threshold; `reliability`, 20 parts of equal weight
        with the mean prediction, the mean label and the weight.
      - `by_prediction` (regression, poisson, logistic_regression, ziln), float64 [5, bins], the
        predictions and the sums of `objectives.deciles`: `deciles`, ten parts of equal weight,
        ordered by prediction, with weight, prediction, label, residual (label minus prediction)
        and root_mean_squared_error.
      - `confusion` (multi_class with up to 50 classes): `matrix`, whose rows are labels.
      - `by_class` (multi_label, multi_class with more classes): `labels`, `predictions`, `hits`.
      - `coverage` (quantile): `weight`, `covered`, the share of labels up to each quantile.
      - `similarity` (cosine): `weight` in 40 bins from -1 to 1.
      - `survival`: for each boundary, `observed`, the share that survives it (Kaplan & Meier, 1958,
        with the intervals of the head), `predicted`, the mean prediction, and `watched`, the weight
        of the rows that were watched in the interval before it.
      - `list_length` (ranking): `rows`, the largest length of each part; `weight`, `loss`.

    Raises:
      KeyError: the kind is unknown.
    """
    return {"kind": kind, **_KINDS[kind](np.asarray(total, np.float64))}


def write(
    model_dir: str, step: int, curves: Mapping[str, Mapping[str, Any]], name: str = ""
) -> str:
    """Writes the curves of an evaluation. Replaces an existing file of the same step.

    Args:
      model_dir: the model directory.
      step: the global step of the checkpoint.
      curves: the curves by objective, as `curve` returns them.
      name: the name of a separate evaluation (`--eval_name`), or "" in a training.
    """
    file = f"{step}-{name}.json" if name else f"{step}.json"
    path = os.path.join(model_dir, _FOLDER, file)
    documents.write_json(path, {"global_step": step, "objectives": dict(curves)})
    return path


def read(model_dir: str) -> dict[int, dict[str, Any]]:
    """Returns `{step: {objective: curve}}` of the evaluations of a training, ordered by step.

    Raises:
      ConfigError: a file has other content.
    """
    folder = os.path.join(model_dir, _FOLDER)
    found = {}
    for file in tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else ():
        step, extension = os.path.splitext(file)
        if extension == ".json" and step.isdecimal():
            value = storage.read_json(os.path.join(folder, file), _File)
            found[int(step)] = value["objectives"] if value is not None else {}
    return dict(sorted(found.items()))


def precision_recall(table: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Counts of a binary objective at thresholds on the probability.

    Args:
      table: float64 [3, bins], the total of the kind `histogram`.
      thresholds: [n], from 0 to 1. A row counts as positive if its probability is above it.

    Returns:
      float64 [6, n]: the weights of true positives, false positives, true negatives and false
      negatives; precision, 0 if nothing is above the threshold; and recall, 0 without positives.
    """
    below = np.concatenate([np.zeros((2, 1)), np.cumsum(table[1:], axis=1)], axis=1)
    with np.errstate(divide="ignore"):
        logits = np.log(thresholds) - np.log1p(-thresholds)
    edge = np.searchsorted(table[0], logits, side="right")
    fn, tn = below[:, edge]
    tp, fp = below[:, -1:] - below[:, edge]
    precision = np.divide(tp, tp + fp, out=np.zeros_like(tp), where=tp + fp > 0)
    recall = np.divide(tp, tp + fn, out=np.zeros_like(tp), where=tp + fn > 0)
    return np.stack([tp, fp, tn, fn, precision, recall])


class _File(storage.Form):
    global_step: int
    objectives: dict[str, dict[str, Any]]


def _binary(table: np.ndarray) -> dict[str, Any]:
    logits, positives, negatives = table
    logits = np.clip(logits, *_FINITE)
    # The weight from each logit upwards, starting with the highest logit.
    above = np.cumsum(table[1:, ::-1], axis=1)
    chosen = _evenly(above)
    points = {
        "logit": logits[::-1][chosen].tolist(),
        "positives": above[0][chosen].tolist(),
        "negatives": above[1][chosen].tolist(),
    }
    predictions = np.exp(-np.logaddexp(0, -logits))
    weight = positives + negatives
    return {
        "weight": {"positives": float(positives.sum()), "negatives": float(negatives.sum())},
        "points": points,
        "reliability": _parts(
            weight,
            RELIABILITY_BINS,
            {"prediction": predictions * weight, "label": positives},
        ),
    }


def _evenly(above: np.ndarray) -> np.ndarray:
    """The positions between which the shares of positives and negatives grow equally."""
    if not above.size:
        return np.zeros(0, int)
    totals = np.where(above[:, -1:] > 0, above[:, -1:], 1)
    grown = (above / totals).sum(axis=0)
    wanted = np.linspace(0, grown[-1], POINTS)
    return np.unique(np.searchsorted(grown, wanted).clip(0, len(grown) - 1))


def _parts(
    weight: np.ndarray, parts: int, sums: Mapping[str, np.ndarray]
) -> dict[str, list[float]]:
    """Joins neighboring bins to parts of about equal weight: weights, and means of the sums."""
    total = weight.sum()
    if total == 0:
        return {"weight": [], **{name: [] for name in sums}}
    middle = np.cumsum(weight) - weight / 2
    part = np.minimum((middle / total * parts).astype(int), parts - 1)
    kept = np.bincount(part, weight, parts) > 0
    weights = np.bincount(part, weight, parts)[kept]
    means = {name: np.bincount(part, s, parts)[kept] / weights for name, s in sums.items()}
    return {"weight": weights.tolist(), **{name: m.tolist() for name, m in means.items()}}


def _deciles(totals: np.ndarray) -> dict[str, Any]:
    sums = dict(zip(deciles.SUMS, totals[1:]))
    weight = sums.pop("weight")
    means = _parts(weight, 10, sums)
    errors = means.pop("squared_error")
    return {
        "deciles": {
            **means,
            "residual": [y - p for y, p in zip(means["label"], means["prediction"])],
            "root_mean_squared_error": np.sqrt(errors).tolist(),
        }
    }


def _by_class(totals: np.ndarray) -> dict[str, Any]:
    labels, predictions, hits = totals.tolist()
    return {"labels": labels, "predictions": predictions, "hits": hits}


def _coverage(totals: np.ndarray) -> dict[str, Any]:
    weight = float(totals[0])
    covered: Sequence[float] = (totals[1:] / weight).tolist() if weight else []
    return {"weight": weight, "covered": covered}


def _survival(totals: np.ndarray) -> dict[str, Any]:
    watched, ended, predicted, weight = totals
    hazards = np.divide(ended, watched, out=np.zeros_like(ended), where=watched > 0)
    means = np.divide(predicted, weight, out=np.zeros_like(predicted), where=weight > 0)
    return {
        "watched": watched.tolist(),
        "observed": np.cumprod(1 - hazards).tolist(),
        "predicted": means.tolist(),
    }


def _list_length(totals: np.ndarray) -> dict[str, Any]:
    weight, loss = totals
    kept = weight > 0
    rows = 2 ** (np.flatnonzero(kept) + 1)
    return {
        "rows": rows.tolist(),
        "weight": weight[kept].tolist(),
        "loss": (loss[kept] / weight[kept]).tolist(),
    }


_KINDS = {
    "histogram": _binary,
    "by_prediction": _deciles,
    "confusion": lambda totals: {"matrix": totals.tolist()},
    "by_class": _by_class,
    "coverage": _coverage,
    "similarity": lambda totals: {"weight": totals.tolist()},
    "list_length": _list_length,
    "survival": _survival,
}
