"""Checks of labels and objectives: each objective has its own label, which fits its head.

As in `validation`, the checks are generators of problems that do not stop each other. This module
does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

from feature_specs.errors import Path, Problem, unknown
from feature_specs.heads import Binary
from feature_specs.label import Label
from feature_specs.spec import FeatureSpec
from feature_specs.validation.validation import Problems


def check_labels(spec: FeatureSpec) -> Problems:
    """No label is also a feature, and the weight of a label is a number."""
    learned = {spec.label_of(name) for name in spec.objectives}
    for name, label in spec.labels.items():
        path: Path = ("labels", name)
        if name in spec.features:
            yield Problem(
                path,
                "the label is also a feature and would leak into the model. Rename or remove one.",
            )
        if name not in learned:
            yield Problem(path, "no objective learns this label. Add an objective or remove it.")
        if label.weight is not None:
            weight = spec.features.get(label.weight) or spec.labels.get(label.weight)
            if weight is None:
                choices = [*spec.features, *spec.labels]
                yield unknown((*path, "weight"), label.weight, "a feature or a label", choices)
            elif label.weight == name:
                yield Problem(
                    (*path, "weight"),
                    "a label cannot be its own weight. Name a feature or another label.",
                )
            elif weight.dtype == "string" or not _weighs(spec, name, weight):
                steps = _steps(spec, name)
                either = f" or a list of {steps[0]} numbers" if steps else ""
                yield Problem(
                    (*path, "weight"), f"{label.weight!r} must be a single number{either}"
                )
        if label.true_probability is not None:
            truth = spec.features.get(label.true_probability)
            if truth is None or truth.dtype != "float32" or not truth.single:
                yield unknown(
                    (*path, "true_probability"),
                    label.true_probability,
                    "a float32 feature of one value",
                    [n for n, f in spec.features.items() if f.dtype == "float32" and f.single],
                )


def check_objectives(spec: FeatureSpec) -> Problems:
    """Each objective learns its own label, which fits its head."""
    owner: dict[str, str] = {}
    together = spec.kept_together
    for name, objective in spec.objectives.items():
        path: Path = ("objectives", name)
        label_name = spec.label_of(name)
        label = spec.labels.get(label_name)
        if label is None:
            where = path if objective.label is None else (*path, "label")
            yield unknown(where, label_name, "the name of a label", list(spec.labels))
            continue
        if owner.setdefault(label_name, name) != name:
            yield Problem(
                path,
                f"objectives {owner[label_name]!r} and {name!r} both learn the label "
                f"{label_name!r}. Give one of them another label, or remove it.",
            )
        if objective.items_column is not None:
            yield from _check_items(spec, objective, label_name, path)
            messages = _item_misfits(label_name, label)
        else:
            messages = _misfits(objective, label_name, label)
        for message in messages:
            yield Problem(path, message)
        if label.true_probability is not None and not isinstance(objective, Binary):
            yield Problem(
                ("labels", label_name, "true_probability"),
                "only the label of a binary head can have it. Remove it.",
            )
        yield from _check_parts(spec, objective, label_name, path)
        if objective.group is not None:
            yield from _check_group(spec, objective.group, (*path, "group_by"))
            if objective.ranks and objective.group != together:
                yield Problem(
                    (*path, "group_by"),
                    f"got {objective.group!r}, but another objective ranks by {together!r}. All "
                    "ranking objectives need the same group_by, because only one feature can "
                    "decide which rows share a batch.",
                )


def _check_parts(spec: FeatureSpec, objective: Any, label: str, path: Path) -> Problems:
    """The parts of a label are single numbers of other features or labels."""
    for part in objective.label_parts:
        at = (*path, *part.path)
        entry = spec.features.get(part.name) or spec.labels.get(part.name)
        needs_integers = part.bounds[1] is not None
        if entry is None:
            choices = [*spec.features, *(name for name in spec.labels if name != label)]
            yield unknown(at, part.name, "a feature or a label", choices)
        elif part.name == label:
            yield Problem(at, f"got the label {label!r} itself. Name a feature or another label.")
        elif not entry.single or entry.dtype not in (
            ("int64",) if needs_integers else ("int64", "float32")
        ):
            shape = entry.shape if entry.shape == "variable" else list(entry.shape)
            yield Problem(
                at,
                f"{part.name!r} is {entry.dtype} with the shape {shape}, expected one "
                f"{'int64' if needs_integers else 'number'} per row",
            )


def _check_items(spec: FeatureSpec, objective: Any, name: str, path: Path) -> Problems:
    """The column of the items exists, has steps, and has ids of the label's values."""
    path = (*path, "items")
    choices = [
        name
        for name, column in spec.columns.items()
        if column.categorical and column.looks_up and column.is_sequence(spec)
    ]
    items = spec.columns.get(objective.items)
    if items is not None and items.keyed:
        yield Problem(
            path,
            f"column {objective.items!r} is {items.kind}, which keeps no words, so no answer could "
            "name an item. Use a vocabulary, which --mode=retrain extends with `vocabularies: "
            "append`.",
        )
        return
    if objective.items not in choices:
        expected = "a vocabulary, hash_bucket or identity column with sequence: true"
        yield unknown(path, objective.items, expected, choices)
        return
    column, label = spec.columns[objective.items], spec.labels[name]
    (source,) = column.features(spec)
    feature = spec.features.get(source)
    if feature is not None and feature.dtype != label.dtype:
        yield Problem(
            path,
            f"label {name!r} is {label.dtype}, but column {objective.items!r} reads the feature "
            f"{source!r}, which is {feature.dtype}. Make the dtypes equal.",
        )
    negatives = getattr(objective.loss.options, "negatives", None)
    if negatives == "log_uniform" and not column.named_rows:
        yield Problem(
            (*path[:-1], "loss"),
            f"negatives: log_uniform takes the first ids most often, but the ids of the "
            f"{column.kind} column {objective.items!r} have no order. Use uniform, in_batch or "
            "mixed.",
        )


