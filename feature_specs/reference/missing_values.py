"""Tells which stored value of a feature means "missing".

For a feature with `decode`, the empty string means missing. For a feature of one value, columns
that look values up (identity, vocabulary, hash_bucket, dynamic_embedding) treat the empty string
and -1 as missing: the model gets no id. The same happens if the feature is absent and its default
is such a value. In lists, feature lists, numbers and labels, and in a cross that names the feature
itself, the empty string and -1 are ordinary values. This module does not import TensorFlow.
"""

from __future__ import annotations

from typing import Optional, Union

from feature_specs.spec import FeatureSpec


def missing_value(spec: FeatureSpec, name: str) -> Optional[Union[str, int]]:
    """The value that means "missing" in a feature: "", -1, or None if no value does."""
    feature = spec.features[name]
    if not feature.single or feature.dtype == "float32":
        return None
    if feature.decode is not None:
        return ""
    for column in spec.columns.values():
        if column.looks_up and name in column.features(spec):
            return "" if feature.dtype == "string" else -1
    return None
