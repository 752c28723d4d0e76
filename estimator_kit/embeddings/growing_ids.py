"""The ids of `growing` columns in a graph: which value has which row, and when that changes.

    with growing_ids.in_mode(ModeKeys.TRAIN):
        features = growing_ids.looked_up(spec, features)     # ids in the place of keys
        ...                                                  # tables, loss, step
        train_op = growing_ids.after_step(spec, train_op)    # counts, evicts, admits

A set of ids (`Growing.ids_name`) has the variables

    growing/<name>/keys    int64 [rows]: the key of each row, `FREE` if it has none
    growing/<name>/last    int64 [rows + 1], with `evict: oldest`: the step of its last reading. The
                           last place is for all values without a row.
    growing/<name>/counts  the same with `evict: rarest`: how often training has read it

and a hash table from key to row, which is made from `keys` whenever a session or a server starts,
so the two cannot disagree. Another hash table counts the values without a row; the checkpoint of a
training has it. `growing/steps_before` are the steps of earlier trainings, if this one started
warm: all steps below count them. Everything else that has a row for each id is an ordinary
variable: tables, weights of linear models, slots of optimizers, moving averages. So all of
TensorFlow works on them.

After a step, in this order:

1. The readings of the batch are counted.
2. At a step that is a multiple of `evict_every`, as many rows become free as values wait for one
   (those with `min_count` readings or more). Their tables and slots get start values again.
3. At a step that is a multiple of `admit_every`, waiting values get the free rows, the most
   frequent ones first, then by key. A row of a table starts as the row of the bucket that the value
   used so far. So do its moving average, and the slots of FTRL, from which FTRL computes the row at
   its next step. Of the rest, as many as there are rows stay counted, the most frequent ones.

So ids depend on the rows that were read and on the step, and on nothing else: a training that was
killed ends as an undisturbed one. In a cluster, all processes look up and count, and the chief
alone evicts and admits. Two processes that count one value at the same moment may count it once.
A gradient that another process computed before an eviction may still reach the freed row.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.embeddings import growing_rows
from estimator_kit.errors import ConfigError
from estimator_kit.tf_estimator import ModeKeys
from feature_specs.kinds import Growing
from feature_specs.kinds.growing import FREE
from feature_specs.spec import FeatureSpec

SCOPE = "growing"

KEYS = "keys"

# The steps of earlier trainings from which this one started warm. Multiples of all steps together
# are due, so that trainings of a few steps each evict and admit, too.
STEPS_BEFORE = f"{SCOPE}/steps_before"

v1 = tf.compat.v1

_MODE: contextvars.ContextVar[Optional[str]] = contextvars.ContextVar("mode", default=None)
_WRITES: contextvars.ContextVar[bool] = contextvars.ContextVar("writes", default=True)

# The number of ops that look up the keys of a batch.
_PARTS = 4

# A step after which nothing is known about earlier ones.
_UNKNOWN = -1


@contextlib.contextmanager
def in_mode(mode: str) -> Iterator[None]:
    """Sets for what graphs are built in the block. Those for training give values rows."""
    token = _MODE.set(mode)
    try:
        yield
    finally:
        _MODE.reset(token)


@contextlib.contextmanager
def of_task(*, writes: bool) -> Iterator[None]:
    """Sets whether this process is the one that evicts and admits."""
    token = _WRITES.set(writes)
    try:
        yield
    finally:
        _WRITES.reset(token)


def columns(spec: FeatureSpec) -> dict[str, Growing]:
    """The growing columns that a group reads, itself or through another column."""
    names = {spec.ids_of(name) for name in spec.used_columns()}
    return {name: column for name, column in spec.of_kind(Growing).items() if name in names}


def is_state(variable: str) -> bool:
    """Whether a variable of this name says which value has which row."""
    return variable.startswith(f"{SCOPE}/")


def state_of(spec: FeatureSpec, column: str) -> Optional[str]:
    """The scope of the variables of the growing column that makes a column's ids, or None."""
    category = spec.of_kind(Growing).get(spec.ids_of(column))
    return None if category is None else f"{SCOPE}/{category.ids_name(spec)}"