def _item_misfits(name: str, label: Label) -> Iterator[str]:
    """The messages about a label that does not fit the head `next_item`."""
    if not label.variable:
        yield (
            f"label {name!r} has the shape {list(label.shape)}, expected shape: variable for one "
            "item for each step"
        )
    if label.vocabulary is not None:
        yield (
            f"label {name!r} has a vocabulary, but the head next_item takes the ids of the column "
            "`items`. Remove it."
        )
    if label.missing == "no_class":
        yield f"label {name!r} has missing: no_class, expected missing: mask or no missing"


def _misfits(objective: Any, name: str, label: Label) -> Iterator[str]:
    """The messages about a label that does not fit its head."""
    words = len(label.vocabulary) if label.vocabulary is not None else None
    if label.dtype == "string" and words is None:
        yield f"label {name!r}: a string label needs a vocabulary"
    if objective.steps_in_row is not None:
        wide = (objective.width,) if objective.width > 1 else ()
        if label.shape != (objective.steps_in_row, *wide):
            shape = label.shape if label.variable else list(label.shape)
            yield (
                f"label {name!r} has the shape {shape}, expected shape: "
                f"{[objective.steps_in_row, *wide]} for steps: {objective.steps_in_row}"
            )
        if label.true_probability is not None:
            yield (
                f"label {name!r} has a true_probability, which cannot be combined with steps. "
                "Remove it."
            )
    elif objective.learns_vectors:
        wanted = [objective.width]
        lists = objective.lists_classes
        if not (label.shape == (objective.width,) or (lists and label.variable)):
            either = "shape: variable for a list of classes, or " if lists else ""
            shape = label.shape if label.variable else list(label.shape)
            yield (
                f"label {name!r} has the shape {shape}, expected {either}shape: {wanted} for one "
                f"{'0 or 1 per class' if lists else 'number per logit'}"
            )
    elif not label.single:
        shape = label.shape if label.variable else list(label.shape)
        yield (
            f"label {name!r} has the shape {shape}, but the head {objective.head} learns one "
            "value. Remove shape, or use the head multi_label or cosine."
        )
    if objective.classes is None:
        if label.dtype == "string":
            yield f"label {name!r} is a string, expected a number"
    elif objective.classes > 2 and not objective.lists_classes and label.dtype == "float32":
        yield f"label {name!r} is float32, expected int64 or string"
    elif words is not None and words != objective.classes:
        yield (
            f"the head has {objective.classes} classes, but the vocabulary of label {name!r} has "
            f"{words} words. Make them equal."
        )


def _weighs(spec: FeatureSpec, label: str, weight: Any) -> bool:
    """Whether a feature or label has one number per row, or one per step of a label."""
    return bool(weight.single or weight.shape == _steps(spec, label))


def _steps(spec: FeatureSpec, label: str) -> Optional[tuple[int, ...]]:
    """The shape of a list with one number per step of a label. None if it has no steps."""
    for name, objective in spec.objectives.items():
        if spec.label_of(name) == label and objective.steps_in_row is not None:
            return (objective.steps_in_row,)
    return None


def _check_group(spec: FeatureSpec, name: str, path: Path) -> Problems:
    feature = spec.features.get(name)
    if feature is None:
        yield unknown(path, name, "the name of a feature", list(spec.features))
    elif not feature.single or feature.dtype == "float32":
        yield Problem(
            path,
            f"feature {name!r} is {feature.dtype} with {feature.form}, expected one string or "
            "int64",
        )
    elif feature.decode is not None:
        yield Problem(path, f"feature {name!r} is decoded from bytes, expected one string or int64")
