"""The tables of dynamic embeddings in a graph: which values get a row, and which lose it.

    rows          the vectors of the values of a batch; in training, new values get a row
    optimizer     an optimizer that can train such rows
    evictions     the removals after a step
    loader        fills tables from the checkpoint of another training
    in_mode       tells whether the graph is for training; `ModelFn` calls it

tensorflow-recommenders-addons (`de`) provides the tables, their slots and their saving. A table
that counts or evicts has a second table, `<name>_seen`. For each value that was read, it stores how
often, and the last step. In training, a step reads the rows of its values into a local variable,
updates the variable, and writes it back. Otherwise tables are only read.

On parameter servers, the shards of a table are distributed over the servers in turn. Updates are
added to the stored values, so that no update is lost if several processes train one row. Counts may
be lost: if two processes read one value at the same moment, the two readings may count as one.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.embeddings import dynamic_package
from estimator_kit.errors import ConfigError
from feature_specs.embeddings.initial_values import initializer
from feature_specs.kinds import DynamicEmbedding
from feature_specs.spec import FeatureSpec

# The columns of `<name>_seen`.
_COUNT, _STEP = 0, 1

# A part of the name of the local variable with the rows of a batch. The package looks for this
# name, to keep the variable in the process that trains.
_ROWS = "TrainableWrapper"


@dataclasses.dataclass(frozen=True)
class _Table:
    column: DynamicEmbedding
    rows: Any
    seen: Any
    steps: list[Any] = dataclasses.field(default_factory=list)  # The optimizers that may train it.


_TRAINING: contextvars.ContextVar[Optional[bool]] = contextvars.ContextVar("training", default=None)
_SERVERS: contextvars.ContextVar[int] = contextvars.ContextVar("servers", default=0)


def columns(spec: FeatureSpec) -> list[str]:
    """The names of the dynamic embeddings in the groups of a spec."""
    used = set(spec.used_columns())
    return [name for name in spec.of_kind(DynamicEmbedding) if name in used]


def column_of(spec: FeatureSpec, name: str) -> DynamicEmbedding:
    """The column with a name from `columns`."""
    return spec.of_kind(DynamicEmbedding)[name]


@contextlib.contextmanager
def in_mode(*, training: bool) -> Iterator[None]:
    """Sets whether new values get rows in graphs that are built in the block."""
    token = _TRAINING.set(training)
    try:
        yield
    finally:
        _TRAINING.reset(token)


@contextlib.contextmanager
def on_servers(count: int) -> Iterator[None]:
    """Places the tables of graphs that are built in the block on `count` parameter servers."""
    token = _SERVERS.set(count)
    try:
        yield
    finally:
        _SERVERS.reset(token)


def rows(spec: FeatureSpec, name: str, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The vectors of the values of a batch.

    Args:
      spec: the feature spec.
      name: the name of a dynamic embedding.
      ids: int64 [n]. -1 means missing.

    Returns:
      The vectors, float32 [distinct values + 1, dimension]; and, for each id, the position of its
      vector, int64 [n]. The position is -1 for an id without a row.
    """
    column = column_of(spec, name)
    training = _TRAINING.get()
    if training is None:
        raise ConfigError(
            f"column {name!r} is a dynamic_embedding, which only a ModelFn can read, because it "
            "decides whether new values get rows. Read the column in the logits of a ModelFn."
        )
    de = dynamic_package.library(f"the dynamic_embedding {name!r}")
    present = tf.not_equal(ids, -1)
    values, place, counts = tf.unique_with_counts(tf.boolean_mask(ids, present), out_idx=tf.int64)
    if training:
        vectors, has_row = _trained_rows(de, column, spec.canned_name(name), values, counts)
    else:
        table = _variable(de, column, spec.canned_name(name), "table", dim=column.dimension)
        vectors, has_row = table.lookup(values, return_exists=True)
        vectors = tf.boolean_mask(vectors, has_row)
    # One more row, because the batch may have no value.
    vectors = tf.concat([vectors, tf.zeros([1, column.dimension])], axis=0)
    position = tf.where(has_row, tf.cumsum(tf.cast(has_row, tf.int64)) - 1, -1)
    places = tf.gather(position, place)
    where = tf.where(present)
    none = tf.fill(tf.shape(ids), tf.constant(-1, tf.int64))
    return vectors, tf.tensor_scatter_nd_update(none, where, places)


