"""The rows that an export is tested with: records, and what the input pipeline makes of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from feature_specs.schema import FeatureSpec
from input_pipelines import raw_inputs, tfrecords
from input_pipelines.autograph import as_written
from input_pipelines.input_fns import predict_input_fn
from input_pipelines.record_parsing import RecordParser

ROWS = 100


@dataclasses.dataclass(frozen=True)
class SampleRows:
    """Some rows of files, in their order.

    Attributes:
      files: where they are from.
      records: serialized, as they are stored.
      features: what `predict_input_fn` gives for them, as a session returns it.
      raw: the same rows as the tensors of a request; see `raw_inputs`.
      sendable: bool [rows]; which rows of `raw` mean what their records do.
    """

    files: tuple[str, ...]
    records: Sequence[bytes]
    features: Mapping[str, Any]
    raw: Mapping[str, np.ndarray]
    sendable: np.ndarray

    @property
    def sent(self) -> dict[str, np.ndarray]:
        """`raw` of the rows that can be sent."""
        return {name: values[self.sendable] for name, values in self.raw.items()}


def sample_rows(
    spec: FeatureSpec,
    files: Sequence[str],
    *,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    count: int = ROWS,
) -> Optional[SampleRows]:
    """The first rows of the sorted files, or None when there is none.

    Raises whatever reading them raises (in TensorFlow's words; see `session_errors.explained`).
    """
    with tf.Graph().as_default(), tf.compat.v1.Session(config=on_cpu()) as session:
        features = _first(predict_input_fn(spec, files, batch_size=count, damaged=damaged)())
        records = _first(_records(files, count, damaged))
        flat = RecordParser(spec).flat(records, with_labels=False)
        session.run(tf.compat.v1.tables_initializer())
        session.run(tf.compat.v1.get_collection(_ITERATORS))
        tf.compat.v1.get_default_graph().clear_collection(_ITERATORS)
        try:
            values, stored, parts = session.run([features, records, flat])
        except tf.errors.OutOfRangeError:
            return None
    return SampleRows(
        tuple(sorted(files)), list(stored), values, raw_inputs.filled(spec, parts),
        raw_inputs.sendable(spec, parts),
    )  # fmt: skip


def on_cpu() -> Any:
    """A session's config that leaves accelerators to the training, and answers alike anywhere."""
    return tf.compat.v1.ConfigProto(allow_soft_placement=True, device_count={"GPU": 0})


_ITERATORS = "estimator_kit/sample_iterators"


def _first(dataset: tf.data.Dataset) -> Any:
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
    tf.compat.v1.add_to_collection(_ITERATORS, iterator.initializer)
    return iterator.get_next()


@as_written
def _records(files: Sequence[str], count: int, damaged: tfrecords.Damaged) -> tf.data.Dataset:
    return tfrecords.blocks(sorted(files), damaged=damaged).rebatch(count)
