"""Which features the signatures of an export depend on, found in its graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import COLUMN_SCOPES, op_name


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
            if scope in COLUMN_SCOPES:
                columns.add(column.partition("/")[0])
                continue
            waiting += [i.lstrip("^").partition(":")[0] for i in nodes[node].input]
        found[name] = columns
    return found


def _features(spec: FeatureSpec, columns: Iterable[str]) -> list[str]:
    names = {op_name(name): name for name in spec.columns}
    features: set[str] = set()
    for column in columns:
        # Parts and weights of a column are named after it, with a number or a word at the end.
        while column and column not in names:
            column = column.rpartition("_")[0]
        if column:
            features.update(spec.features_of(names[column]))
    return sorted(features)
