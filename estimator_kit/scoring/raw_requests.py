"""Records of requests to the signature `predict_raw`, which have one tensor for each feature.

The records have the features that the model reads, so they mean the same. A feature that only a
record may have, such as the key of a row, is not among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from estimator_kit.client import messages, tensors
from feature_specs.feature import Feature
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import input_names

_LISTS = {"string": "bytes_list", "float32": "float_list", "int64": "int64_list"}


class RawRequests:
    """Makes records of tensors.

    Args:
      spec: the spec of the model that was asked.
    """

    def __init__(self, spec: FeatureSpec):
        self._spec = spec
        self._names = input_names(spec.used_features())
        # A log lacks private features.
        self._needed = {
            key for name, key in self._names.items() if not is_private(spec.features[name])
        }
        # Lists of lists have several forms, and no request of the kit's own client has them.
        nested = any(spec.features[name].nested for name in self._names)
        self._readable = not nested
        message = "SequenceExample" if spec.sequence_examples else "Example"
        self._message = messages.message(f"tensorflow.{message}")

    def records(self, inputs: Mapping[str, Any]) -> Optional[list[bytes]]:
        """The record of each row; None if the tensors are not the inputs of `predict_raw`.

        Raises:
          ValueError: a tensor cannot be read, or tensors have different numbers of rows.
        """
        if not self._readable or not self._needed <= {*inputs} <= {*self._names.values()}:
            return None
        arrays = {
            name: tensors.to_array(inputs[key])
            for name, key in self._names.items()
            if key in inputs
        }
        rows = {array.shape[0] if array.ndim else -1 for array in arrays.values()}
        if len(rows) != 1 or -1 in rows:
            raise ValueError("the inputs have different numbers of rows")
        return [self._record(arrays, row) for row in range(rows.pop())]

    def _record(self, arrays: Mapping[str, NDArray[Any]], row: int) -> bytes:
        record = self._message()
        for name, array in arrays.items():
            feature = self._spec.features[name]
            values = array[row : row + 1].reshape(-1).tolist()
            values = _without_padding(feature, values) if feature.variable else values
            if feature.feature_list:
                steps = record.feature_lists.feature_list[name].feature
                for value in values:
                    getattr(steps.add(), _LISTS[feature.dtype]).value.append(value)
                continue
            features = record.context if self._spec.sequence_examples else record.features
            getattr(features.feature[name], _LISTS[feature.dtype]).value.extend(values)
        content: bytes = record.SerializeToString()
        return content


def is_private(feature: Feature) -> bool:
    """Whether request logs lack a feature, because the spec says that it is private."""
    return bool(getattr(feature, "private", None))


def _without_padding(feature: Feature, values: list[Any]) -> list[Any]:
    """A list without the padding at its end; see `serving_inputs`."""
    end = len(values)
    while end and _is_padding(feature, values[end - 1]):
        end -= 1
    return values[:end]


def _is_padding(feature: Feature, value: Any) -> bool:
    if feature.dtype == "string":
        return bool(value == b"")
    return bool(value == -1) if feature.dtype == "int64" else bool(np.isnan(value))