def keys_of(words: Sequence[Any], dtype: str, column: Growing) -> np.ndarray:
    """The keys of values of a feature, int64; `FREE` for a value that no row can have."""
    if dtype == "int64":
        return np.array(words, np.int64).reshape([-1])
    with tf.Graph().as_default(), v1.Session() as session:
        text = tf.constant([str(word) for word in words], tf.string, [len(words)])
        keys: np.ndarray = session.run(tf.strings.to_hash_bucket_fast(text, column.fingerprints))
    return keys


class Used(NamedTuple):
    """How many rows there are, how many have a value, and how many other values are counted."""

    rows: int
    used: int
    waiting: int


def rows_used(reader: Any) -> dict[str, Used]:
    """How full the ids of a checkpoint are, by name.

    Args:
      reader: the result of `tf.train.load_checkpoint`.
    """
    found = {}
    shapes = reader.get_variable_to_shape_map()
    for variable in sorted(shapes):
        scope, _, part = variable.rpartition("/")
        if is_state(variable) and part == KEYS:
            used = int((reader.get_tensor(variable) != FREE).sum())
            waiting = shapes.get(f"{scope}/candidates-keys", [0])[0]
            found[scope[len(SCOPE) + 1 :]] = Used(shapes[variable][0], used, waiting)
    return found


def check_model(model: Any) -> None:
    """Raises ConfigError if a model's parameters do not suit its growing columns."""
    accumulate = model.params.accumulate
    for name, column in columns(model.spec).items():
        for field in ("admit_every", "evict_every"):
            every = getattr(column, field)
            if every % accumulate:
                raise ConfigError(
                    f"the model parameter accumulate is {accumulate}, and {field} of the growing "
                    f"column {name!r} is {every}, expected a multiple: rows must not change "
                    f"between the batches of one step. Use {field}: {every * accumulate}."
                )


def warnings(spec: FeatureSpec, steps: int) -> list[str]:
    """What is wrong with the number of steps of a new training, a sentence for each column."""
    return [
        f"the training has {steps} steps, so no value of the growing column {name!r} gets its own "
        f"id: that happens every {column.admit_every} steps. Lower admit_every."
        for name, column in columns(spec).items()
        if steps < column.admit_every and column.ids_of is None
    ]


def check_strategy(spec: FeatureSpec, strategy: Optional[str]) -> None:
    """Raises ConfigError for a --strategy whose processes each have their own variables."""
    names = list(columns(spec))
    if names and strategy not in (None, "parameter_server", "sync_replicas"):
        raise ConfigError(
            f"--strategy={strategy} cannot train the growing column {names[0]!r}, because each "
            "replica would give its own ids. Train with one process, or with "
            "--strategy=parameter_server or sync_replicas."
        )


@dataclasses.dataclass
class _Ids:
    """A set of ids in a graph, and what the batch reads of it."""

    column: Growing
    keys: Any
    table: Any
    row: Optional[tf.Tensor] = None  # Of each key of the batch; `rows` if it has none.
    new: Optional[tf.Tensor] = None  # The keys of the batch without a row.
    readings: Any = None  # The variable `last` or `counts`.
    candidates: Any = None
    variables: list[Any] = dataclasses.field(default_factory=list)  # A row for each id.


_IDS: weakref.WeakKeyDictionary[tf.Graph, dict[str, _Ids]] = weakref.WeakKeyDictionary()


