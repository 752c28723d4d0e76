"""An export whose embedding tables are int8 or float16, for `--transform=tables_int8`.

    notes = smaller(meta, spec, source, staging, "tables_int8")     # changes meta

The tables are the tables of the spec's embeddings; in an export without a spec, all that lookups
read. An int8 row has 8-bit integers and one float32, its scale: the largest magnitude of the row
divided by 127. So each number is off by half a scale at most. A lookup reads the rows of its ids
and makes float32 of these rows alone. Tables stay variables, so the size of a graph does not limit
them. A table that a signature also reads as a whole, such as the items of a `next_item` model,
stays float32. All other ops stay as they are.

This module never decides whether the answers are good enough; `commands.transform` does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from estimator_kit import tensorflow_errors
from estimator_kit.checkpoints.warm_start.row_moves import ColumnsOfTables
from estimator_kit.errors import ConfigError, ExportError
from estimator_kit.exporters.sample_rows import on_cpu
from estimator_kit.exporters.saved_model_graph import kept_nodes
from feature_specs.spec import FeatureSpec

v1 = tf.compat.v1

DTYPES = {"tables_int8": tf.int8, "tables_float16": tf.float16}
_LARGEST = 127

_MOST = {"tables_int8": float(np.finfo(np.float32).max), "tables_float16": 65504.0}
_ROWS = 1 << 20  # The number of rows that are rounded at once.


def smaller(
    meta: Any, spec: Optional[FeatureSpec], source: str, staging: str, kind: str
) -> list[str]:
    """Changes a MetaGraphDef, and writes its variables.

    Args:
      meta: the serving graph of the export.
      spec: the spec of the export, or None.
      source: the folder of the export.
      staging: the folder in which `variables` is made.
      kind: a key of `DTYPES`.

    Returns:
      a sentence for each table that stays as it is, and why.

    Raises:
      ConfigError: the export has no table.
      ExportError: a table has NaN, or a number that float16 cannot hold.
    """
    with tf.Graph().as_default() as graph:
        with tensorflow_errors.as_export_error(f"{source} does not load"):
            v1.train.import_meta_graph(meta)
        variables = {variable.op.name: variable for variable in v1.global_variables()}
        lookups, notes = _tables(graph, meta, spec, variables)
        made = {
            name: _smaller_table(variables[name], lookups[name], kind) for name in sorted(lookups)
        }
        if not made:
            raise ConfigError(
                f"--transform={kind}: --export_dir={source} has no embedding table in float32 that "
                "only lookups read." + "".join(f" {note}" for note in notes)
            )
        same = [variable for name, variable in variables.items() if name not in made]
        new = [variable for table in made.values() for variable in table.variables]
        saver = v1.train.Saver([*same, *new])
        rewired = {old: to for table in made.values() for old, to in table.rewired.items()}
        _replace(meta, graph, [*same, *new], saver, rewired, made)
        restore = v1.train.Saver(same) if same else None
        values = tf.train.load_checkpoint(os.path.join(source, "variables", "variables"))
        with v1.Session(config=on_cpu()) as session:
            if restore is not None:
                restore.restore(session, os.path.join(source, "variables", "variables"))
            for name, table in made.items():
                value = values.get_tensor(name)
                if not np.isfinite(value).all() or np.abs(value).max(initial=0) > _MOST[kind]:
                    raise ExportError(
                        f"--transform={kind}: the table {name} has NaN or numbers beyond "
                        f"{_MOST[kind]:g}, got at most {np.abs(value).max():g}. Use another "
                        "version, or leave the table as it is."
                    )
                for variable, part in zip(table.variables, _values(value, kind)):
                    variable.load(part, session)
            target = os.path.join(staging, "variables", "variables")
            tf.io.gfile.makedirs(os.path.dirname(target))
            saver.save(session, target, write_meta_graph=False, write_state=False)
    return notes


class _Table(NamedTuple):
    """What takes the place of a table.

    Attributes:
      variables: its rows in int8 or float16, and the scales of int8.
      rewired: the op that gives the rows of a lookup in float32, by the name of the old lookup.
    """

    variables: list[Any]
    rewired: dict[str, str]


def _tables(
    graph: tf.Graph, meta: Any, spec: Optional[FeatureSpec], variables: dict[str, Any]
) -> tuple[dict[str, list[tf.Operation]], list[str]]:
    """The lookups of each table, and a sentence for each table that is also read as a whole."""
    served = {
        node.name
        for node in v1.graph_util.extract_sub_graph(graph.as_graph_def(), kept_nodes(meta)).node
    }
    columns = ColumnsOfTables(spec) if spec is not None else None
    lookups, notes = {}, []
    for name, variable in variables.items():
        is_table = variable.shape.rank == 2 and variable.dtype.base_dtype == tf.float32
        if is_table and spec is not None and columns is not None:
            column = columns.of(name)
            is_table = column is not None and spec.columns[column].dense == "embedding"
        if not is_table:
            continue
        readers = [op for op in variable.handle.consumers() if op.name in served]
        gathers = [op for op in readers if op.type == "ResourceGather"]
        if gathers and len(gathers) == len(readers):
            lookups[name] = gathers
        elif gathers:
            notes.append(f"{name} stays float32, because a signature also reads it as a whole.")
    return lookups, notes


def _smaller_table(table: Any, lookups: list[tf.Operation], kind: str) -> _Table:
    dtype, name = DTYPES[kind], table.op.name

    def variable(part: str, width: int, dtype: tf.DType) -> Any:
        return v1.get_variable(
            f"{name}/{part}", [table.shape[0], width], dtype, v1.zeros_initializer(),
            use_resource=True, trainable=False,
        )  # fmt: skip

    made = [variable(dtype.name, table.shape[1], dtype)]
    if dtype == tf.int8:
        made.append(variable("scale", 1, tf.float32))
    rewired = {}
    for lookup in lookups:
        with tf.name_scope(f"{lookup.name}/{dtype.name}/"):
            # An op of a graph that was loaded has no Python function.
            parts = [
                tf.raw_ops.ResourceGather(
                    resource=each.handle, indices=lookup.inputs[1], dtype=each.dtype.base_dtype,
                    batch_dims=lookup.get_attr("batch_dims"),
                )
                for each in made
            ]  # fmt: skip
            rows = tf.cast(parts[0], tf.float32)
            if len(parts) > 1:
                rows = rows * parts[1]
            rewired[lookup.name] = tf.identity(rows, "rows").op.name
    return _Table(made, rewired)


def _values(table: np.ndarray, kind: str) -> Iterator[np.ndarray]:
    """The values of the variables of `_smaller_table`."""
    if kind == "tables_float16":
        yield table.astype(np.float16)
        return
    rows = np.empty(table.shape, np.int8)
    scales = np.abs(table).max(axis=1, keepdims=True) / np.float32(_LARGEST)
    for start in range(0, len(table), _ROWS):
        part, scale = (each[start : start + _ROWS] for each in (table, scales))
        rows[start : start + _ROWS] = np.rint(part / np.where(scale == 0, 1, scale))
    yield rows
    yield scales


def _replace(
    meta: Any,
    graph: tf.Graph,
    variables: list[Any],
    saver: Any,
    rewired: dict[str, str],
    replaced: Iterable[str],
) -> None:
    """Puts the changed graph into a MetaGraphDef, with what its variables and its saver need."""
    graph_def = graph.as_graph_def()
    new = {*rewired.values()}
    gone = {f"loc:@{name}".encode() for name in replaced}
    for node in graph_def.node:
        places = node.attr["_class"].list.s if "_class" in node.attr else ()
        if gone & {*places}:  # It was on the device of a table.
            del node.attr["_class"]
        if node.name not in new:
            for i, source in enumerate(node.input):
                name, colon, output = source.partition(":")
                if name in rewired:
                    node.input[i] = f"{rewired[name]}{colon}{output}"
    protos = [variable.to_proto() for variable in variables]
    saver_def = saver.saver_def
    wanted = {
        *kept_nodes(meta), saver_def.restore_op_name,
        *(
            tensor.partition(":")[0]
            for proto in protos
            for tensor in (proto.variable_name, proto.initializer_name, proto.snapshot_name)
        ),
        *(
            tensor.partition(":")[0]
            for tensor in (saver_def.filename_tensor_name, saver_def.save_tensor_name)
        ),
    }  # fmt: skip
    there = {node.name for node in graph_def.node}
    pruned = v1.graph_util.extract_sub_graph(graph_def, sorted(wanted & there))
    meta.graph_def.CopyFrom(pruned)
    meta.saver_def.CopyFrom(saver_def)
    meta.ClearField("object_graph_def")
    collection = meta.collection_def[v1.GraphKeys.GLOBAL_VARIABLES].bytes_list
    del collection.value[:]
    collection.value.extend(proto.SerializeToString() for proto in protos)
    for name in (v1.GraphKeys.TRAINABLE_VARIABLES, v1.GraphKeys.MODEL_VARIABLES):
        if name in meta.collection_def:
            del meta.collection_def[name]
