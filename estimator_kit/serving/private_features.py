"""Removes the values of private features from a request, before the request is logged.

A feature is private if the spec of the version says `private: true`. The kit's exports contain
their spec. `of_export` is None for other versions: nothing says what is private, so their requests
must not be logged.

| in a request | what is removed |
| --- | --- |
| an Example or a SequenceExample, also serialized | the feature, in the context and in the lists |
| a tensor of a feature (`predict_raw`) | the tensor |

In a version with private features, a string tensor that is not of a feature of the spec counts as
serialized records. If it cannot be read, `clean` raises, and the request is not logged.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.client import tensors
from feature_specs.files import file_systems
from feature_specs.parser import parser
from input_pipelines.transform.serving_inputs import input_names

_SPEC = os.path.join("assets.extra", "feature_spec", "spec.json")

# The placeholder of serialized records in the kit's exports.
_RECORDS = "input_example_tensor"


@dataclasses.dataclass(frozen=True)
class PrivateFeatures:
    """What is private in the requests of a version.

    Attributes:
      names: the private features.
      tensor_names: the names that the tensors of private features have.
      public_tensor_names: the names that the tensors of other features have.
    """

    names: frozenset[str]
    tensor_names: frozenset[str] = frozenset()
    public_tensor_names: frozenset[str] = frozenset()

    def clean(self, request: Any, inputs: Mapping[str, Any]) -> None:
        """Removes the values from a request of any of the three methods.

        Args:
          request: a PredictRequest, ClassificationRequest or RegressionRequest; it is changed.
          inputs: `{input: TensorInfo}` of its signature.

        Raises:
          ValueError: a record cannot be read.
        """
        if not self.names:
            return
        if hasattr(request, "inputs"):
            self._clean_tensors(request.inputs, inputs)
            return
        for examples in (
            request.input.example_list.examples,
            request.input.example_list_with_context.examples,
        ):
            for example in examples:
                self._clean_example(example)
        if request.input.HasField("example_list_with_context"):
            self._clean_example(request.input.example_list_with_context.context)

    def clean_answer(self, response: Any) -> None:
        """Removes the outputs of a PredictResponse that have the name of a private feature."""
        for name in {*self.names, *self.tensor_names} & {*getattr(response, "outputs", ())}:
            del response.outputs[name]

    def _clean_tensors(self, sent: Any, inputs: Mapping[str, Any]) -> None:
        for name in sorted(sent):
            if _is_records(inputs, name):
                self._clean_records(sent[name], self._cleaned)
            elif name in self.tensor_names or name in self.names:
                del sent[name]
            elif name not in self.public_tensor_names and sent[name].dtype == tensors.STRING:
                self._clean_records(sent[name], self._read_and_cleaned)

    def _clean_records(self, proto: Any, clean: Callable[[bytes], bytes]) -> None:
        records = tensors.to_array(proto)
        before = records.ravel().tolist()
        after = [clean(record) for record in before]
        if after != before:
            cleaned = np.empty(len(after), np.object_)
            cleaned[:] = after
            proto.Clear()
            tensors.fill(proto, cleaned.reshape(records.shape))

    def _clean_example(self, example: Any) -> None:
        before = example.SerializeToString()
        after = self._cleaned(before)
        if after != before:
            example.ParseFromString(after)  # A SequenceExample keeps its lists as unknown fields.

    def _cleaned(self, record: bytes) -> bytes:
        # The name of a feature is in the bytes of a record as it is. Reading costs far more.
        has_one = any(name in record for name in self._encoded)
        return self._read_and_cleaned(record) if has_one else record

    @functools.cached_property
    def _encoded(self) -> list[bytes]:
        return [name.encode() for name in self.names]

    def _read_and_cleaned(self, record: bytes) -> bytes:
        # An Example is a SequenceExample that has only the context.
        try:
            read = tf.train.SequenceExample.FromString(record)
        except Exception as error:  # protobuf's DecodeError, which is not public.
            raise ValueError(f"a record cannot be read: {error}") from error
        read.DiscardUnknownFields()
        for name in self.names:  # A change of an absent message would add an empty one.
            if name in read.context.feature:
                del read.context.feature[name]
            if name in read.feature_lists.feature_list:
                del read.feature_lists.feature_list[name]
        return bytes(read.SerializeToString())


def of_export(path: str) -> Optional[PrivateFeatures]:
    """What is private in the requests of an export; None if it has no spec.

    Raises:
      SpecError: its spec cannot be read.
    """
    file = os.path.join(path, _SPEC)
    if not file_systems.exists(file):
        return None
    spec = parser.load(file, stored=True)
    names = frozenset(name for name, feature in spec.features.items() if feature.private)
    of_features = input_names(spec.used_features())
    return PrivateFeatures(
        names,
        _values(of_features, (name for name in of_features if name in names)),
        _values(of_features, (name for name in of_features if name not in names)),
    )


def _values(names: Mapping[str, str], keys: Iterable[str]) -> frozenset[str]:
    return frozenset(names[key] for key in keys)


def _is_records(inputs: Mapping[str, Any], name: str) -> bool:
    """Whether an input is the one of serialized records in an export of the kit."""
    return name in inputs and inputs[name].name.partition(":")[0] == _RECORDS