def looked_up(spec: FeatureSpec, features: Mapping[str, Any]) -> dict[str, Any]:
    """The features, with ids in the place of the keys of growing columns."""
    result, growing = dict(features), spec.of_kind(Growing)
    sets: dict[str, list[str]] = {}
    for name in features:
        column = growing.get(spec.ids_of(name)) if name in spec.columns else None
        if column is not None:
            sets.setdefault(column.ids_name(spec), []).append(name)
    for set_name, names in sets.items():
        column = growing[spec.ids_of(names[0])]
        ids = _make(set_name, column)
        flat = [_flat(features[name]) for name in names]
        found = _lookup(ids, tf.concat(flat, 0))
        parts = tf.split(found, [tf.size(each) for each in flat])
        for name, keys, part in zip(names, flat, parts):
            values = features[name]
            part.set_shape(keys.shape)  # `tf.split` does not know even its rank.
            if isinstance(values, tf.RaggedTensor):
                result[name] = values.with_flat_values(part)
            else:
                result[name] = tf.reshape(part, tf.shape(values))
                result[name].set_shape(values.shape)
    return result


def add(spec: FeatureSpec, column: str, variable: Any) -> None:
    """Notes a variable with a row for each id of a column; nothing if the column does not grow."""
    category = spec.of_kind(Growing).get(spec.ids_of(column))
    if category is not None:
        ids = _IDS.get(v1.get_default_graph(), {}).get(category.ids_name(spec))
        if ids is None:
            raise ConfigError(
                f"column {column!r} reads the growing column of {category.source!r}, whose values "
                "only a ModelFn looks up. Read it in the logits of a ModelFn."
            )
        if all(variable is not each for each in ids.variables):
            ids.variables.append(variable)


def after_step(train_op: Any) -> Any:
    """The op of a step, extended by what happens to ids after it."""
    sets = _IDS.get(v1.get_default_graph(), {})
    if not sets:
        return train_op
    step = v1.train.get_or_create_global_step()
    for name, ids in sets.items():
        with v1.get_default_graph().name_scope(None):
            v1.summary.scalar(f"{SCOPE}/{name}/rows_used", ids.table.size())
    with tf.control_dependencies([train_op]):
        now = tf.cast(step.read_value(), tf.int64) + _number(STEPS_BEFORE, 0).read_value()
        counted = [_count(ids, now) for ids in sets.values()]
    if not _WRITES.get():
        return tf.group(*counted)
    # The step at which this process has last looked.
    looked = _number(f"{SCOPE}/looked", _UNKNOWN, [v1.GraphKeys.LOCAL_VARIABLES])
    with tf.control_dependencies(counted):
        known = looked.read_value()
        # In a cluster, others make steps between two of this process.
        before = tf.where(known < 0, now - 1, known)
        changed = []
        for ids in sets.values():
            ids_op = tf.no_op()
            for every, change in (
                (ids.column.evict_every, _evict),
                (ids.column.admit_every, _admit),
            ):
                with tf.control_dependencies([ids_op]):
                    due = tf.not_equal(before // every, now // every)
                    ids_op = _only_if(due, change, ids, now).op
            changed.append(ids_op)
    with tf.control_dependencies(changed):
        return tf.group(looked.assign(now, read_value=False))


def _number(name: str, start: int, collections: Optional[list[str]] = None) -> Any:
    """An int64 variable at the root of the names."""
    with tf.init_scope(), v1.variable_scope(v1.VariableScope(v1.AUTO_REUSE, name="")):
        return v1.get_variable(
            name, [], tf.int64, v1.constant_initializer(start, tf.int64), trainable=False,
            use_resource=True, partitioner=None, collections=collections,
        )  # fmt: skip


def _flat(values: Any) -> tf.Tensor:
    if isinstance(values, tf.RaggedTensor):
        return values.flat_values
    return tf.reshape(values, [-1])


def _make(name: str, column: Growing) -> _Ids:
    """The ids of a name in the current graph."""
    graph = v1.get_default_graph()
    sets = _IDS.setdefault(graph, {})
    if name in sets:
        return sets[name]
    training = _MODE.get() == ModeKeys.TRAIN

    def variable(part: str, size: int, value: int) -> Any:
        return v1.get_variable(
            part, [size], tf.int64, v1.constant_initializer(value, tf.int64),
            trainable=False, use_resource=True, partitioner=None,
        )  # fmt: skip

    root = v1.VariableScope(v1.AUTO_REUSE, name=f"{SCOPE}/{name}", use_resource=True)
    with v1.variable_scope(root, auxiliary_name_scope=False), graph.name_scope(None):
        keys = variable(KEYS, column.rows, FREE)
        with v1.colocate_with(keys):
            if _MODE.get() == ModeKeys.PREDICT:
                table: Any = _ServedRows(keys, column.rows, f"{SCOPE}/{name}/rows")
            else:
                table = _table(f"{SCOPE}/{name}/rows", column.rows, saved=False)
            ids = sets[name] = _Ids(column, keys, table)
            if training:
                part = "last" if column.evict == "oldest" else "counts"
                ids.readings = variable(part, column.rows + 1, 0)
                ids.candidates = _table(f"{SCOPE}/{name}/candidates", 0, saved=True)
    if _MODE.get() == ModeKeys.PREDICT:
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, table.made)
    elif _WRITES.get():
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, _rebuild(ids))
    return ids


