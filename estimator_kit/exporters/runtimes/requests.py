"""The inputs of a converted model: tensors of the export's graph, and rows, one at a time.

    features   one tensor for each feature, as in the signature predict_raw
    columns    one tensor of numbers or ids for each column, after hashing, vocabularies and
               crosses; for lists, their values and `<column>/row_splits`

With columns, the model has no strings and no lookups. The app computes ids the way
`input_pipelines.transform.transforms` does. An app sends one row at a time, so the comparison does
too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.exporters.sample_rows import SampleRows
from estimator_kit.exporters.skew import parts_of
from estimator_kit.model.names import PREDICT_EXAMPLES, PREDICT_RAW
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import input_names, serving_inputs

Row = Mapping[str, np.ndarray]

# Suffixes of a column's name, for the parts of a ragged column.
_PARTS = ("", "/row_splits", "/inner_row_splits")


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The inputs and outputs of a converted model.

    Attributes:
      form: `features` or `columns`.
      tensors: input -> (its name in the graph of the export, dtype, shape with None for any size).
      outputs: output -> its name in the graph of the export.
    """

    form: str
    tensors: Mapping[str, tuple[str, tf.DType, tuple[Any, ...]]]
    outputs: Mapping[str, str]

    def rows(self, sample: SampleRows) -> list[Row]:
        """The rows of a sample that can be sent, each as arrays with one row."""
        if self.form == "features":
            return [
                {name: values[row : row + 1] for name, values in sample.raw.items()}
                for row in np.flatnonzero(sample.sendable)
            ]
        return [
            {
                name: part
                for column, value in sample.features.items()
                for name, part in zip(_names(column), _row(value, row))
                if name in self.tensors
            }
            for row in range(len(sample.records))
        ]

    def sendable(self, sample: SampleRows) -> np.ndarray:
        """bool [rows]: which rows of a sample `rows` returns."""
        if self.form == "features":
            return sample.sendable
        return np.ones(len(sample.records), bool)


def inputs_of(meta: Any, source: str, spec: FeatureSpec, form: str) -> Inputs:
    """The inputs of a form in the graph of an export.

    Raises:
      ConfigError: the export has no inputs of that form.
    """
    needed = PREDICT_RAW if form == "features" else PREDICT_EXAMPLES
    if needed not in meta.signature_def:
        remedy = " Use --transform_inputs=columns." if form == "features" else ""
        raise ConfigError(f"--export_dir={source} has no signature {needed}.{remedy}")
    signature = meta.signature_def[needed]
    outputs = {name: info.name for name, info in sorted(signature.outputs.items())}
    if form == "features":
        tensors = {
            name: (info.name, tf.as_dtype(info.dtype), _shape(info.tensor_shape))
            for name, info in sorted(signature.inputs.items())
        }
        if set(tensors) != set(input_names(spec.used_features()).values()):
            raise ConfigError(
                f"--export_dir={source}: the inputs of {needed} are {', '.join(tensors)}. This "
                "version of the kit gives some of them other names. Export again."
            )
    else:
        tensors = _columns(meta, source, spec)
    return Inputs(form, tensors, outputs)


def placed(graph: Any, inputs: Inputs) -> tuple[Any, Inputs]:
    """Replaces the inputs of a frozen GraphDef by placeholders, and drops the ops that check them.

    Returns the GraphDef and the inputs that the outputs depend on; a column may be unused.
    """
    nodes = {name.partition(":")[0]: about for name, *about in inputs.tensors.values()}
    for node in graph.node:
        kept = [name for name in node.input if not name.startswith("^")]
        del node.input[:]
        if node.name not in nodes:
            node.input.extend(kept)
            continue
        dtype, shape = nodes[node.name]
        node.op = "Placeholder"
        node.attr.clear()
        node.attr["dtype"].type = dtype.as_datatype_enum
        node.attr["shape"].shape.CopyFrom(tf.TensorShape(shape).as_proto())
    wanted = sorted({name.partition(":")[0] for name in inputs.outputs.values()})
    graph = tf.compat.v1.graph_util.extract_sub_graph(graph, wanted)
    names = {node.name for node in graph.node}
    tensors = {k: t for k, t in inputs.tensors.items() if t[0].partition(":")[0] in names}
    return graph, dataclasses.replace(inputs, tensors=tensors)


def _columns(
    meta: Any, source: str, spec: FeatureSpec
) -> dict[str, tuple[str, tf.DType, tuple[Any, ...]]]:
    """The tensors of the columns. They are found by building the input part of the graph again."""
    with tf.Graph().as_default():
        tf.compat.v1.train.get_or_create_global_step()
        features = serving_inputs(spec).features
    names = {node.name for node in meta.graph_def.node}
    inputs = {}
    for column, value in features.items():
        for name, part in zip(_names(column), parts_of(value)):
            if part.op.name not in names:
                raise ConfigError(
                    f"--export_dir={source}: the graph has no {part.op.name}, which the column "
                    f"{column!r} needs. Another version of estimator_kit wrote this export; export "
                    "the model again."
                )
            inputs[name] = (part.name, part.dtype, tuple(part.shape.as_list()))
    return inputs


def _names(column: str) -> list[str]:
    return [column + part for part in _PARTS]


def _row(value: Any, row: int) -> Sequence[np.ndarray]:
    """The parts of one row, in the order of `parts_of`."""
    values, *all_splits = (np.asarray(part) for part in parts_of(value))
    start, stop, parts = row, row + 1, []
    for splits in all_splits:
        cut = splits[start : stop + 1]
        parts.append(cut - cut[0])
        start, stop = int(cut[0]), int(cut[-1])
    return [values[start:stop], *parts]


def _shape(proto: Any) -> tuple[Any, ...]:
    return tuple(dim.size if dim.size >= 0 else None for dim in proto.dim)
