"""The numbers of one evaluation that the report page draws: `observed/curves/<step>.json`.

    path = curves.write(model_dir, step, {"click": curves.curve("histogram", totals)})
    by_step = curves.read(model_dir)

An evaluation returns one array for each objective (`streaming.observe`). `curve` reduces it
to at most 200 points, so a file has only a few KB for any number of rows. A file contains
aggregates, never rows. This module builds no graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal, Optional, Union

import numpy as np
import pydantic
import tensorflow as tf

from estimator_kit.model.heads import score_bins
from feature_specs.files import documents

POINTS = 200  # Points of a ROC curve. Its area has an error of at most 0.0005.
RELIABILITY_BINS = 20
_FINITE = (float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))
_FOLDER = os.path.join("observed", "curves")

# Numbers that are undefined or infinite are None in a file.
_Floats = Sequence[Optional[float]]


class Labels(documents.Part):
    """The weights of the rows of both labels."""

    positives: float
    negatives: float


class Points(documents.Part):
    """Thresholds, with the weights of the rows whose logit is at least the threshold.

    The logits fall, so the weights rise.
    """

    logit: list[float]
    positives: list[float]
    negatives: list[float]


class Reliability(documents.Part):
    """20 parts of equal weight: their mean prediction and label."""

    weight: list[float]
    prediction: list[float]
    label: list[float]


class Histogram(documents.Part):
    """Of binary. Its array is float64 [3, bins]: logits, weights of their positives, negatives."""

    kind: Literal["histogram"]
    weight: Labels
    points: Points
    reliability: Reliability


class Deciles(documents.Part):
    """Ten parts of equal weight, ordered by prediction; residual is label minus prediction."""

    weight: list[float]
    prediction: _Floats
    label: _Floats
    residual: _Floats
    root_mean_squared_error: _Floats


class ByPrediction(documents.Part):
    """Of regression, poisson, logistic_regression and ziln.

    Its array is float64 [5, bins]: predictions, and the sums of `objectives.deciles`.
    """

    kind: Literal["by_prediction"]
    deciles: Deciles


class Confusion(documents.Part):
    """Of multi_class with up to 50 classes. The rows of the matrix are labels."""

    kind: Literal["confusion"]
    matrix: list[list[float]]


class ByClass(documents.Part):
    """Of multi_label, and of multi_class with more classes."""

    kind: Literal["by_class"]
    labels: list[float]
    predictions: list[float]
    hits: list[float]


class Coverage(documents.Part):
    """Of quantile: the share of labels up to each quantile."""

    kind: Literal["coverage"]
    weight: float
    covered: list[float]


class Similarity(documents.Part):
    """Of cosine: the weights of 40 bins from -1 to 1."""

    kind: Literal["similarity"]
    weight: list[float]


class Survival(documents.Part):
    """Of survival, for each boundary.

    Attributes:
      observed: the share that survives it (Kaplan & Meier, 1958, with the intervals of the head).
      predicted: the mean prediction.
      watched: the weight of the rows that were watched in the interval before it.
    """

    kind: Literal["survival"]
    watched: list[float]
    observed: _Floats
    predicted: _Floats


class ListLength(documents.Part):
    """Of ranking; `rows` is the largest length of each part."""

    kind: Literal["list_length"]
    rows: list[int]
    weight: list[float]
    loss: _Floats


Curve = Annotated[
    Union[
        Histogram, ByPrediction, Confusion, ByClass, Coverage, Similarity, Survival, ListLength
    ],
    pydantic.Field(discriminator="kind"),
]  # fmt: skip


class Curves(documents.Document):
    """A file: the curves of an evaluation by objective."""

    global_step: int
    objectives: dict[str, Curve]


def curve(kind: str, total: np.ndarray) -> Curve:
    """The numbers to keep from an array, which depend on its kind.

    Raises:
      KeyError: the kind is unknown.
    """
    return _KINDS[kind](np.asarray(total, np.float64))


def write(model_dir: str, step: int, curves: Mapping[str, Curve], name: str = "") -> str:
    """Writes the curves of an evaluation. Replaces an existing file of the same step.

    Args:
      model_dir: the model directory.
      step: the global step of the checkpoint.
      curves: the curves by objective, as `curve` returns them.
      name: the name of a separate evaluation (`--eval_name`), or "" in a training.
    """
    file = f"{step}-{name}.json" if name else f"{step}.json"
    path = os.path.join(model_dir, _FOLDER, file)
    Curves(global_step=step, objectives=dict(curves)).save(path)
    return path


def read(model_dir: str) -> dict[int, dict[str, Curve]]:
    """Returns `{step: {objective: curve}}` of the evaluations of a training, ordered by step.

    Raises:
      ConfigError: a file has other content.
    """
    folder = os.path.join(model_dir, _FOLDER)
    curves = {}
    for file in tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else ():
        step, extension = os.path.splitext(file)
        if extension == ".json" and step.isdecimal():
            kept = Curves.load(os.path.join(folder, file))
            curves[int(step)] = kept.objectives if kept is not None else {}
    return dict(sorted(curves.items()))


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


def _binary(table: np.ndarray) -> Histogram:
    logits, positives, negatives = table
    logits = np.clip(logits, *_FINITE)
    # The weight from each logit upwards, starting with the highest logit.
    above = np.cumsum(table[1:, ::-1], axis=1)
    chosen = _evenly(above)
    predictions = np.exp(-np.logaddexp(0, -logits))
    weight = positives + negatives
    sums = {"prediction": predictions * weight, "label": positives}
    return Histogram(
        kind="histogram",
        weight=Labels(positives=float(positives.sum()), negatives=float(negatives.sum())),
        points=Points(
            logit=logits[::-1][chosen].tolist(),
            positives=above[0][chosen].tolist(),
            negatives=above[1][chosen].tolist(),
        ),
        reliability=Reliability(**_parts(weight, RELIABILITY_BINS, sums)),
    )


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


def _deciles(totals: np.ndarray) -> ByPrediction:
    sums = dict(zip(score_bins.SUMS, totals[1:]))
    weight = sums.pop("weight")
    means = _parts(weight, 10, sums)
    errors = means.pop("squared_error")
    residual = [y - p for y, p in zip(means["label"], means["prediction"])]
    root = np.sqrt(errors).tolist()
    return ByPrediction(
        kind="by_prediction",
        deciles=Deciles(**means, residual=residual, root_mean_squared_error=root),
    )


def _by_class(totals: np.ndarray) -> ByClass:
    labels, predictions, hits = totals.tolist()
    return ByClass(kind="by_class", labels=labels, predictions=predictions, hits=hits)


def _coverage(totals: np.ndarray) -> Coverage:
    weight = float(totals[0])
    covered = (totals[1:] / weight).tolist() if weight else []
    return Coverage(kind="coverage", weight=weight, covered=covered)


def _survival(totals: np.ndarray) -> Survival:
    watched, ended, predicted, weight = totals
    hazards = np.divide(ended, watched, out=np.zeros_like(ended), where=watched > 0)
    means = np.divide(predicted, weight, out=np.zeros_like(predicted), where=weight > 0)
    return Survival(
        kind="survival",
        watched=watched.tolist(),
        observed=np.cumprod(1 - hazards).tolist(),
        predicted=means.tolist(),
    )


def _list_length(totals: np.ndarray) -> ListLength:
    weight, loss = totals
    kept = weight > 0
    rows = 2 ** (np.flatnonzero(kept) + 1)
    return ListLength(
        kind="list_length",
        rows=rows.tolist(),
        weight=weight[kept].tolist(),
        loss=(loss[kept] / weight[kept]).tolist(),
    )


_KINDS: Mapping[str, Callable[[np.ndarray], Curve]] = {
    "histogram": _binary,
    "by_prediction": _deciles,
    "confusion": lambda totals: Confusion(kind="confusion", matrix=totals.tolist()),
    "by_class": _by_class,
    "coverage": _coverage,
    "similarity": lambda totals: Similarity(kind="similarity", weight=totals.tolist()),
    "list_length": _list_length,
    "survival": _survival,
}