class _ServedRows:
    """The rows of keys in an export: a table that is made once, after the variables are restored.

    With ten million keys it is made six times as fast as a `MutableHashTable`, and answers twice as
    many lookups (`benchmarks/growing.py --lookup`). Its name does not change from export to export,
    as the name of a `tf.lookup.StaticHashTable` does.
    """

    def __init__(self, keys: Any, default: int, name: str):
        self._handle = tf.raw_ops.HashTableV2(
            key_dtype=tf.int64, value_dtype=tf.int64, use_node_name_sharing=True, name=name
        )
        self._default = tf.constant(default, tf.int64)
        used, rows = _used(keys)
        # Without any key, such a table could not be made. So it has one more, as without a row.
        self.made = tf.raw_ops.LookupTableImportV2(
            table_handle=self._handle,
            keys=tf.concat([used, [tf.constant(FREE, tf.int64)]], 0),
            values=tf.concat([rows, [self._default]], 0),
        )

    def lookup(self, keys: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.LookupTableFindV2(
            table_handle=self._handle, keys=keys, default_value=self._default
        )


def _table(name: str, default: int, *, saved: bool) -> Any:
    return tf.lookup.experimental.MutableHashTable(
        tf.int64, tf.int64, default, name=name, checkpoint=saved
    )


def _rebuild(ids: _Ids) -> tf.Operation:
    def rebuilt() -> tf.Tensor:
        old, _ = ids.table.export()
        with tf.control_dependencies([ids.table.remove(old)]):
            inserted = ids.table.insert(*_used(ids.keys))
        with tf.control_dependencies([inserted]):
            return tf.constant(True)

    with v1.colocate_with(ids.keys):
        # Variables may get their start values in the same run, and then no row has a key.
        return tf.cond(ids.keys.is_initialized(), rebuilt, lambda: tf.constant(False)).op


def _used(keys: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """The keys that have a row, and their rows."""
    stored = keys.read_value()
    rows = tf.where(tf.not_equal(stored, FREE))[:, 0]
    return tf.gather(stored, rows), rows


def _lookup(ids: _Ids, keys: tf.Tensor) -> tf.Tensor:
    """The id of each key, int64 [n]; -1 for a missing value."""
    column = ids.column
    # Ops that only read a hash table can run at the same time, on several cores.
    number = tf.size(keys)
    ends = [number * part // _PARTS for part in range(_PARTS + 1)]
    parts = [ids.table.lookup(keys[a:b]) for a, b in zip(ends, ends[1:])]
    ids.row = tf.concat(parts, 0)
    # Most keys have a row, so what follows is for few.
    others = tf.where(tf.equal(ids.row, column.rows))
    ids.new = tf.gather(keys, others[:, 0])
    buckets = tf.math.floormod(ids.new, column.buckets)
    buckets = tf.where(tf.equal(ids.new, FREE), tf.constant(-1, tf.int64), buckets)
    return tf.tensor_scatter_nd_update(ids.row + column.buckets, others, buckets)


def _count(ids: _Ids, now: tf.Tensor) -> tf.Operation:
    assert ids.new is not None and ids.row is not None
    if ids.column.evict == "oldest":
        slices = tf.IndexedSlices(tf.fill(tf.shape(ids.row), now), ids.row)
        read = ids.readings.scatter_update(slices)
    else:
        read = ids.readings.scatter_add(tf.IndexedSlices(tf.ones_like(ids.row), ids.row))
    new = tf.boolean_mask(ids.new, tf.not_equal(ids.new, FREE))
    new, _, times = tf.unique_with_counts(new, out_idx=tf.int64)
    return tf.group(read, ids.candidates.insert(new, ids.candidates.lookup(new) + times))


def _only_if(due: tf.Tensor, change: Any, ids: _Ids, now: tf.Tensor) -> tf.Tensor:
    def changed() -> tf.Tensor:
        with tf.control_dependencies(change(ids, now)):
            return tf.constant(True)

    return tf.cond(due, changed, lambda: tf.constant(False))


def _waiting(ids: _Ids) -> tuple[tf.Tensor, tf.Tensor]:
    """The candidates, the most frequent ones first, then by key; and their counts."""
    keys, counts = (tf.reshape(each, [-1]) for each in ids.candidates.export())
    order = tf.argsort(keys)
    keys, counts = tf.gather(keys, order), tf.gather(counts, order)
    order = tf.argsort(counts, direction="DESCENDING", stable=True)
    return tf.gather(keys, order), tf.gather(counts, order)


def _evict(ids: _Ids, now: tf.Tensor) -> list[tf.Operation]:
    column = ids.column
    keys = ids.keys.read_value()
    is_used = tf.not_equal(keys, FREE)
    _, counts = ids.candidates.export()
    waiting = tf.reduce_sum(tf.cast(counts >= column.min_count, tf.int32))
    used = tf.reduce_sum(tf.cast(is_used, tf.int32))
    number = tf.minimum(tf.maximum(waiting - (column.rows - used), 0), used)
    score = ids.readings.read_value()[: column.rows]
    score = tf.where(is_used, score, tf.constant(tf.int64.max, tf.int64))
    _, lowest = tf.math.top_k(-score, number)  # Of equal ones, the first rows.
    rows = tf.cast(lowest, tf.int64)
    freed = tf.fill(tf.shape(rows), tf.constant(FREE, tf.int64))
    zeros = tf.zeros_like(rows)
    ops = [ids.table.remove(tf.gather(keys, rows))]
    with tf.control_dependencies(ops):
        ops += [
            ids.keys.scatter_update(tf.IndexedSlices(freed, rows)),
            ids.readings.scatter_update(tf.IndexedSlices(zeros, rows)),
        ]
        for whole in growing_rows.everything(ids.variables):
            ops += whole.fill(rows + column.buckets)
    return ops


def _admit(ids: _Ids, now: tf.Tensor) -> list[tf.Operation]:
    column = ids.column
    keys, counts = _waiting(ids)
    free = tf.where(tf.equal(ids.keys.read_value(), FREE))[:, 0]
    due = tf.reduce_sum(tf.cast(counts >= column.min_count, tf.int32))
    number = tf.minimum(due, tf.size(free))
    new, rows = keys[:number], free[:number]
    left = keys[number + column.rows :]
    is_last = column.evict == "oldest"
    read = tf.fill(tf.shape(rows), now) if is_last else counts[:number]
    ops = [
        ids.keys.scatter_update(tf.IndexedSlices(new, rows)),
        ids.readings.scatter_update(tf.IndexedSlices(read, rows)),
        ids.candidates.remove(tf.concat([new, left], 0)),
    ]
    buckets = tf.math.floormod(new, column.buckets)
    for whole in growing_rows.everything(ids.variables):
        if whole.follows:
            ops += whole.copy(buckets, rows + column.buckets)
    with tf.control_dependencies(ops):  # Others find the row when it is ready.
        return [*ops, ids.table.insert(new, rows)]
