"""Signatures that read a part of the features: they accept records without the other features.

    signatures, read = of_parts(signatures, spec, inputs)

One op parses all features of a record for all signatures, and fails if a record lacks a required
one. So `user_vector` of `two_tower` would need an item. This module gives a signature that does not
read a required feature a parser of the features that it reads, and a copy of the ops that read
them. Variables and lookup tables are shared. All other signatures stay as they are.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf

from estimator_kit.exporters.signatures import CopyError, ancestors, copied
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import ServingInputs
from input_pipelines.transform.transforms import Features, raw_feature, weights_of


def of_parts(
    signatures: Mapping[str, Any], spec: FeatureSpec, inputs: ServingInputs
) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    """The signatures of an export, and the features that each needs.

    Args:
      signatures: `{name: SignatureDef}` of the current graph.
      spec: the feature spec.
      inputs: the inputs of the graph.

    Returns:
      `{name: SignatureDef}` with the same names, inputs and outputs; and, for each signature that
      takes serialized records, the features that a record must have or that it may use, in the
      order of the spec.
    """
    graph = tf.compat.v1.get_default_graph()
    used = spec.used_features()
    required = {name for name in used if spec.features[name].is_required}
    groups: dict[frozenset[str], list[str]] = defaultdict(list)
    tensors: dict[str, dict[str, tf.Tensor]] = {}
    for name, signature in sorted(signatures.items()):
        if inputs.examples.name in {info.name for info in signature.inputs.values()}:
            output_names = {info.name for info in signature.outputs.values()}
            tensors[name] = {
                tensor: graph.get_tensor_by_name(tensor) for tensor in sorted(output_names)
            }
            groups[_features_of(tensors[name].values(), spec, inputs.features)].append(name)
    new_signatures, needs = dict(signatures), {}
    for read, names in groups.items():
        needed = read
        if not required <= read:
            outputs = {key: tensor for name in names for key, tensor in tensors[name].items()}
            try:
                copies = _copies(outputs, read, spec, inputs)
            except CopyError:
                needed = frozenset(used)  # They keep the parser of all features.
            else:
                new_signatures.update({name: _renamed(signatures[name], copies) for name in names})
        for name in names:
            needs[name] = tuple(feature for feature in used if feature in needed)
    return new_signatures, needs


def _features_of(
    outputs: Collection[tf.Tensor], spec: FeatureSpec, features: Features
) -> frozenset[str]:
    """The features that outputs depend on."""
    keys = {op: key for key, value in features.items() for op in _ops(value)}
    feature_names: set[str] = set()
    for op in ancestors((output.op for output in outputs), stop=keys):
        key = keys.get(op)
        if key is None:
            continue
        raw = raw_feature(key)
        feature_names.update([raw] if raw is not None else spec.features_of(_column_of(key, spec)))
    lengths = {spec.features[name].row_lengths for name in feature_names}
    return frozenset(feature_names | {name for name in lengths if name})


def _column_of(key: str, spec: FeatureSpec) -> str:
    return next(name for name in spec.columns if key in (name, weights_of(name)))


def _part_of(spec: FeatureSpec, needed: Collection[str]) -> FeatureSpec:
    """The part of the spec that reads only these features."""
    columns = {n: c for n, c in spec.columns.items() if set(spec.features_of(n)) <= set(needed)}
    groups = {
        group: tuple(name for name in names if name in columns)
        for group, names in spec.groups.items()
    }
    return dataclasses.replace(
        spec,
        columns=columns,
        groups={group: names for group, names in groups.items() if names},
        raw=tuple(name for name in spec.raw if name in needed),
    )


def _copies(
    outputs: Mapping[str, tf.Tensor],
    read: Collection[str],
    spec: FeatureSpec,
    inputs: ServingInputs,
) -> dict[str, tf.Tensor]:
    """Copies of outputs, by the names of the outputs, that read only these features."""
    if not read:
        raise CopyError("no output reads a feature")
    columns = {op for value in inputs.features.values() for op in _ops(value)}
    if inputs.examples.op in ancestors(
        (output.op for output in outputs.values()), stop=dict.fromkeys(columns)
    ):
        raise CopyError("an output reads the records directly, not through the features")
    part = inputs.features_of_part(_part_of(spec, read))
    old = [tensor for key in part for tensor in _tensors(inputs.features[key])]
    new = [tensor for value in part.values() for tensor in _tensors(value)]
    copies = copied(list(outputs.values()), list(zip(old, new)), name="part")
    return dict(zip(outputs, copies))


def _renamed(signature: Any, copies: Mapping[str, tf.Tensor]) -> Any:
    copy = type(signature)()
    copy.CopyFrom(signature)
    for info in copy.outputs.values():
        info.name = copies[info.name].name
    return copy


def _ops(value: Any) -> list[tf.Operation]:
    return [tensor.op for tensor in _tensors(value)]


def _tensors(value: Any) -> list[tf.Tensor]:
    tensors: list[tf.Tensor] = tf.nest.flatten(value, expand_composites=True)
    return tensors
