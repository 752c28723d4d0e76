"""What a converted model is sent: tensors of the export's graph, and rows of them, one at a time.

    features   one tensor a feature, as the signature predict_raw takes them
    columns    what the model reads of them: one tensor a column, of numbers or ids, after hashing,
               vocabularies and crosses; of lists their values and `<column>/row_splits`

With columns, strings and their lookups stay out of the model, and the app that asks it makes ids
the way `input_pipelines.transform.transforms` does. A row is what an app sends: rows are compared
singly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.exporters.sample_rows import SampleRows
from estimator_kit.exporters.signatures import PREDICT_RAW
from estimator_kit.exporters.skew import parts_of
from estimator_kit.model.model_fn import PREDICT_EXAMPLES
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import serving_inputs

Row = Mapping[str, np.ndarray]

# Behind the name of a column, for the parts of a ragged one.
_PARTS = ("", "/row_splits", "/inner_row_splits")


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What a model is sent, and what it gives.

    Attributes:
      form: `features` or `columns`.
      tensors: input -> (name in the graph of the export, dtype, shape with None where it is free).
      outputs: output -> name in the graph of the export.
    """

    form: str
    tensors: Mapping[str, tuple[str, tf.DType, tuple[Any, ...]]]
    outputs: Mapping[str, str]

    def rows(self, sample: SampleRows) -> list[Row]:
        """Every row of a sample that can be sent, as arrays with one row."""
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
        """bool [rows]: which of a sample `rows` has."""
        if self.form == "features":
            return sample.sendable
        return np.ones(len(sample.records), bool)


def inputs_of(meta: Any, source: str, spec: FeatureSpec, form: str) -> Inputs:
    """The inputs of a form, in the graph of an export.

    Raises:
      ConfigError: the export has none of that form.
    """
    needed = PREDICT_RAW if form == "features" else PREDICT_EXAMPLES
    if needed not in meta.signature_def:
        remedy = "; use --transform_inputs=columns" if form == "features" else ""
        raise ConfigError(f"--export_dir={source}: it has no signature {needed}{remedy}")
    signature = meta.signature_def[needed]
    outputs = {name: info.name for name, info in sorted(signature.outputs.items())}
    if form == "features":
        tensors = {
            name: (info.name, tf.as_dtype(info.dtype), _shape(info.tensor_shape))
            for name, info in sorted(signature.inputs.items())
        }
    else:
        tensors = _columns(meta, source, spec)
    return Inputs(form, tensors, outputs)


def placed(graph: Any, inputs: Inputs) -> tuple[Any, Inputs]:
    """A frozen GraphDef that begins with placeholders, without the ops that check its input.

    Returns it, and the inputs that outputs depend on: a column may be of none.
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
    there = {node.name for node in graph.node}
    tensors = {k: t for k, t in inputs.tensors.items() if t[0].partition(":")[0] in there}
    return graph, dataclasses.replace(inputs, tensors=tensors)


def _columns(
    meta: Any, source: str, spec: FeatureSpec
) -> dict[str, tuple[str, tf.DType, tuple[Any, ...]]]:
    """Found by making the input part of the graph again, as the export did."""
    with tf.Graph().as_default():
        tf.compat.v1.train.get_or_create_global_step()
        features = serving_inputs(spec).features
    there = {node.name for node in meta.graph_def.node}
    found = {}
    for column, value in features.items():
        for name, part in zip(_names(column), parts_of(value)):
            if part.op.name not in there:
                raise ConfigError(
                    f"--export_dir={source}: its graph has no {part.op.name}, of the column "
                    f"{column!r}; another version of estimator_kit exported it: export it again"
                )
            found[name] = (part.name, part.dtype, tuple(part.shape.as_list()))
    return found


def _names(column: str) -> list[str]:
    return [column + part for part in _PARTS]


def _row(value: Any, row: int) -> Sequence[np.ndarray]:
    """The parts of a row, as `parts_of` has those of all rows."""
    values, *all_splits = (np.asarray(part) for part in parts_of(value))
    start, stop, parts = row, row + 1, []
    for splits in all_splits:
        cut = splits[start : stop + 1]
        parts.append(cut - cut[0])
        start, stop = int(cut[0]), int(cut[-1])
    return [values[start:stop], *parts]


def _shape(proto: Any) -> tuple[Any, ...]:
    return tuple(dim.size if dim.size >= 0 else None for dim in proto.dim)
