"""`--input_fn`: rows of a user's function in the place of files.

A training reads them as they come (`OwnRows`). For evaluations, and for the check of an export, the
rows are stored in a temporary TFRECORD file: all of them read the same rows, and the function is
called once. `stored_until_the_end` removes the file.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.config import choices
from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.program import Program
from estimator_kit.errors import ConfigError
from estimator_kit.observing.progress import ShardProgress
from estimator_kit.training.position import InputPosition
from estimator_kit.training.team import Team
from feature_specs.errors import did_you_mean
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.integrity import diagnosis
from input_pipelines.reading import own_records
from input_pipelines.reading.own_rows import OwnRows, place_of_function
from input_pipelines.reading.selection import RowCounts, Selection
from input_pipelines.reading.sources import OfFunction
from input_pipelines.record_files.sharding import Shard
from input_pipelines.transform import checks

_log = logging.getLogger("estimator_kit")

TRAIN, EVAL = "train", "eval"

# The temporary files of a run, by the name of the function.
_stored: dict[str, str] = {}
_folders: list[tempfile.TemporaryDirectory[str]] = []


def find(data: Data) -> Callable[[str], Any]:
    """The function of --input_fn.

    Raises:
      ConfigError: it does not exist, cannot be imported, or does not take a mode.
    """
    name = str(data.input_fn)
    function = data.own_function or _imported(name)
    place = place_of_function(function, name)
    if not callable(function):
        raise ConfigError(f"--input_fn={name}: expected a function, got {function!r}.")
    try:
        inspect.signature(function).bind(TRAIN)
    except TypeError as error:
        raise ConfigError(
            f"{place}: expected a function of one argument, the mode 'train' or 'eval', got "
            f"{inspect.signature(function)}. Change its arguments."
        ) from error
    except ValueError:
        pass  # It is written in C, so its arguments are not known.
    return function


def _imported(name: str) -> Any:
    module_name, _, function_name = name.partition(":")
    place = f"--input_fn={name}: cannot import {module_name!r}"
    module = choices.imported(place, module_name)
    function = getattr(module, function_name, None)
    if function is None:
        functions = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise ConfigError(
            f"--input_fn={name}: {module_name!r} has no {function_name!r}"
            f"{did_you_mean(function_name, functions) or '.'}"
        )
    return function


def rows_to_train_on(data: Data, spec: FeatureSpec, team: Team) -> OwnRows:
    """The rows that a training reads.

    Raises:
      ConfigError: see `find`; or several processes cannot share the rows.
    """
    rows = _rows(data, spec, TRAIN)
    if team.size > 1 and spec.kept_together is not None:
        raise ConfigError(
            "--input_fn: processes share its rows one by one, but the head ranking needs the rows "
            f"of one {spec.kept_together!r} together. Train in one process, or write the rows to "
            "files with ek.write_examples."
        )
    if team.size > 1 and rows.version is None:
        raise ConfigError(
            f"--input_version is missing. {team.size} processes share the rows of --input_fn, and "
            "each of them calls it. Give a name for the rows if each call gives the same rows in "
            "the same order."
        )
    return rows


def _rows(data: Data, spec: FeatureSpec, mode: str) -> OwnRows:
    name = str(data.input_fn)
    return OwnRows(spec, find(data), name=name, mode=mode, version=data.input_version)


def checked_first_rows(rows: OwnRows, spec: FeatureSpec) -> list[bytes]:
    """The first records, each of them checked as a training would.

    Raises:
      DataError: the function gave nothing, or one of the first rows cannot be used.
    """
    first = rows.first()
    if not first:
        raise DataError(
            f"{rows.place}: gave no row. Return rows, and make a new iterator in each call"
        )
    for number, record in enumerate(first):
        reason = _reason(spec, Selection(spec), record)
        if reason is not None:
            raise DataError(f"{rows.place}: row {number}: {reason}")
    missing = own_records.missing_names(spec, first)
    if missing:
        _log.warning(
            "%s: none of the first %d rows has %s, so it is missing in all of them. If that is not "
            "intended, add it to the rows.",
            rows.place,
            len(first),
            ", ".join(map(repr, missing)),
        )
    return first


def _reason(spec: FeatureSpec, selection: Selection, record: bytes) -> Optional[str]:
    """What is wrong with a record that the filter keeps, or None."""
    with contextlib.suppress(*checks.BAD_RECORD_ERRORS):
        if not len(selection.passing(tf.constant([record]))):
            return None
    return diagnosis.explain(spec, record)


@contextlib.contextmanager
def explained(rows: OwnRows, spec: FeatureSpec) -> Iterator[None]:
    """Names the function that failed, or the row that broke a step, after all rows before it."""
    with rows.naming_problems():
        try:
            yield
        except checks.BAD_RECORD_ERRORS as error:
            of_input = checks.text_of(error) is not None or "IteratorGetNext" in str(error)
            if rows.problem is not None or not of_input:
                raise
            _log.info("looking for the bad row of %s", rows.name)
            with tf.init_scope():
                reason = _bad_row(rows, spec)
            if reason is None:
                raise
            raise DataError(f"{rows.place}: {reason}") from error


def _bad_row(rows: OwnRows, spec: FeatureSpec) -> Optional[str]:
    selection, number = Selection(spec), 0
    with contextlib.closing(rows.blocks()) as blocks:
        for block in blocks:
            for record in block:
                reason = _reason(spec, selection, record)
                if reason is not None:
                    return f"row {number}: {reason}"
                number += 1
    return None


def count(source: OfFunction, shard: Shard, skip: int, epochs: Optional[int]) -> list[RowCounts]:
    """See `OfFunction.count`. Also refuses an epoch without rows."""
    _log.info("counting the rows of %s", source.origin.name)
    counts = source.count(shard, skip, epochs)
    if not counts[0].kept[0]:
        kept = "kept by `filter` in the spec" if counts[0].read else "given"
        raise DataError(f"{source.origin.place}: no row is {kept}. Check the function and the spec")
    return counts


def warn_of_restart(rows: OwnRows, position: InputPosition, team: Team, batch_size: int) -> None:
    """Says what is not exact about a restart without a version."""
    if rows.version is None:
        _log.warning(
            "--input_fn: this start leaves out the first %s rows of %s, because they were read up "
            "to step %d. Without --input_version, nothing says that their order is the same as "
            "before. If it is not, some rows are trained on again and others are left out.",
            f"{team.own_rows(position.steps_read, batch_size):,}",
            rows.name,
            position.step,
        )


@contextlib.contextmanager
def stored_until_the_end() -> Iterator[None]:
    """Removes what `stored_rows` has stored in the block. Errors name the function, not the file.

    Raises:
      DataError: a stored row cannot be used.
    """
    try:
        yield
    except DataError as error:
        text = str(error)
        for name, path in _stored.items():
            text = text.replace(path, f"--input_fn={name} in the mode 'eval'")
        if text == str(error):
            raise
        raise DataError(text) from error
    finally:
        _stored.clear()
        while _folders:
            _folders.pop().cleanup()


def stored_rows(program: Program, data: Data, spec: FeatureSpec) -> str:
    """The path of a file with the rows for evaluations. The first call of a run writes it.

    Raises:
      DataError: see `OwnRows.blocks`.
    """
    rows = _rows(data, spec, EVAL)
    if rows.name not in _stored:
        folder = tempfile.TemporaryDirectory(prefix="estimator_kit-rows-")
        _folders.append(folder)
        path = os.path.join(folder.name, "rows.tfrecord")
        progress = ShardProgress("evaluation rows", "{} files", program.log_every_secs)
        number = 0
        with tf.io.TFRecordWriter(path) as writer:
            for block in rows.blocks():
                for record in block:
                    writer.write(record)
                number += len(block)
                progress(len(block), 0, 1)
        progress.close()
        if not number:
            raise DataError(f"{rows.place}: gave no row in the mode 'eval'. Return rows")
        size = os.path.getsize(path) / 2**20
        _log.info("%s: stored %s rows to evaluate on (%.1f MiB)", rows.name, f"{number:,}", size)
        _stored[rows.name] = path
    return _stored[rows.name]
