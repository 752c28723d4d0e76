"""Outputs of an older model as a newer spec means them: which column is which class.

    values = as_now(older_spec, spec, "level", values)

Two specs may list the words of a label in another order, and a warm start then moves the weights of
each class. So the outputs of both models have the same shape, and their columns mean other classes.
Words, boundaries and the name of the label say which output is which. What they do not say is None,
never a guess. This module uses NumPy alone.
"""

from __future__ import annotations

from typing import Optional

from numpy.typing import NDArray

from feature_specs.spec import FeatureSpec


def as_now(older: FeatureSpec, spec: FeatureSpec, name: str, values: NDArray) -> Optional[NDArray]:
    """The outputs of a model of the spec `older`, in the order of classes of `spec`.

    Args:
      older, spec: the specs. Both have the objective.
      name: the objective.
      values: the outputs as `row_metric` takes them: [rows], or [rows, n] for n classes or
        intervals.

    Returns:
      The outputs with the shape of `values`, or None if they mean something else: of another head,
      another label, other classes or other boundaries.
    """
    now, before = spec.objectives[name], older.objectives[name]
    if now.head != before.head or spec.label_of(name) != older.label_of(name):
        return None
    if now.classes is None:
        return values if now.logit_names(None) == before.logit_names(None) else None
    words, were = (each.labels[each.label_of(name)].vocabulary for each in (spec, older))
    if words == were:
        return values
    if words is None or were is None or sorted(words) != sorted(were):
        return None
    if values.ndim == 1:  # The logit of the second of two classes.
        return -values
    return values[:, [were.index(word) for word in words]]
