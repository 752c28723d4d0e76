"""Shared by the benchmarks: measures two ways of doing the same in turn, and prints their ratio.

The benchmarks print one JSON line for each measurement: `{"name", "unit", "ours", "peer",
"ratio"}`. A ratio above 1 means that ours is better. Both sides run in one process, interleaved (A
B A B ...), and the median of the rounds counts, so other work on the machine affects both. Run
nothing else.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable


def compare(
    name: str,
    ours: Callable[[], float],
    peer: Callable[[], float],
    *,
    rounds: int,
    unit: str,
    less_is_better: bool = False,
) -> None:
    """Measures both `rounds` times in turn, after one round that is not counted, and prints."""
    measured: tuple[list[float], list[float]] = ([], [])
    for round_ in range(rounds + 1):
        for values, measure in zip(measured, (ours, peer)):
            value = measure()
            if round_:
                values.append(value)
    report(name, *(statistics.median(values) for values in measured), unit, less_is_better)


def report(name: str, ours: float, peer: float, unit: str, less_is_better: bool = False) -> None:
    """Prints one measurement."""
    ratio = peer / ours if less_is_better else ours / peer
    line = {"name": name, "unit": unit, "ours": _rounded(ours), "peer": _rounded(peer)}
    print(json.dumps({**line, "ratio": round(ratio, 2)}), flush=True)


def _rounded(value: float) -> float:
    return round(value) if value >= 100 else float(f"{value:.3g}")
