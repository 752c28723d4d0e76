"""The memory of embedding tables: whether they fit, and how large ones are split for a ps.

    table_memory.check(spec, groups)
    with table_memory.split_above(mib=64):
        estimator.train(...)         # its graph splits tables of more than 64 MiB

The check comes before a graph is built. It counts only the tables, as float32, and the keys of
growing columns. This is the least memory that a run needs. An optimizer needs as much again, or
more. It does not count tables of a cluster, which are on other machines. It reads the memory from
the operating system.

A checkpoint contains each table as one tensor, because TensorFlow's savers join the pieces of a
variable. Code without pieces can therefore read it. A table with pretrained vectors is not split.
The limit applies to the table. The slots of its optimizer are split in the same way.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import os
from collections.abc import Iterable, Iterator
from typing import Any, Optional

from estimator_kit.errors import ConfigError
from feature_specs.kinds import Embedding, Growing
from feature_specs.spec import FeatureSpec

_GIB = 2**30
_FLOAT32 = 4

# A key of a growing column, its last reading, and its entry in the hash table.
# `benchmarks/growing.py` shows about 100 for 50 million rows, with the arrays from which the hash
# table is made.
_BYTES_OF_A_KEY = 64

# TensorFlow's gradient of a lookup has the shape of the table in int32.
_MOST_ROWS = 2**31

# The number of tables that an error lists.
_LISTED = 5

# The memory limit of a container, in the two versions of control groups.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def check(spec: FeatureSpec, groups: Iterable[str], *, memory: Optional[int] = None) -> None:
    """Compares the size of the tables of some groups with the memory.

    Args:
      spec: the feature spec.
      groups: the groups that the model reads.
      memory: the memory in bytes. The default is the memory of this machine or container.

    Raises:
      ConfigError: the tables need more memory, or one has more rows than TensorFlow can train.
    """
    _check_rows(spec, groups)
    memory = machine_memory() if memory is None else memory
    if memory is None:
        return
    tables = table_bytes(spec, groups)
    total = sum(size for _, size in tables.values())
    if total <= memory:
        return
    largest = sorted(tables.items(), key=lambda table: -table[1][1])
    lines = [f"  {name}: {shape}, {_gib(size)}" for name, (shape, size) in largest[:_LISTED]]
    if len(largest) > _LISTED:
        lines.append(f"  and {len(largest) - _LISTED} smaller ones")
    raise ConfigError(
        f"{spec.source}: the embedding tables need {_gib(total)}, not counting the optimizer, but "
        f"this machine has {_gib(memory)} of memory:\n" + "\n".join(lines) + "\nLower the "
        "dimension of an embedding or the size of its column, or train on several machines with "
        "--strategy=parameter_server."
    )


def _check_rows(spec: FeatureSpec, groups: Iterable[str]) -> None:
    """Checks tables of embeddings and the weights of linear models."""
    embeddings = spec.of_kind(Embedding)
    for name in dict.fromkeys(name for group in groups for name in spec.groups.get(group, ())):
        source = embeddings[name].source if name in embeddings else name
        with contextlib.suppress(TypeError):  # A column without ids.
            rows = spec.size_of(source)
            if rows >= _MOST_ROWS:
                raise ConfigError(
                    f"{spec.source}: column {name!r} has a table of {rows:,} rows, expected fewer "
                    f"than {_MOST_ROWS:,}, because gradients in TensorFlow count rows with 32 "
                    f"bits. Lower the size of {source!r}."
                )


def table_bytes(spec: FeatureSpec, groups: Iterable[str]) -> dict[str, tuple[str, int]]:
    """`{table: (shape, bytes)}`. A table that several columns share is listed once."""
    tables, embeddings, growing = {}, spec.of_kind(Embedding), spec.of_kind(Growing)
    for name in dict.fromkeys(name for group in groups for name in spec.groups.get(group, ())):
        ids = growing.get(spec.ids_of(name))
        if ids is not None:
            size = ids.rows * _BYTES_OF_A_KEY
            tables[f"keys of {ids.ids_name(spec)}"] = (f"{ids.rows:,}", size)
        if name in embeddings:
            column = embeddings[name]
            rows = spec.size_of(column.source)
            size = rows * column.dimension * _FLOAT32
            tables[column.table or name] = (f"{rows:,} x {column.dimension}", size)
    return tables


def machine_memory() -> Optional[int]:
    """The number of bytes of memory that this process may use, or None if it is unknown."""
    sizes = []
    with contextlib.suppress(AttributeError, ValueError, OSError):
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _LIMITS:
        try:
            with open(path, encoding="ascii") as file:
                sizes.append(int(file.read()))
        except (OSError, ValueError):  # The file does not exist, or contains `max`.
            continue
    return min((size for size in sizes if size > 0), default=None)


def _gib(size: int) -> str:
    return f"{size / _GIB:,.1f} GiB"


_LIMIT: contextvars.ContextVar[Optional[float]] = contextvars.ContextVar("limit", default=None)


@contextlib.contextmanager
def split_above(mib: Optional[float]) -> Iterator[None]:
    """Limits pieces of tables in graphs built in the block to `mib` MiB. None splits nothing."""
    token = _LIMIT.set(mib)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def pieces(rows: int, width: int, mib: float) -> int:
    """The number of pieces of a table. 1,000,000 rows of 32 numbers in 64 MiB make 2 pieces."""
    return min(rows, math.ceil(rows * width * _FLOAT32 / (mib * 2**20)))


def partitioner(rows: int, width: int) -> Optional[Any]:
    """The partitioner of a table of the graph that is being built, or None for one piece."""
    limit = _LIMIT.get()
    count = pieces(rows, width, limit) if limit is not None else 1
    import tensorflow as tf  # Not above: a validation checks the memory without TensorFlow.

    return tf.compat.v1.fixed_size_partitioner(count) if count > 1 else None
