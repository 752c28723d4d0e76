"""Checks every record of many files, several files at a time: can it be read and used?

A clean file costs as much as reading it with TensorFlow, and parsing it if a spec is given. Both
run in C++ without the interpreter's lock, so threads share the files. The result depends only on
the files and the spec: all workers get the same result. Only reads files.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Sequence
from typing import Optional

import tensorflow as tf
from google.protobuf.message import DecodeError

from feature_specs.spec import FeatureSpec
from input_pipelines.errors import cores
from input_pipelines.integrity import diagnosis
from input_pipelines.integrity.file_check import FileCheck, FileReport, Progress


def scan(
    files: Sequence[str],
    *,
    spec: Optional[FeatureSpec] = None,
    with_labels: bool = True,
    filtered: Optional[bool] = None,
    remedy: Optional[str] = None,
    workers: Optional[int] = None,
    progress: Progress = lambda size, bad: None,
) -> list[FileReport]:
    """Reports what is in each TFRecord file, in the order of the files.

    Args:
      files: paths; GZIP if their name ends in .gz or .gzip.
      spec: a record is bad if it would stop a run with this spec. Without a spec, a record is bad
        if it is not a serialized Example or SequenceExample.
      with_labels: whether records must also have their labels.
      filtered: see `diagnosis.find_bad_record`.
      remedy: see `diagnosis.explain`.
      workers: how many files are read at the same time; by default the number of cores.
      progress: called with the number of bytes that were read and the number of bad records, since
        the last call. Calls never overlap.
    """
    with tf.init_scope():
        check = (
            _examples()
            if spec is None
            else diagnosis.file_check(
                spec, with_labels=with_labels, filtered=filtered, compiled=True, remedy=remedy
            )
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

    The parser must read a whole record to learn that it has no feature named "". A few records are
    refused by TensorFlow's parser but not by protobuf. They would also stop a run.
    """

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def parsed(block: tf.Tensor) -> list[tf.Tensor]:
        none = {"": tf.io.VarLenFeature(tf.int64)}
        context, lists, _ = tf.io.parse_sequence_example(block, none, none)
        result: list[tf.Tensor] = tf.nest.flatten((context, lists), expand_composites=True)
        return result

    def reason(record: bytes) -> Optional[str]:
        try:
            tf.train.SequenceExample.FromString(record)
        except DecodeError:
            return "is not a serialized tf.train.Example or SequenceExample"
        return None

    return FileCheck(parsed, reason)
