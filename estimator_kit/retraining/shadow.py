"""How far apart the answers of candidate and live model to logged requests are.

    metric               of what                             the mean over
    shadow_difference    abs(candidate - live), as served    rows
    shadow_order         pairs of rows whose order differs   requests of two rows or more
    shadow_top_k         the top k that is not in both       requests of more than k rows

Served scores are probabilities where the head has them. In a row with several numbers, the largest
difference counts. Two rows are in another order if one model puts the first row above, and the
other one below or level. Of rows with equal scores, the first ones are in the top k. Each request
counts the same, however many rows it has.

    logits, two requests    candidate 0 1 2 | 5 4    live 0 2 1 | 5 4
    shadow_order            (1/3 + 0/1) / 2 = 0.167
    shadow_top_k, k = 1     (1/1 + 0/1) / 2 = 0.5

This module uses neither TensorFlow nor the disk. `shadow_requests` asks the models.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

# How many rows of a request are compared at a time with all its rows.
_BLOCK = 256


class Distance(NamedTuple):
    """A metric of this module: its value, NaN if it is undefined, and how many rows it is of."""

    value: float
    rows: int


@dataclasses.dataclass(frozen=True)
class Shadow:
    """The answers of two models to the same requests.

    Attributes:
      requests: the number of the request of each row, [rows].
      candidate, live: the outputs by objective as `row_metric` takes them, [rows] or [rows, n].
      logits: the objectives whose outputs are logits.
      top_k: k of `shadow_top_k`.
      problem: why the models could not be compared, and the rows are missing.
      note: which requests they are.
    """

    requests: NDArray[Any]
    candidate: Mapping[str, NDArray[Any]]
    live: Mapping[str, NDArray[Any]]
    logits: frozenset[str] = frozenset()
    top_k: int = 10
    problem: Optional[str] = None
    note: str = ""


def problem(why: str) -> Shadow:
    """What is known if the models could not be compared."""
    return Shadow(np.zeros(0, np.int64), {}, {}, problem=why)


def measure(name: str, objective: str, shadow: Shadow) -> Distance:
    """A metric of an objective that both models answer.

    Args:
      name: one of `SHADOW_METRICS`.
      objective: the objective.
      shadow: the answers.
    """
    candidate, live = shadow.candidate[objective], shadow.live[objective]
    if name == "shadow_difference":
        if objective in shadow.logits:
            candidate, live = _sigmoid(candidate), _sigmoid(live)
        apart = np.abs(candidate.astype(np.float64) - live).reshape(len(candidate), -1)
        return Distance(float(apart.max(axis=1).mean()) if len(apart) else math.nan, len(apart))
    shares, rows = [], 0
    for of_request in _requests(shadow.requests):
        if name == "shadow_top_k":
            share = _other_top(candidate[of_request], live[of_request], shadow.top_k)
        else:
            share = _other_order(candidate[of_request], live[of_request])
        if not math.isnan(share):
            shares.append(share)
            rows += len(of_request)
    return Distance(float(np.mean(shares)) if shares else math.nan, rows)


def _requests(numbers: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The rows of each request, in their order."""
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order])) + 1
    yield from np.split(order, starts)


def _other_order(candidate: NDArray[Any], live: NDArray[Any]) -> float:
    """The share of pairs whose order differs; NaN with fewer than two rows."""
    rows, other = len(candidate), 0
    for start in range(0, rows, _BLOCK):
        part = slice(start, start + _BLOCK)
        signs = (np.sign(own[part, None] - own[None, :]) for own in (candidate, live))
        other += int(np.not_equal(*signs).sum())  # Each pair twice, a row with itself never.
    return other / (rows * (rows - 1)) if rows > 1 else math.nan


def _other_top(candidate: NDArray[Any], live: NDArray[Any], k: int) -> float:
    """The share of the top k of one model that the other one's top k lacks; NaN up to k rows."""
    if len(candidate) <= k:
        return math.nan
    first, second = (np.argsort(-own, kind="stable")[:k] for own in (candidate, live))
    return 1 - len(np.intersect1d(first, second)) / k


def _sigmoid(logits: NDArray[Any]) -> NDArray[Any]:
    values: NDArray[Any] = np.exp(-np.logaddexp(0, -logits.astype(np.float64)))
    return values
