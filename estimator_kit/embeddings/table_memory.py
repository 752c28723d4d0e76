"""Whether the embedding tables of a model fit into the memory of this machine, before a graph.

    table_memory.check(spec, groups)

Counts the tables alone, as float32: the least that a run needs. An optimizer adds as much again, or
more. Tables that grow, and those of a cluster, which are on other machines, are none of its
concern. Reads what the operating system says; imports no TensorFlow.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Optional

from estimator_kit.errors import ConfigError
from feature_specs.kinds import Embedding
from feature_specs.spec import FeatureSpec

_GIB = 2**30
_FLOAT32 = 4

# Tables that an error lists.
_LISTED = 5

# What a container may use, in the two versions of control groups.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def check(spec: FeatureSpec, groups: Iterable[str], *, memory: Optional[int] = None) -> None:
    """Compares the tables of the columns in some groups with the memory.

    Args:
      spec: the feature spec.
      groups: those that the model reads.
      memory: bytes; by default those of this machine, or of its container.

    Raises:
      ConfigError: the tables take more; with the numbers.
    """
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
        f"{spec.source}: the embedding tables take {_gib(total)}, without what an optimizer adds, "
        f"and this machine has {_gib(memory)} of memory:\n" + "\n".join(lines) + "\nlower the "
        "dimension of an embedding or the size of its column, or train on several machines with "
        "--strategy=parameter_server"
    )


def table_bytes(spec: FeatureSpec, groups: Iterable[str]) -> dict[str, tuple[str, int]]:
    """`{table: (shape, bytes)}`; a table that several columns share is there once."""
    tables, embeddings = {}, spec.of_kind(Embedding)
    for name in dict.fromkeys(name for group in groups for name in spec.groups.get(group, ())):
        if name in embeddings:
            column = embeddings[name]
            rows = spec.size_of(column.source)
            size = rows * column.dimension * _FLOAT32
            tables[column.shared or name] = (f"{rows:,} x {column.dimension}", size)
    return tables


def machine_memory() -> Optional[int]:
    """Bytes of memory that this process may use at most, or None where nobody says."""
    found = []
    with contextlib.suppress(AttributeError, ValueError, OSError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _LIMITS:
        try:
            with open(path, encoding="ascii") as file:
                found.append(int(file.read()))
        except (OSError, ValueError):  # There is none, or it says `max`.
            continue
    return min((size for size in found if size > 0), default=None)


def _gib(size: int) -> str:
    return f"{size / _GIB:,.1f} GiB"
