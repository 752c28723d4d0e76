"""Tables of dynamic embeddings in a graph: which values have a row, and which lose theirs.

    rows          the vectors of a batch's values; in training, new values get theirs here
    optimizer     an optimizer that can step on such rows
    evictions     what goes after a step
    loader        fills tables from another training's checkpoint
    in_mode       says what the graph is for, which `ModelFn` does

The tables, their slots and their saving are those of tensorflow-recommenders-addons (`de`). Beside
each one that counts or evicts stands another of its tables, `<name>_seen`: for each value that was
read, how often, and at which step last. In training a step reads the rows of its values into a
local variable, steps on that, and writes it back; elsewhere tables are only read.

On parameter servers the shards of a table lie on the servers in turn. Steps are added to what is
there, so that none is lost where several processes train one row. Counts are not: where two read
one value at the same moment, one reading may count for both.
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
from feature_specs.embeddings.initializers import initializer
from feature_specs.kinds import DynamicEmbedding
from feature_specs.reference.naming import canned_name
from feature_specs.spec import FeatureSpec

# The columns of `<name>_seen`.
_COUNT, _STEP = 0, 1

# Parts of the name of the local variable that holds a batch's rows. The package looks for it, to
# leave the variable in the process that trains.
_ROWS = "TrainableWrapper"


@dataclasses.dataclass(frozen=True)
class _Table:
    column: DynamicEmbedding
    rows: Any
    seen: Any
    steps: list[Any] = dataclasses.field(default_factory=list)  # Optimizers that may train it.


_TRAINING: contextvars.ContextVar[Optional[bool]] = contextvars.ContextVar("training", default=None)
_SERVERS: contextvars.ContextVar[int] = contextvars.ContextVar("servers", default=0)


def columns(spec: FeatureSpec) -> list[str]:
    """The dynamic embeddings of a spec's groups."""
    used = set(spec.used_columns())
    return [name for name in spec.of_kind(DynamicEmbedding) if name in used]


def column_of(spec: FeatureSpec, name: str) -> DynamicEmbedding:
    """A column of `columns`."""
    return spec.of_kind(DynamicEmbedding)[name]


@contextlib.contextmanager
def in_mode(*, training: bool) -> Iterator[None]:
    """Whether new values get rows in a graph that is built in the block."""
    token = _TRAINING.set(training)
    try:
        yield
    finally:
        _TRAINING.reset(token)


@contextlib.contextmanager
def on_servers(count: int) -> Iterator[None]:
    """Graphs that are built in the block have tables on so many parameter servers; 0 for none."""
    token = _SERVERS.set(count)
    try:
        yield
    finally:
        _SERVERS.reset(token)


def rows(spec: FeatureSpec, name: str, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The vectors of a batch's values.

    Args:
      spec: the feature spec.
      name: a dynamic embedding.
      ids: int64 [n], -1 for none.

    Returns:
      float32 [different values + 1, dimension], and int64 [n]: where in it each id has its vector,
      -1 for one without a row.
    """
    column = column_of(spec, name)
    training = _TRAINING.get()
    if training is None:
        raise ConfigError(
            f"column {name!r} is a dynamic_embedding, which only a ModelFn reads: it says whether "
            "new values get rows"
        )
    de = dynamic_package.library(f"the dynamic_embedding {name!r}")
    there = tf.not_equal(ids, -1)
    values, place, counts = tf.unique_with_counts(tf.boolean_mask(ids, there), out_idx=tf.int64)
    if training:
        vectors, known = _trained_rows(de, column, canned_name(spec, name), values, counts)
    else:
        table = _variable(de, column, canned_name(spec, name), "table", dim=column.dimension)
        vectors, known = table.lookup(values, return_exists=True)
        vectors = tf.boolean_mask(vectors, known)
    # One row more, as there may be no value at all.
    vectors = tf.concat([vectors, tf.zeros([1, column.dimension])], axis=0)
    position = tf.where(known, tf.cumsum(tf.cast(known, tf.int64)) - 1, -1)
    found = tf.gather(position, place)
    where = tf.where(there)
    none = tf.fill(tf.shape(ids), tf.constant(-1, tf.int64))
    return vectors, tf.tensor_scatter_nd_update(none, where, found)


def _trained_rows(
    de: Any, column: DynamicEmbedding, name: str, values: tf.Tensor, counts: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The vectors of those values that have a row, or get one, and bool: which these are."""
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
    seen, known = None, tf.ones_like(values, tf.bool)
    if column.min_count > 1 or column.max_rows is not None:
        seen = _variable(de, column, name, "seen", dim=2, value_dtype=tf.int64)
        step = tf.compat.v1.train.get_or_create_global_step().read_value() + 1
        now = seen.lookup(values)[:, _COUNT] + counts
        stamp = tf.fill(tf.shape(values), tf.cast(step, tf.int64))
        tf.compat.v1.add_to_collection(
            tf.compat.v1.GraphKeys.UPDATE_OPS, seen.upsert(values, tf.stack([now, stamp], axis=1))
        )
        known = now >= column.min_count
    vectors, _ = de.embedding_lookup(
        table, tf.boolean_mask(values, known), name=f"{name}/{_ROWS}", return_trainable=True
    )
    # Found again by the variable of the batch's rows, which refers to it.
    table.estimator_kit_table = _Table(column, table, seen)
    return vectors, known


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
    # Their names in a checkpoint are those of ops, which must not depend on what is around them.
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
    """Where the shards of a column's tables lie: on each server in turn, or in this process.

    The name chooses the first server, so that columns of one shard are not all on the same.
    """
    servers = _SERVERS.get()
    if not servers:
        return ["/CPU:0"] * shards
    first = zlib.crc32(name.encode())
    return [f"/job:ps/replica:0/task:{(first + i) % servers}/CPU:0" for i in range(shards)]


def is_dynamic(variable: Any) -> bool:
    """Whether a trainable variable holds a batch's rows of a dynamic embedding."""
    return hasattr(getattr(variable, "params", None), "estimator_kit_table")


def check_trained(variables: Sequence[Any]) -> None:
    """Raises ConfigError where a graph's step does not reach the tables."""
    for variable in variables:
        if is_dynamic(variable) and not variable.params.estimator_kit_table.steps:
            raise ConfigError(
                f"the train_op does not train the dynamic embedding {variable.op.name}; make it "
                "with ek.minimize"
            )


def optimizer(made: Any, variables: Sequence[Any]) -> Any:
    """The optimizer, changed so that it can step on rows of dynamic embeddings, these too."""
    for variable in variables:
        variable.params.estimator_kit_table.steps.append(made)
    de = dynamic_package.library("a dynamic_embedding")
    return de.DynamicEmbeddingOptimizer(made, bp_v2=_SERVERS.get() > 0)


def evictions(
    variables: Sequence[Any], optimizers: Sequence[Any], step: tf.Tensor
) -> list[tf.Operation]:
    """What goes after a step, where that is due.

    Who first sees that the step is beyond a multiple of `evict_every` evicts: the look is shared.

    Args:
      variables: trained ones, those of dynamic embeddings among them.
      optimizers: that have trained them; their slots of a row go with it.
      step: int64, the global step after this one. In a cluster other steps may have come between.
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
    # Nobody has looked since a session began.
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
    """What loads tables of the current graph from a checkpoint of another training.

    Args:
      names: tensors of the checkpoint; a table is loaded if it is made of them.
      steps_back: by how much the steps of `<name>_seen` are set back, once they are loaded.
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
    """Removes what is beyond `max_rows`, shard by shard: rows, and values that wait for one."""
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
