"""tf.contrib.data: transformations of datasets.

Most come from `tf.data.experimental` and have the same arguments. `Dataset` and the readers
are of TensorFlow 1.3, whose programs are served too.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import Any, Callable

import tensorflow.compat.v1 as tf
from tensorflow.python.util import nest

from . import _sources

__all__ = """
    AUTOTUNE CheckpointInputPipelineHook Counter CsvDataset Dataset FixedLengthRecordDataset
    Iterator Optional RandomDataset Reducer SqlDataset TFRecordDataset TFRecordWriter
    TextLineDataset assert_element_shape batch_and_drop_remainder bucket_by_sequence_length
    choose_from_datasets copy_to_device dense_to_sparse_batch enumerate_dataset
    get_next_as_optional get_single_element group_by_reducer group_by_window ignore_errors
    make_batched_features_dataset make_csv_dataset make_saveable_from_iterator map_and_batch
    padded_batch_and_drop_remainder parallel_interleave parse_example_dataset prefetch_to_device
    read_batch_features reduce_dataset rejection_resample sample_from_datasets scan
    shuffle_and_repeat sloppy_interleave unbatch unique
""".split()

OLD_PATHS = tuple(
    f"python.ops.{name}"
    for name in """
        batching counter enumerate_ops error_ops get_single_element grouping interleave_ops
        iterator_ops optional_ops parsing_ops prefetching_ops random_ops readers resampling
        scan_ops shuffle_ops threadpool unique writers
    """.split()
)

REMEDIES = {
    "LMDBDataset": "Convert the LMDB files to TFRecords and use tf.data.TFRecordDataset.",
    "override_threadpool": "Set threading.private_threadpool_size of tf.data.Options.",
    "sliding_window_batch": "Use dataset.window(size, shift, stride, drop_remainder=True) and "
    "flat_map with a batch of each window.",
}

__getattr__ = _sources.lookup(__name__, ["tensorflow._api.v2.compat.v1.data.experimental"])

Transformation = Callable[[Any], Any]

Dataset = tf.data.Dataset
FixedLengthRecordDataset = tf.data.FixedLengthRecordDataset
Iterator = tf.data.Iterator
Optional = tf.data.experimental.Optional
TFRecordDataset = tf.data.TFRecordDataset
TextLineDataset = tf.data.TextLineDataset


def batch_and_drop_remainder(batch_size: int) -> Transformation:
    """Batches of exactly `batch_size` elements; a last smaller batch is left out."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
    batch_size: int, padded_shapes: Any, padding_values: Any = None
) -> Transformation:
    """Padded batches of exactly `batch_size` elements; a last smaller batch is left out."""
    return lambda dataset: dataset.padded_batch(
        batch_size, padded_shapes, padding_values, drop_remainder=True
    )


def sloppy_interleave(
    map_func: Callable[..., Any], cycle_length: int, block_length: int = 1
) -> Transformation:
    """`parallel_interleave` that does not keep the order of its elements."""
    return tf.data.experimental.parallel_interleave(  # type: ignore[no-any-return]
        map_func, cycle_length, block_length, sloppy=True
    )


def assert_element_shape(expected_shapes: Any) -> Transformation:
    """Fails on an element that does not have a shape compatible with `expected_shapes`.

    Args:
      expected_shapes: a `tf.TensorShape`, or a structure of them like the elements.
    """

    def check(*element: Any) -> Any:
        value = element[0] if len(element) == 1 else element
        return nest.map_structure_up_to(value, tf.ensure_shape, value, expected_shapes)

    return lambda dataset: dataset.map(check)


def reduce_dataset(dataset: Any, reducer: Any) -> Any:
    """The result of a `Reducer` over all elements, as tensors."""
    grouped = dataset.apply(
        tf.data.experimental.group_by_reducer(lambda *_: tf.constant(0, tf.int64), reducer)
    )
    return tf.data.experimental.get_single_element(grouped)


def read_batch_features(
    file_pattern: Any,
    batch_size: int,
    features: Any,
    reader: Any = tf.data.TFRecordDataset,
    reader_args: typing.Optional[Sequence[Any]] = None,
    randomize_input: bool = True,
    num_epochs: typing.Optional[int] = None,
    capacity: int = 10000,
) -> Any:
    """Tensors of the next batch of parsed `tf.train.Example` records: a dict by feature."""
    dataset = tf.data.experimental.make_batched_features_dataset(
        file_pattern,
        batch_size,
        features,
        reader=reader,
        reader_args=reader_args,
        num_epochs=num_epochs,
        shuffle=randomize_input,
        shuffle_buffer_size=capacity,
    )
    return tf.data.make_one_shot_iterator(dataset).get_next()
