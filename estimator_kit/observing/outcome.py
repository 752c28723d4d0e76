"""The first lines about a training: how good its best model is, and which model that is.

    first_lines(result)
    # ["best evaluation: auc/click 0.7604 (test 0.7550) at step 200, SavedModel best",
    #  "last evaluation: auc/click 0.7512 (test 0.7480) at step 342, SavedModel final"]

The console and the report page begin with them. Imports no TensorFlow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Optional

from estimator_kit.result import EvalSet, RunResult

# The exporters whose newest export is of the last step.
_OF_THE_END = ("latest", "final")


def first_lines(result: RunResult) -> list[str]:
    """One or two lines; none if the training has no evaluation with --best_metric."""
    best = result.best
    if best is None:
        return []
    step, last = best.global_step, result.global_step
    of_best = [name for name in result.exports if name == "best"]
    of_end = [name for name in result.exports if name in _OF_THE_END]
    numbers = numbers_of(best.metric, best.metrics, best.eval_sets)
    if last is None or step == last:
        return [f"best evaluation: {numbers} at step {step:,}, the last one{_exports(result)}"]
    lines = [f"best evaluation: {numbers} at step {step:,}{_named(of_best)}"]
    if result.metrics.get("global_step") == last and result.metrics.get(best.metric) is not None:
        of_last = numbers_of(best.metric, result.metrics, result.eval_sets)
        lines.append(f"last evaluation: {of_last} at step {last:,}{_named(of_end)}")
    elif of_end:
        lines.append(f"last step: {last:,}{_named(of_end)}")
    return lines


def numbers_of(
    metric: str, metrics: Mapping[str, Optional[float]], sets: Mapping[str, EvalSet]
) -> str:
    """A metric, and in parentheses its values on the other evaluation sets."""
    others = [f"{name} {in_words(each.metrics.get(metric))}" for name, each in sets.items()]
    more = f" ({', '.join(others)})" if others else ""
    return f"{metric} {in_words(metrics.get(metric))}{more}"


def _exports(result: RunResult) -> str:
    return _named([name for name in result.exports if name in ("best", *_OF_THE_END)])


def _named(exports: list[str]) -> str:
    if not exports:
        return ""
    return f", SavedModel{'s' if len(exports) > 1 else ''} {' and '.join(exports)}"


def in_words(value: Optional[float]) -> str:
    """The text of a metric in a sentence. None is NaN there, as in `result.json`."""
    return number(math.nan if value is None else value)


def number(value: Optional[float]) -> str:
    """The text of a metric in a table: empty for None, which an evaluation does not have.

    It has four digits after the point, one from 1000, and none in whole thousands.
    """
    if value is None:
        return ""
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "infinite"
    if abs(value) < 1000:
        return f"{value:.4f}"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
