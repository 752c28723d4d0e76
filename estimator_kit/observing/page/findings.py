"""`Look at this`: sentences that the numbers of a run justify. Each rule is a function.

    for sentence in findings(numbers): ...

A rule returns nothing if its numbers are missing, or if a difference could be random. The error of
a count is its square root (Poisson), and a rule does not report a difference below two or three
errors. Rules read numbers and never change them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, Optional

from estimator_kit.config.areas.training import Training
from estimator_kit.exporters.best import has_stalled
from estimator_kit.observing.curves import Histogram, Labels
from estimator_kit.observing.page.numbers import Numbers
from estimator_kit.result import EARLY_STOPPED
from feature_specs.errors import counted
from feature_specs.heads import METRICS

FEW_POSITIVES = 100
# The least difference from 1 that is reported, if it also exceeds three errors of the count.
_CALIBRATION = 0.1
# The least share of items outside of the catalogue that is reported.
_UNKNOWN_ITEMS = 0.01
_LARGE_TABLE, _LITTLE_IMPORTANCE = 0.95, 0.01
_WAITING = 0.5
_LEAST_EVALUATIONS = 3
_PATIENCE = Training.model_fields["early_stopping_patience"].default
_DROPOUT = 0.3


class Finding(NamedTuple):
    """One sentence, and the name of the rule that found it."""

    rule: str
    text: str


def findings(numbers: Numbers) -> list[Finding]:
    """All sentences about a run, the most serious first."""
    return [Finding(rule.__name__.strip("_"), text) for rule in _RULES for text in rule(numbers)]


def main_metric(numbers: Numbers, objective: str) -> tuple[str, str]:
    """The metric by which an objective is judged, and `max` or `min`."""
    for choice in numbers.spec.objectives[objective].main:
        # Instead of an error, the page follows the loss, which training minimizes.
        if choice.kind.better == "max" and f"{choice.label}/{objective}" in numbers.metrics:
            return f"{choice.label}/{objective}", "max"
    return f"loss/{objective}", "min"


def best(numbers: Numbers, metric: str, direction: str) -> Optional[tuple[int, float]]:
    """(step, value) of the best evaluation."""
    series = numbers.series(metric)
    if not series:
        return None
    return (max if direction == "max" else min)(series, key=lambda pair: pair[1])


def _calibration(numbers: Numbers) -> Iterator[str]:
    for objective, entry in numbers.spec.objectives.items():
        if not entry.calibrated:
            continue
        value = numbers.metrics.get(f"calibration/{objective}")
        weight = _weight(numbers, objective)
        if value is None or not math.isfinite(value) or not weight or not weight.positives:
            continue
        error = 1 / math.sqrt(weight.positives)
        if abs(value - 1) > max(_CALIBRATION, 3 * error * value):
            more = "higher" if value > 1 else "lower"
            yield (
                f"{objective}: predictions are {abs(value - 1):.0%} {more} than the labels of the "
                f"evaluation (calibration {value:.2f}, expected 1 ± {2 * error:.2f}). Check that "
                "training and evaluation files have labels from the same source and similar days. "
                "If calibration gets worse with each evaluation, train for fewer steps."
            )


def _unknown_items(numbers: Numbers) -> Iterator[str]:
    for objective in numbers.spec.objectives:
        share = numbers.metrics.get(f"unknown_item_share/{objective}")
        if share is not None and share >= _UNKNOWN_ITEMS:
            yield (
                f"{objective}: {share:.1%} of the evaluated items are not in the catalogue, so the "
                "model cannot predict them, and they count as misses. Make the vocabulary of items "
                "from newer files, or with a smaller --min_count."
            )


def _overfitting(numbers: Numbers) -> Iterator[str]:
    for objective in numbers.spec.objectives:
        main, direction = main_metric(numbers, objective)
        worse = _worse_since(numbers, objective, main, direction)
        loss = f"loss/{objective}"
        by_loss = _worse_since(numbers, objective, loss, "min") if loss != main else None
        if worse is None and by_loss is None:
            continue
        if worse is not None:
            also = f", and {by_loss}" if by_loss is not None else ""
            what = f"{worse}{also}. The model has overfitted since then."
        elif by_loss is not None:
            what = (
                f"{by_loss}. {main} did not get worse in these steps, so the model has "
                "overfitted in its probabilities, not in its order of the rows."
            )
        metric = main if worse is not None else loss
        better = direction if worse is not None else "min"
        yield f"{objective}: {what} {_remedy(numbers, metric, better)}"


def _worse_since(numbers: Numbers, objective: str, metric: str, direction: str) -> Optional[str]:
    """Since which step a metric got worse, and by how much.

    None if the model whose metrics are reported is not clearly worse than an earlier one.
    """
    peak, series = best(numbers, metric, direction), numbers.series(metric)
    end = _judged_step(numbers)
    later = [(step, value) for step, value in series if peak is not None and peak[0] < step <= end]
    if peak is None or len(later) < 2:  # One evaluation after the best one may be chance.
        return None
    step, value = later[-1]
    if abs(peak[1] - value) <= _error(numbers, objective, metric, peak[1]):
        return None
    when = "now" if step == series[-1][0] else f"at step {step:,}, whose model is the best one"
    return f"{metric} was best at step {peak[0]:,} ({peak[1]:.4f}) and is {value:.4f} {when}"


def _judged_step(numbers: Numbers) -> int:
    """The step of the model that a training offers: after an early stop, the best one."""
    result, last = numbers.result, numbers.evaluations[-1][0] if numbers.evaluations else 0
    early = result.stop_reason == EARLY_STOPPED and result.best is not None
    return result.best.global_step if early and result.best is not None else last


def _remedy(numbers: Numbers, metric: str, direction: str) -> str:
    """What to do about overfitting, with what early stopping would have done."""
    series = numbers.series(metric)
    for count in range(1, len(series) + 1):
        values = [value for _, value in series[:count]]
        if has_stalled(values, direction, patience=_PATIENCE):
            stop = f" would have stopped at step {series[count - 1][0]:,}"
            break
    else:
        stop = " would stop a longer training"
    remedies = [f"--early_stopping_metric={metric} --early_stopping_patience={_PATIENCE}{stop}."]
    rate = numbers.params.get("dropout")
    if isinstance(rate, (int, float)) and rate < _DROPOUT:
        was = f" (it was {rate:g})" if rate else ""
        remedies.append(f"--model_params=dropout={_DROPOUT}{was} makes a network overfit later.")
    return " ".join([*remedies, _export(numbers, metric)])


def _few_evaluations(numbers: Numbers) -> Iterator[str]:
    count = len(numbers.evaluations)
    if 0 < count < _LEAST_EVALUATIONS:
        yield (
            f"The training has only {counted(count, 'evaluation')}, so the learning "
            "curves cannot show whether the model still improves. Evaluate more often with a "
            "smaller --save_checkpoints_steps."
        )


def _few_positives(numbers: Numbers) -> Iterator[str]:
    for objective in numbers.spec.objectives:
        weight = _weight(numbers, objective)
        if weight is not None and weight.positives < FEW_POSITIVES:
            yield (
                f"{objective}: the evaluation has only {weight.positives:,.0f} positive rows, so "
                "its metrics vary a lot. Evaluate on more rows."
            )


def _weak_slices(numbers: Numbers) -> Iterator[str]:
    for objective, slices in (numbers.slices.objectives if numbers.slices else {}).items():
        overall = slices.overall.value
        if overall is None:
            continue
        for part in slices.slices:
            low, high, value = part.low, part.high, part.metric
            if low is None or high is None or value is None:
                continue
            larger = METRICS[slices.metric].better == "max"
            if high < overall if larger else low > overall:
                side = "below" if larger else "above"
                yield (
                    f"{objective}: {slices.metric} of {part.feature}={part.value} is "
                    f"{value:.4f} (95 % interval {low:.4f} to {high:.4f}), {side} "
                    f"{overall:.4f} for all rows."
                )


def _no_effect(numbers: Numbers) -> Iterator[str]:
    dead = [
        feature
        for feature, by_objective in _importance(numbers).items()
        if by_objective and all(mean <= 2 * spread for mean, spread in by_objective.values())
    ]
    if dead:
        names = ", ".join(dead)
        verb = "has" if len(dead) == 1 else "have"
        yield (
            f"{names} {verb} no measurable effect on the evaluation. A feature that shares its "
            "information with another feature can look like this too. Try a training without it."
        )


def _undefined_importance(numbers: Numbers) -> Iterator[str]:
    measurement, importance = numbers.importance, _importance(numbers)
    if measurement is None or not importance:
        return
    for objective, metric in measurement.metrics.items():
        if not any(objective in each for each in importance.values()):
            yield (
                f"{objective}: the importance of features is undefined, because {metric} of the "
                f"{measurement.rows:,} rows that it was measured on is. Mix the rows of the "
                "evaluation files."
            )


def _idle_tables(numbers: Numbers) -> Iterator[str]:
    weights = [table for table in numbers.tables if not table.is_slot]
    total = sum(table.parameters for table in weights)
    importance = _importance(numbers)
    sums = {
        feature: sum(max(0.0, mean) for mean, _ in by_objective.values())
        for feature, by_objective in importance.items()
    }
    total_importance = sum(sums.values())
    for table in weights[:3]:
        feature = _feature_of(numbers, table.name)
        if not total_importance or feature is None or table.parameters < _LARGE_TABLE * total:
            continue
        if sums.get(feature, total_importance) < _LITTLE_IMPORTANCE * total_importance:
            yield (
                f"{table.name} holds {table.parameters / total:.0%} of the parameters, and its "
                f"feature {feature} has {sums[feature] / total_importance:.1%} of the importance. "
                "Try a smaller table."
            )


def _slow_input(numbers: Numbers) -> Iterator[str]:
    profile = numbers.result.input_profile
    share = profile.share_waiting
    if share is not None and share > _WAITING:
        yield (
            f"Training waits for its input {share:.0%} of the time. The busiest stage is "
            f"{profile.busiest}: {profile.advice}."
        )


_RULES: tuple[Callable[[Numbers], Iterator[str]], ...] = (
    _calibration,
    _unknown_items,
    _overfitting,
    _weak_slices,
    _no_effect,
    _undefined_importance,
    _idle_tables,
    _few_positives,
    _few_evaluations,
    _slow_input,
)


def _weight(numbers: Numbers, objective: str) -> Optional[Labels]:
    """The weights of both labels in the last evaluation."""
    last = numbers.curves.get(max(numbers.curves, default=0), {}).get(objective)
    return last.weight if isinstance(last, Histogram) else None


def _error(numbers: Numbers, objective: str, metric: str, value: float) -> float:
    """How much a metric varies from one evaluation to the next on the same rows.

    For an AUC, it is a third of the standard error (Hanley & McNeil, Radiology 143, 1982), because
    both evaluations use the same rows. For other metrics, it is 1 % of the value.
    """
    weight = _weight(numbers, objective)
    if not metric.startswith("auc/") or weight is None:
        return abs(value) * 0.01
    p, n = weight.positives, weight.negatives
    if not p or not n:
        return math.inf
    q1, q2 = value / (2 - value), 2 * value**2 / (1 + value)
    variance = (value * (1 - value) + (p - 1) * (q1 - value**2) + (n - 1) * (q2 - value**2)) / (
        p * n
    )
    return math.sqrt(max(variance, 0.0)) / 3


def _export(numbers: Numbers, metric: str) -> str:
    exports = numbers.result.exports
    if "best" in exports:
        return f"The export of the best evaluation is {exports['best']}."
    return f"Write the best export with --exporters=best --best_metric={metric}, or stop earlier."


def _importance(numbers: Numbers) -> dict[str, dict[str, tuple[float, float]]]:
    """The mean and the spread of each feature, by objective, where they are defined."""
    features = numbers.importance.features if numbers.importance else {}
    return {
        name: {key: each.values for key, each in by_objective.items() if each.values is not None}
        for name, by_objective in features.items()
    }


def _feature_of(numbers: Numbers, variable: str) -> Optional[str]:
    spec = numbers.spec
    for name, column in spec.columns.items():
        if f"/{column.canned_name(spec, name)}/" in f"/{variable}/":
            sources = sorted(set(column.features(spec)))
            return sources[0] if len(sources) == 1 else None
    return None
