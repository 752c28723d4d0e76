"""The metrics that an objective of a spec can add to the metrics that its head always reports.

    metrics: [log_loss, {recall_at_precision: 0.9}, {ndcg: 10}]

`estimator_kit.model.heads` defines and computes them. This module does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, Optional, Union

import pydantic

from feature_specs.errors import did_you_mean, value_text

# Metrics that are computed within groups: the rows with one value of the feature `group_by`.
BY_GROUP = ("gauc", "mrr", "ndcg", "hit_rate")

_SHARES = ("recall_at_precision", "precision_at_recall")  # They take a number between 0 and 1.
# They take an integer of 1 or more.
_COUNTS = ("top_k_accuracy", "ndcg", "hit_rate", "recall", "coverage", "popularity_lift")


class MetricChoice(NamedTuple):
    """A metric and its number, or None for a metric without a number."""

    name: str
    value: Optional[Union[int, float]] = None

    @property
    def label(self) -> str:
        """Its name among the metrics of a run, such as `ndcg_at_10`."""
        if self.name == "top_k_accuracy":
            return f"top_{self.value}_accuracy"
        if self.name in _SHARES:
            return f"{self.name}_{self.value:g}"
        return self.name if self.value is None else f"{self.name}_at_{self.value}"


# As a spec writes it.
Written = Union[str, dict[str, Union[int, float]]]


def choice(written: Written) -> MetricChoice:
    """Converts an item of `metrics`, which must already be checked."""
    if isinstance(written, str):
        return MetricChoice(written)
    ((name, value),) = written.items()
    return MetricChoice(name, value)


def _check(item: Any, names: tuple[str, ...]) -> Written:
    mapping = isinstance(item, dict) and len(item) == 1
    name = next(iter(item)) if mapping else item
    if not isinstance(name, str) or name not in names:
        raise ValueError(
            f"got {value_text(item)}, expected a metric of this head{did_you_mean(name, names)}"
        )
    value = item[name] if mapping else None
    if name in _SHARES:
        good = isinstance(value, float) and 0 < value < 1
        expected = f"a number between 0 and 1, as in {{{name}: 0.9}}"
    elif name in _COUNTS:
        good = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        expected = f"an integer of 1 or more, as in {{{name}: 10}}"
    else:
        good, expected = not mapping, f"{name} without a number"
    if not good:
        raise ValueError(f"got {value_text(item)}, expected {expected}")
    return item


def _checked(names: tuple[str, ...]) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"got {value_text(value)}, expected a list of metrics")
        items = tuple(_check(item, names) for item in value)
        labels = [choice(item).label for item in items]
        for i, label in enumerate(labels):
            if label in labels[:i]:
                raise ValueError(f"metric {label!r} is listed twice. Remove one of them.")
        return items

    return check


class _JsonSchema:
    def __init__(self, names: tuple[str, ...]):
        self._names = names

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        plain = [name for name in self._names if name not in (*_SHARES, *_COUNTS)]
        items: list[dict[str, Any]] = [{"enum": plain}] if plain else []
        for name in self._names:
            number: dict[str, Any] = {}
            if name in _SHARES:
                number = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
            elif name in _COUNTS:
                number = {"type": "integer", "minimum": 1}
            if number:
                items.append(
                    {
                        "type": "object",
                        "additionalProperties": False,
                        "required": [name],
                        "properties": {name: number},
                    }
                )
        return {"type": "array", "items": {"anyOf": items}, "uniqueItems": True}


def metrics_of(*names: str) -> Any:
    """The type of a field that lists some of these metrics."""
    return Annotated[tuple[Any, ...], pydantic.BeforeValidator(_checked(names)), _JsonSchema(names)]
