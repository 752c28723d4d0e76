"""Makes many columns of a batch with the same few ops, where their kinds allow it.

    batch.made.update(numbers(batch))       # all numeric columns, checked
    batch.made.update(ids(batch))           # hash, identity and bucketized columns of one value
    batch.present.update(present(batch))    # for the other columns
    masked(columns)                         # -1 for missing values, in all columns at once

An op for each column costs time in each step, and more time where a graph is made: TensorFlow
optimizes and places each op. So features of one value are stacked, transformed together and taken
apart again. The ids are equal to the ids that `kinds` makes, bit for bit. `kinds` makes all columns
that this module leaves out, for example lists, vocabularies and crosses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar, Union

import tensorflow as tf

from feature_specs.kinds import Bucketized, Crossed, HashBucket, Identity, IsMissing, Numeric
from feature_specs.kinds.missing import marker
from feature_specs.kinds.normalizers import Log1p
from feature_specs.reference.ops import replaced_fn, side_by_side_fn
from input_pipelines.transform import checks, kinds
from input_pipelines.transform.batch import Batch, Ids, is_present

_Entry = TypeVar("_Entry")
_Key = TypeVar("_Key", bound=Hashable)


def numbers(batch: Batch) -> dict[str, tf.Tensor]:
    """The numeric columns, float32 [rows, n], after their normalizers.

    One check for NaN covers all small columns. Decoded columns get separate checks without a copy.
    """
    spec = batch.spec
    columns = spec.of_kind(Numeric)
    large = [n for n, c in columns.items() if spec.features[c.source].decode is not None]
    small = [name for name in columns if name not in large]
    # The last bit of a logarithm depends on the place in the tensor, and may change a bucket.
    alone = {c.source for c in spec.of_kind(Bucketized).values() if c.below(spec)}

    def like(name: str) -> Hashable:
        steps = tuple(type(step) for step in columns[name].normalizer)
        kept = name if name in alone and Log1p in steps else None
        return batch.parsed[columns[name].source].dtype, steps, kept

    blocks = _grouped(small, like).values()
    result: dict[str, tf.Tensor] = {}
    if small:
        names = [name for block in blocks for name in block]
        tensors = [_block(batch, {name: columns[name] for name in block}) for block in blocks]
        checked = checks.all_finite(
            small, tf.concat(tensors, axis=1) if len(tensors) > 1 else tensors[0]
        )
        widths = [columns[name].width(spec) for name in names]
        parts = tf.split(checked, widths, axis=1) if len(names) > 1 else [checked]
        result.update(zip(names, parts))
    for name in large:
        block = _block(batch, {name: columns[name]})
        result[name] = checks.all_finite([name], block)
    return {name: result[name] for name in columns}


def _block(batch: Batch, columns: Mapping[str, Numeric]) -> tf.Tensor:
    """Normalized columns side by side: float32 [rows, sum of widths]."""
    sources = [column.source for column in columns.values()]
    widths = [column.width(batch.spec) for column in columns.values()]
    if len(sources) > 1 and all(batch.spec.features[source].single for source in sources):
        values = tf.stack([batch.parsed[source] for source in sources], axis=1)
    else:
        parts = [tf.reshape(batch.parsed[s], [-1, width]) for s, width in zip(sources, widths)]
        values = tf.concat(parts, axis=1) if len(parts) > 1 else parts[0]
    replace = replaced_fn([column.replaced(batch.spec) for column in columns.values()], widths)
    if replace is not None:
        values = replace(values)
    return side_by_side_fn([column.normalizer for column in columns.values()], widths)(values)


def ids(batch: Batch) -> dict[str, Ids]:
    """The columns of one value whose ids can be made together. `batch.made` has the numbers.

    Missing ids are already -1.
    """
    return {**_hashes(batch), **_identities(batch), **_buckets(batch), **_flags(batch)}


def _hashes(batch: Batch) -> dict[str, Ids]:
    """One op hashes all columns of one size and dtype."""
    kind = batch.spec.of_kind(HashBucket)
    columns = {n: column for n, column in kind.items() if _is_single(batch, column.source)}
    result: dict[str, Ids] = {}
    groups = _grouped(columns, lambda n: (batch.parsed[columns[n].source].dtype, columns[n].size))
    for (_, size), names in groups.items():
        words = _stacked([batch.parsed[columns[name].source] for name in names])
        salts = [columns[name].salt for name in names]
        salt = tf.constant([[s] for s in salts] if len(names) > 1 else salts[0])
        ids_of = kinds.hashed(words, size, salt if any(salts) else None)
        hashed = Ids(ids_of, is_present(words))
        result.update(zip(names, map(Ids, _parts(hashed.masked(), len(names)))))
    return result


def _identities(batch: Batch) -> dict[str, Ids]:
    """One check for all columns without a default, and one replacement for those with one."""
    kind = batch.spec.of_kind(Identity)
    # A cross distinguishes a missing id from the id -1.
    crossed = {key for cross in batch.spec.of_kind(Crossed).values() for key in cross.sources}
    columns = {n: c for n, c in kind.items() if _is_single(batch, c.source) and n not in crossed}
    result = {}
    groups = _grouped(columns, lambda name: columns[name].default_id is not None)
    for has_default, names in groups.items():
        if len(names) < 2:
            continue
        group = [columns[name] for name in names]
        values = tf.stack([batch.parsed[column.source] for column in group])
        has_id = is_present(values)
        if has_default:
            sizes, defaults = (
                tf.constant([[getattr(column, field)] for column in group], tf.int64)
                for field in ("size", "default_id")
            )
            id_values = tf.where((values < 0) | (values >= sizes), defaults, values)
        else:  # A missing value is not an error.
            id_values = checks.all_in_range(group, tf.where(has_id, values, tf.zeros_like(values)))
        # TensorFlow Lite cannot unstack int64.
        parts = tf.split(Ids(id_values, has_id).masked(), [1] * len(names))
        shape = tf.constant([-1])
        result.update({n: Ids(tf.reshape(part, shape)) for n, part in zip(names, parts)})
    return result


def _buckets(batch: Batch) -> dict[str, Ids]:
    """The buckets of single numbers. One op makes the buckets with the same boundaries."""
    spec = batch.spec
    columns = {
        name: column
        for name, column in spec.of_kind(Bucketized).items()
        if spec.features[column.numeric(spec).source].width == 1
    }
    numbers = {name: kinds.compared(batch, column) for name, column in columns.items()}
    limits = {name: column.limits(spec) for name, column in columns.items()}
    names, parts = [], []
    like = _grouped(columns, lambda name: (numbers[name].dtype, columns[name].missing))
    for (_, missing), alike in like.items():
        blocks, order = [], []
        for _, group in _grouped(alike, lambda name: limits[name]).items():
            tensors = [numbers[name] for name in group]
            values = tf.concat(tensors, axis=1) if len(tensors) > 1 else tensors[0]
            blocks.append(kinds.bucket_of(values, limits[group[0]]))
            order += group
        part = tf.concat(blocks, axis=1) if len(blocks) > 1 else blocks[0]
        if missing is not None:
            part = kinds.with_missing(batch, [columns[name] for name in order], part)
        names += order
        parts.append(part)
    if not names:
        return {}
    together = tf.concat(parts, axis=1) if len(parts) > 1 else parts[0]
    # TensorFlow Lite cannot unstack int64.
    single = tf.unstack(together, num=len(names), axis=1)
    return {name: Ids(tf.cast(bucket, tf.int64)) for name, bucket in zip(names, single)}


def _flags(batch: Batch) -> dict[str, Ids]:
    """Whether single values are missing. One op compares all of a dtype."""
    spec = batch.spec
    kind = spec.of_kind(IsMissing)
    columns = {name: c for name, c in kind.items() if _is_single(batch, c.source)}
    result: dict[str, Ids] = {}
    for dtype, names in _grouped(columns, lambda n: batch.parsed[columns[n].source].dtype).items():
        sources = [columns[name].source for name in names]
        values = tf.stack([batch.parsed[source] for source in sources])
        if dtype == tf.float32:
            values = checks.all_finite(names, values)
        markers = tf.constant([[marker(spec.features[source])] for source in sources], dtype)
        # TensorFlow Lite cannot unstack int64.
        flags = tf.unstack(tf.cast(tf.equal(values, markers), tf.int32), num=len(names))
        result.update({n: Ids(tf.cast(flag, tf.int64)) for n, flag in zip(names, flags)})
    return result


def present(batch: Batch) -> dict[str, tf.Tensor]:
    """`Batch.present_of` of features of one value, for columns that are not made yet."""
    sources = [
        source
        for name, column in batch.spec.columns.items()
        if column.looks_up and name not in batch.made
        for source in column.features(batch.spec)
        if _is_single(batch, source)
    ]
    result: dict[str, tf.Tensor] = {}
    for features in _grouped(dict.fromkeys(sources), lambda s: batch.parsed[s].dtype).values():
        values = _stacked([batch.parsed[source] for source in features])
        result.update(zip(features, _parts(is_present(values), len(features))))
    return result


def masked(
    columns: Mapping[str, Union[Ids, tf.Tensor, tf.RaggedTensor]],
) -> dict[str, Union[tf.Tensor, tf.RaggedTensor]]:
    """The values of columns, with -1 for each missing id."""
    some = {
        n: ids for n, ids in columns.items() if isinstance(ids, Ids) and ids.present is not None
    }
    result = {n: ids.values if isinstance(ids, Ids) else ids for n, ids in columns.items()}
    if some:
        values = _stacked([ids.values for ids in some.values()])
        has_id = _stacked([ids.present for ids in some.values()])
        result.update(zip(some, _parts(Ids(values, has_id).masked(), len(some))))
    return result


def _is_single(batch: Batch, source: str) -> bool:
    return source in batch.parsed and batch.spec.features[source].single


def _grouped(entries: Iterable[_Entry], key: Callable[[_Entry], _Key]) -> dict[_Key, list[_Entry]]:
    result: dict[_Key, list[_Entry]] = defaultdict(list)
    for entry in entries:
        result[key(entry)].append(entry)
    return result


def _stacked(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """[tensors, rows], or the only tensor [rows]."""
    return tf.stack(tensors) if len(tensors) > 1 else tensors[0]


def _parts(tensor: tf.Tensor, count: int) -> list[tf.Tensor]:
    """The opposite of `_stacked`."""
    return tf.unstack(tensor, num=count) if count > 1 else [tensor]
