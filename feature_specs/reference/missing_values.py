"""Which stored value stands for "missing", as the columns read it.

An empty string is no value where it would be decoded (`decode`). The empty string and -1 are no
value to columns that look values up (identity, vocabulary, hash_bucket, dynamic_embedding) over a
feature of one value: the model gets no id, as it does where the feature is absent and its default
is such a value. They are ordinary values in lists, in feature lists, in numbers, in labels, and for
a cross that names the feature itself. Imports no TensorFlow.
"""

from __future__ import annotations

from typing import Optional, Union

from feature_specs.spec import FeatureSpec


def missing_value(spec: FeatureSpec, name: str) -> Optional[Union[str, int]]:
    """What stands for "missing" in a feature: "", -1, or None where every value is one."""
    feature = spec.features[name]
    if not feature.single or feature.dtype == "float32":
        return None
    if feature.decode is not None:
        return ""
    for column in spec.columns.values():
        if column.looks_up and name in column.features(spec):
            return "" if feature.dtype == "string" else -1
    return None
