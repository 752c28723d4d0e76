"""Where a model stands among reference models, in words: for the console and the report page.

    headline(result)     # "auc/click is 0.8260 on 8,378 rows of --eval_files; ..."

Imports no TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Optional

from estimator_kit.observing.outcome import in_words
from estimator_kit.result import (
    EARLY_STOPPED,
    ComparedObjective,
    ReferenceModel,
    ReferenceModels,
    RunResult,
)

# How sentences name the reference models: before the value, and with the verb.
_NAMES = {
    "constant": ("a constant", "the constant is"),
    "linear": ("a linear model", "the linear model is"),
    "boosted_trees": ("gradient-boosted trees", "the trees are"),
}

COLUMNS = (
    "objective", "model", "metric", "value", "reference minus model", "95 % interval", "verdict",
)  # fmt: skip

_BETTER = {
    "reference": "the reference is better",
    "model": "your model is better",
    "none": "no difference to see",
}


class _Best(NamedTuple):
    """The best reference model of an objective."""

    name: str
    reference: ReferenceModel


def headline(result: RunResult, *, searched: bool = False) -> str:
    """One or two sentences for each objective; "" without reference models.

    Args:
      result: the result of the training.
      searched: whether a search chose the settings, so that another search must be longer.
    """
    compared = result.reference_models
    if compared is None:
        return ""
    if compared.error is not None:
        return f"No reference models: {compared.error}"
    objectives = compared.objectives.items()
    return " ".join(
        _sentences(result, compared, name, entry, searched) for name, entry in objectives
    )


def _sentences(
    result: RunResult, compared: ReferenceModels, name: str, entry: ComparedObjective,
    searched: bool,
) -> str:  # fmt: skip
    if entry.error is not None:
        return f"{name}: no reference models. {entry.error}"
    best = _best(entry)
    if best is None:
        errors = dict.fromkeys(reference.error for reference in entry.references.values())
        return f"{name}: no reference models. {' '.join(filter(None, errors))}"
    assert entry.metric is not None
    model, (noun, verb) = in_words(entry.model.get(entry.metric)), _NAMES[best.name]
    reference = best.reference
    value = in_words(reference.metrics[entry.metric])
    text = (
        f"{entry.metric}/{name} is {model} on {_rows(compared.eval_rows, compared.eval_rows_of)} "
        f"of {compared.eval_set}; {noun} on the same rows: {value}"
    )
    if reference.verdict == "none":
        return f"{text}, no difference to see ({_interval(reference)})."
    if reference.verdict == "undefined":
        return f"{text}. The rows are too few to compare them."
    text += f" ({_interval(reference)})"
    if reference.verdict == "model":
        return f"{text}: your model is better."
    return f"{text}: {verb} better. {_advice(result, best.name, searched)}"


def _advice(result: RunResult, name: str, searched: bool) -> str:
    """What to try when a reference model is better."""
    if name == "constant":
        return (
            "The model has learned nothing that helps on these rows. Check the labels, and that "
            "training and evaluation rows are alike; then try a smaller learning_rate."
        )
    longer = "" if result.stop_reason == EARLY_STOPPED else "more --epochs, "
    trees = ", or use trees for this table" if name == "boosted_trees" else ""
    if searched:
        return f"Try a longer search{trees}."
    return f"Try `estimator-kit tune --search=auto`, {longer}another --model{trees}."


def _best(entry: ComparedObjective) -> Optional[_Best]:
    """The reference model with the best value of the first metric.

    One that is better than the model comes before one with a better value of which it is not known.
    """
    assert entry.metric is not None
    values = {
        name: value
        for name, reference in entry.references.items()
        if (value := reference.metrics.get(entry.metric)) is not None and value == value
    }
    better = {n: v for n, v in values.items() if entry.references[n].verdict == "reference"}
    values = better or values
    if not values:
        return None
    name = (max if entry.larger_is_better else min)(values, key=lambda each: values[each])
    return _Best(name, entry.references[name])


def table(compared: ReferenceModels) -> list[list[str]]:
    """A row of COLUMNS for each metric of the model and of each reference model."""
    return [
        row for name, entry in compared.objectives.items() for row in _rows_of_table(name, entry)
    ]


def _rows_of_table(name: str, entry: ComparedObjective) -> Iterator[list[str]]:
    for metric, value in entry.model.items():
        yield [name, "your model", metric, in_words(value), "", "", ""]
    for model, reference in entry.references.items():
        if reference.error is not None:
            yield [name, model, "", "", "", "", reference.error]
        for metric, value in reference.metrics.items():
            first = metric == entry.metric
            yield [
                name, model, metric, in_words(value),
                _signed(reference.difference) if first else "",
                f"{_signed(reference.low)} to {_signed(reference.high)}" if first else "",
                _BETTER.get(reference.verdict, "") if first else "",
            ]  # fmt: skip


def rows_read(compared: ReferenceModels) -> str:
    """What the reference models learned from, and how long all of it took."""
    return (
        f"The reference models learned from {_rows(compared.train_rows, compared.train_rows_of)} "
        f"of --train_files. All of it took {compared.seconds:.1f} s."
    )


def lines(result: RunResult, *, searched: bool = False) -> list[str]:
    """The lines for the console; see `headline`."""
    compared = result.reference_models
    if compared is None:
        return []
    found = [headline(result, searched=searched)]
    for name, entry in compared.objectives.items():
        for model, reference in entry.references.items():
            if entry.metric is None:
                continue
            if reference.error is not None:
                found.append(f"  {name}, {model}: {reference.error}")
                continue
            better = _BETTER.get(reference.verdict, "undefined")
            value = in_words(reference.metrics.get(entry.metric))
            found.append(f"  {name}, {model}: {entry.metric} {value} ({better})")
    if compared.train_rows:
        found.append(f"  {rows_read(compared)}")
    return found


def _rows(read: int, of: int) -> str:
    return f"{read:,} rows" if read == of else f"{read:,} of the {of:,} rows"


def _interval(reference: ReferenceModel) -> str:
    return (
        f"reference minus model: {_signed(reference.difference)}, 95 % interval "
        f"{_signed(reference.low)} to {_signed(reference.high)}"
    )


def _signed(value: Optional[float]) -> str:
    sign = "+" if value is not None and value >= 0 else ""
    return f"{sign}{in_words(value)}"
