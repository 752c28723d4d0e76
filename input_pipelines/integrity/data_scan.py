"""Looks at every record of many files, several files at a time: what cannot be read or used?

A clean file costs what reading it with TensorFlow costs, and parsing it where a spec is given, both
in C++ and without the interpreter's lock; so the files are spread over threads. The result depends
on the files and the spec alone: each of several workers finds the same. Reads only.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Sequence
from typing import Optional

import tensorflow as tf
from google.protobuf.message import DecodeError

from feature_specs.spec import FeatureSpec
from input_pipelines.cores import cores
from input_pipelines.integrity import diagnosis
from input_pipelines.integrity.file_check import FileCheck, FileReport, Progress


def scan(
    files: Sequence[str],
    *,
    spec: Optional[FeatureSpec] = None,
    with_labels: bool = True,
    workers: Optional[int] = None,
    progress: Progress = lambda size, bad: None,
) -> list[FileReport]:
    """What is in each of some TFRecord files, in their order.

    Args:
      files: paths; GZIP when their name ends in .gz or .gzip.
      spec: a record is bad when a run with this spec would stop with it; without a spec when it is
        no serialized Example or SequenceExample.
      with_labels: whether labels have to be there, too.
      workers: files that are read at the same time; by default as many as there are cores.
      progress: called, one call at a time, with numbers of bytes that were read and of bad records.
    """
    with tf.init_scope():
        check = (
            _examples()
            if spec is None
            else diagnosis.file_check(spec, with_labels=with_labels, compiled=True)
        )
    lock = threading.Lock()

    def report(path: str) -> FileReport:
        return check.report(path, in_turn)

    def in_turn(size: int, bad: int) -> None:
        with lock:
            progress(size, bad)

    pool = concurrent.futures.ThreadPoolExecutor(workers or cores())
    try:
        return list(pool.map(report, files))
    finally:
        pool.shutdown(cancel_futures=True)


def _examples() -> FileCheck:
    """Finds records that are neither an Example nor a SequenceExample.

    The parser walks through all of a record to find that a feature of no name is not there. What it
    refuses though protobuf does not would stop a run, too.
    """

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def parsed(block: tf.Tensor) -> list[tf.Tensor]:
        none = {"": tf.io.VarLenFeature(tf.int64)}
        context, lists, _ = tf.io.parse_sequence_example(block, none, none)
        return tf.nest.flatten((context, lists), expand_composites=True)

    def reason(record: bytes) -> Optional[str]:
        try:
            tf.train.SequenceExample.FromString(record)
        except DecodeError:
            return "is no serialized tf.train.Example or SequenceExample"
        return None

    return FileCheck(parsed, reason)