def _trained_rows(
    de: Any, column: DynamicEmbedding, name: str, values: tf.Tensor, counts: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The vectors of the values that have or get a row, and a bool per value that tells which."""
    table = _variable(
        de,
        column,
        name,
        "table",
        dim=column.dimension,
        initializer=initializer(column),
        trainable=True,
        bp_v2=_SERVERS.get() > 0,
    )
    seen, has_row = None, tf.ones_like(values, tf.bool)
    if column.min_count > 1 or column.max_rows is not None:
        seen = _variable(de, column, name, "seen", dim=2, value_dtype=tf.int64)
        step = tf.compat.v1.train.get_or_create_global_step().read_value() + 1
        now = seen.lookup(values)[:, _COUNT] + counts
        stamp = tf.fill(tf.shape(values), tf.cast(step, tf.int64))
        tf.compat.v1.add_to_collection(
            tf.compat.v1.GraphKeys.UPDATE_OPS, seen.upsert(values, tf.stack([now, stamp], axis=1))
        )
        has_row = now >= column.min_count
    vectors, _ = de.embedding_lookup(
        table, tf.boolean_mask(values, has_row), name=f"{name}/{_ROWS}", return_trainable=True
    )
    # The variable with the rows of the batch refers to this object.
    table.estimator_kit_table = _Table(column, table, seen)
    return vectors, has_row


def _variable(
    de: Any,
    column: DynamicEmbedding,
    name: str,
    part: str,
    *,
    dim: int,
    value_dtype: Any = tf.float32,
    initializer: Any = None,
    **more: Any,
) -> Any:
    # Names of ops become names in the checkpoint, so they must not depend on the name scope.
    with tf.compat.v1.get_default_graph().name_scope(None):
        return de.get_variable(
            f"{name}_{part}",
            key_dtype=tf.int64,
            value_dtype=value_dtype,
            dim=dim,
            devices=_devices(name, column.shards),
            initializer=initializer,
            **{"trainable": False, **more},
        )


def _devices(name: str, shards: int) -> list[str]:
    """The devices of the shards of a column's tables: the servers in turn, or this process.

    A hash of the name chooses the first server, so that columns with one shard are spread out.
    """
    servers = _SERVERS.get()
    if not servers:
        return ["/CPU:0"] * shards
    first = zlib.crc32(name.encode())
    return [f"/job:ps/replica:0/task:{(first + i) % servers}/CPU:0" for i in range(shards)]


def is_dynamic(variable: Any) -> bool:
    """Whether a trainable variable contains the rows of a batch of a dynamic embedding."""
    return hasattr(getattr(variable, "params", None), "estimator_kit_table")


def check_trained(variables: Sequence[Any]) -> None:
    """Raises ConfigError if the step of a graph does not train the tables."""
    for variable in variables:
        if is_dynamic(variable) and not variable.params.estimator_kit_table.steps:
            raise ConfigError(
                f"the train_op does not train the dynamic embedding {variable.op.name}. Make it "
                "with ek.minimize."
            )


def optimizer(made: Any, variables: Sequence[Any]) -> Any:
    """The optimizer, extended to train the rows of dynamic embeddings, including `variables`."""
    for variable in variables:
        variable.params.estimator_kit_table.steps.append(made)
    de = dynamic_package.library("a dynamic_embedding")
    return de.DynamicEmbeddingOptimizer(made, bp_v2=_SERVERS.get() > 0)


def evictions(
    variables: Sequence[Any], optimizers: Sequence[Any], step: tf.Tensor
) -> list[tf.Operation]:
    """The ops that evict rows after a step, if an eviction is due.

    The process that first sees that the step has passed a multiple of `evict_every` evicts.

    Args:
      variables: the trained variables, including the variables of dynamic embeddings.
      optimizers: the optimizers that trained them. Evicting a row also removes its slots.
      step: int64, the global step after this one. In a cluster, other processes may have made steps
        in between.
    """
    tables = [v.params.estimator_kit_table for v in variables if is_dynamic(v)]
    tables = [table for table in tables if table.column.max_rows is not None]
    if not tables:
        return []
    with tf.init_scope():
        last = tf.compat.v1.get_variable(
            "dynamic_tables/last_look",
            initializer=tf.constant(-1, tf.int64),
            trainable=False,
            use_resource=True,
            collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
        )
    with tf.control_dependencies([step]):
        looked = last.read_value()
    # The first check since the session started.
    before = tf.where(looked < 0, step - 1, looked)
    ops = []
    for table in tables:
        every = table.column.evict_every
        slots = [s for optimizer in optimizers for s in table.rows.get_slot_variables(optimizer)]
        due = tf.not_equal(before // every, step // every)

        def evict(table: _Table = table, slots: Sequence[Any] = tuple(slots)) -> tf.Tensor:
            with tf.control_dependencies(_removals(table, slots)):
                return tf.constant(True)

        ops.append(tf.cond(due, evict, lambda: tf.constant(False)).op)
    with tf.control_dependencies(ops):
        return [last.assign(step, read_value=False)]


def loader(names: Collection[str], *, steps_back: int) -> Callable[[Any, str], None]:
    """A function that loads tables of the current graph from the checkpoint of another training.

    Args:
      names: tensors of the checkpoint. A table is loaded if all its tensors are among them.
      steps_back: the number that is subtracted from the loaded steps of `<name>_seen`.
    """
    saveables = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS)
    wanted = [table for table in saveables if {part.name for part in table.specs} <= set(names)]
    saver = tf.compat.v1.train.Saver(wanted, sharded=True)
    ops = []
    for variable in tf.compat.v1.trainable_variables():
        seen: Any = variable.params.estimator_kit_table.seen if is_dynamic(variable) else None
        for i, device in enumerate(seen.devices if seen is not None else ()):
            if seen.tables[i].saveable in wanted:
                with tf.device(device):
                    keys, values = seen.tables[i].export()
                    back = tf.constant([[0, steps_back]], tf.int64)
                    ops.append(seen.tables[i].insert(keys, values - back))

    def load(session: Any, checkpoint: str) -> None:
        saver.restore(session, checkpoint)
        session.run(ops)

    return load


def _removals(table: _Table, slots: Sequence[Any]) -> list[tf.Operation]:
    """Removes rows, and counts of values without a row, beyond `max_rows`, shard by shard."""
    column = table.column
    assert column.max_rows is not None
    limit = column.max_rows // column.shards
    by = _COUNT if column.evict == "rarest" else _STEP
    ops = []
    for i, device in enumerate(table.seen.devices):
        with tf.device(device):
            keys, seen = table.seen.tables[i].export()
            has_row = seen[:, _COUNT] >= column.min_count
            for part, tables in (
                (has_row, [table.rows, table.seen, *slots]),
                (tf.logical_not(has_row), [table.seen]),
            ):
                own, scores = tf.boolean_mask(keys, part), tf.boolean_mask(seen[:, by], part)
                excess = tf.maximum(tf.size(own) - limit, 0)
                _, lowest = tf.math.top_k(-scores, excess, sorted=False)
                removed = tf.gather(own, lowest)
                ops += [each.tables[i].remove(removed) for each in tables]
    return ops
