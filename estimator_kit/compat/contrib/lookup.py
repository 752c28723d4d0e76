"""tf.contrib.lookup: lookup tables, from `tensorflow.python.ops.lookup_ops`.

The functions have the argument names of tf.contrib, such as `mapping`.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import lookup_ops

from . import _sources

__all__ = """
    FastHashSpec HashTable HasherSpec IdTableWithHashBuckets InitializableLookupTableBase
    KeyValueTensorInitializer LookupInterface MutableDenseHashTable MutableHashTable StrongHashSpec
    TableInitializerBase TextFileIdTableInitializer TextFileIndex TextFileInitializer
    TextFileStringTableInitializer index_table_from_file index_table_from_tensor index_to_string
    index_to_string_table_from_file index_to_string_table_from_tensor string_to_index
    string_to_index_table_from_file string_to_index_table_from_tensor
""".split()

OLD_PATHS = ("lookup_ops",)

__getattr__ = _sources.lookup(__name__, [lookup_ops.__name__])

InitializableLookupTableBase = lookup_ops.InitializableLookupTableBase
MutableDenseHashTable = lookup_ops.DenseHashTable


class HashTable(lookup_ops.StaticHashTableV1):
    """A table that does not change after its initialization."""

    def __init__(
        self,
        initializer: Any,
        default_value: Any,
        shared_name: Optional[str] = None,
        name: str = "hash_table",
    ) -> None:
        """`shared_name` is accepted and ignored: every table has a separate name."""
        super().__init__(initializer, default_value, name=name)

    @property
    def init(self) -> Any:
        """The operation that fills the table."""
        return self.initializer


def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = lookup_ops.FastHashSpec,
    dtype: Any = tf.string,
    name: Optional[str] = None,
) -> Any:
    """A table from each value of `mapping` to its place."""
    return lookup_ops.index_table_from_tensor(
        mapping, num_oov_buckets, default_value, hasher_spec, dtype, name
    )


def index_to_string_table_from_tensor(
    mapping: Any, default_value: str = "UNK", name: Optional[str] = None
) -> Any:
    """A table from each place in `mapping` to the string there."""
    return lookup_ops.index_to_string_table_from_tensor(mapping, default_value, name)


def string_to_index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: Optional[int] = None,
    default_value: int = -1,
    hasher_spec: Any = lookup_ops.FastHashSpec,
    name: Optional[str] = None,
) -> Any:
    """A table from each line of a file to its number."""
    return lookup_ops.index_table_from_file(
        vocabulary_file, num_oov_buckets, vocab_size, default_value, hasher_spec, name=name
    )


def string_to_index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = lookup_ops.FastHashSpec,
    name: Optional[str] = None,
) -> Any:
    """A table from each string of `mapping` to its place."""
    return index_table_from_tensor(mapping, num_oov_buckets, default_value, hasher_spec, name=name)


def string_to_index(
    tensor: Any, mapping: Any, default_value: int = -1, name: Optional[str] = None
) -> Any:
    """The place in `mapping` of each string of `tensor`."""
    return index_table_from_tensor(mapping, default_value=default_value, name=name).lookup(tensor)


def index_to_string(
    tensor: Any, mapping: Any, default_value: str = "UNK", name: Optional[str] = None
) -> Any:
    """The string of `mapping` at each place of `tensor`."""
    return index_to_string_table_from_tensor(mapping, default_value, name).lookup(tensor)
