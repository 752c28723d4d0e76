"""Which features the signatures of an export depend on, found in its graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import column_op, is_column_scope
from input_pipelines.transform.transforms import raw_of


def features_of_signatures(meta: Any, spec: FeatureSpec) -> dict[str, list[str]]:
    """The features that the outputs of each signature depend on, sorted, by signature."""
    found = columns_of_signatures(meta)
    return {name: _features(spec, columns) for name, columns in found.items()}


def columns_of_signatures(meta: Any) -> dict[str, set[str]]:
    """The columns, by their names in ops, that the outputs of each signature depend on."""
    nodes = {node.name: node for node in meta.graph_def.node}
    found = {}
    for name, signature in meta.signature_def.items():
        waiting = [info.name.partition(":")[0] for info in signature.outputs.values()]
        seen: set[str] = set()
        columns = set()
        while waiting:
            node = waiting.pop()
            if node in seen or node not in nodes:
                continue
            seen.add(node)
            scope, _, column = node.partition("/")
            if is_column_scope(scope):
                columns.add(column.partition("/")[0])
                continue
            waiting += [i.lstrip("^").partition(":")[0] for i in nodes[node].input]
        found[name] = columns
    return found


def _features(spec: FeatureSpec, columns: Iterable[str]) -> list[str]:
    read = {column_op(name): set(spec.features_of(name)) for name in spec.columns}
    for name in spec.raw:
        read[column_op(raw_of(name))] = {name, spec.features[name].row_lengths or name}
    features: set[str] = set()
    for column in columns:
        # Parts and weights of a column are named after it, with a number or a word at the end.
        while column and column not in read:
            column = column.rpartition("_")[0]
        features.update(read.get(column, ()))
    return sorted(features)
