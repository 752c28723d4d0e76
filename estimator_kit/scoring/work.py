"""Predicts one file: a task of `input_pipelines.prepare.convert.processes`.

Each process loads the export once. Errors leave a process in a form that can be sent to another.
"""

from __future__ import annotations

import dataclasses
import logging
import multiprocessing
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.model.session_errors import explained
from estimator_kit.scoring import export as exports
from estimator_kit.scoring import outputs, rows
from estimator_kit.scoring.plan import ScoredFile
from estimator_kit.scoring.rows import Batch
from estimator_kit.serving.loaded_model import LoadedModel
from feature_specs.files.shards import ShardFile, Written
from feature_specs.parser import parser
from input_pipelines import errors
from input_pipelines.errors import DataError
from input_pipelines.integrity import diagnosis
from input_pipelines.prepare.convert.fields import Field
from input_pipelines.prepare.convert.processes import OnRows
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.storable import Rounded
from input_pipelines.prepare.tables.table_format import Output, Part
from input_pipelines.record_files import tfrecords
from input_pipelines.transform import checks


@dataclasses.dataclass(frozen=True)
class Context:
    """What all tasks have in common.

    Attributes:
      folder, temporary: the folder of the outputs, and the folder for unfinished outputs.
      export_dir, signature, argument: the export, its signature and the input of the signature.
      fixed_inputs: the values of the signature's other inputs.
      outputs: the outputs to write.
      spec: the path of the feature spec; empty if the export has none.
      kind: the kind of the files; see `record_files.kinds`.
      fields: for tables, the features of the records.
      keep: the columns or features that are copied to the output.
      csv: the CSV format.
      batch_size: the number of rows in a batch.
      damaged: the TFRecord files that are read in part.
      threads: of the session; 0 lets TensorFlow choose.
    """

    folder: str
    temporary: str
    export_dir: str
    signature: str
    argument: str
    fixed_inputs: Mapping[str, np.ndarray]
    outputs: tuple[Output, ...]
    spec: str
    kind: str
    fields: tuple[Field, ...]
    keep: tuple[str, ...]
    csv: CsvOptions
    batch_size: int
    damaged: tfrecords.Damaged
    threads: int


@dataclasses.dataclass(frozen=True)
class FileTask:
    """A file to predict. `part` is the whole file if it is a table; otherwise None."""

    file: ScoredFile
    part: Optional[Part] = None


@dataclasses.dataclass(frozen=True)
class Done:
    """A file that was written, and how many values a float32 does not keep."""

    written: Written
    rounded: Rounded


_loaded: dict[str, LoadedModel] = {}


def perform(task: FileTask, context: Context, advance: OnRows) -> Done:
    """Predicts one file.

    Raises:
      DataError: a row cannot be predicted; the message names it.
      ExportError: the export does not load, or does not answer for each row.
      OSError: the file cannot be written.
    """
    try:
        return _score(task, context, advance)
    except tf.errors.OpError as error:
        # Without its op, which cannot be sent to another process.
        raise type(error)(None, None, error.message) from None


def release() -> None:
    """Closes the models that this process has loaded."""
    while _loaded:
        _loaded.popitem()[1].close()


def _score(task: FileTask, context: Context, advance: OnRows) -> Done:
    model = _model(context)
    rounded: Rounded = Counter()
    name, path = task.file.name, task.file.path
    with ShardFile(context.folder, name, context.temporary) as file:
        writer = outputs.writer(
            context.kind, file, path, context.outputs, context.keep, context.csv
        )
        try:
            for batch, answers in _answered(model, task, context, rounded):
                writer.write(answers, batch)
                file.write(b"", len(batch.records))
                advance(len(batch.records))
            writer.finish()
        except BaseException:
            writer.discard()
            raise
    return Done(file.written, rounded)


def _model(context: Context) -> LoadedModel:
    path = context.export_dir
    if path not in _loaded:
        if multiprocessing.parent_process() is not None:  # As `main` does in its own.
            logging.getLogger("tensorflow").setLevel(logging.ERROR)
        _loaded[path] = exports.load(
            path,
            threads=context.threads,
        )
    return _loaded[path]


def _answered(
    model: LoadedModel, task: FileTask, context: Context, rounded: Rounded
) -> Iterator[tuple[Batch, outputs.Answers]]:
    """Yields the batches of a file with the answers of the export."""
    path, size = task.file.path, context.batch_size
    if task.part is not None:
        batches = rows.of_table(
            task.part, context.fields, context.keep, context.spec, size, rounded
        )
        for batch in batches:
            try:
                yield batch, _ask(model, context, batch.records)
            except checks.BAD_RECORD_ERRORS as error:
                raise _bad_row(model, context, batch, error) from error
        return
    if not task.file.stamp[0] and path not in context.damaged:
        return  # An empty file has no rows; `scoring` tells the user.
    batches = rows.of_tfrecords(path, size, context.damaged)
    if context.spec:
        spec = parser.load(context.spec, stored=True)
        with explained(
            spec,
            [path],
            with_labels=False,
            damaged=context.damaged,
            remedy=exports.RECORD_REMEDY,
        ):
            for batch in batches:
                yield batch, _ask(model, context, batch.records)
        return
    with tfrecords.naming_what_is_corrupt([path], context.damaged):
        for batch in batches:
            try:
                yield batch, _ask(model, context, batch.records)
            except checks.BAD_RECORD_ERRORS as error:
                raise _bad_row(model, context, batch, error) from error


def _ask(model: LoadedModel, context: Context, records: np.ndarray) -> outputs.Answers:
    names = [output.name for output in context.outputs]
    return exports.ask(
        model, context.signature, context.argument, records, names, context.fixed_inputs
    )


def _bad_row(model: LoadedModel, context: Context, batch: Batch, error: Any) -> Exception:
    """The error of a batch as an error of its first bad row, if a single row causes it."""
    for i, record in enumerate(batch.records):
        try:
            _ask(model, context, batch.records[i : i + 1])
        except checks.BAD_RECORD_ERRORS as of_row:
            spec = parser.load(context.spec, stored=True) if context.spec else None
            explanation = None
            if spec is not None:
                explanation = diagnosis.explain(
                    spec, record, with_labels=False, remedy=exports.ROW_REMEDY
                )
            reason = explanation or checks.text_of(of_row) or errors.first_line(of_row)
            return DataError(f"{batch.where(i)}: {reason}")
    return DataError(
        f"{batch.where(0)} or a later row of its batch: {checks.text_of(error) or error}"
    )
