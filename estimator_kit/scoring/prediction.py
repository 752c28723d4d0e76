"""Predictions of files, from a checkpoint or from an export, as JSON lines or TFRecord.

Each input row gives one output row, in the order of the input. The output gets its name only when
it is complete.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional, TextIO, Union

import numpy as np
import tensorflow as tf

from estimator_kit.errors import ConfigError
from feature_specs.errors import did_you_mean
from feature_specs.files import staged
from input_pipelines.errors import DataError
from input_pipelines.prepare.tables.formats.json_lines import json_value, output_values
from input_pipelines.record_files import kinds, writing

Batch = Mapping[str, np.ndarray]

_SUFFIXES = (".jsonl", ".tfrecord", ".tfrecord.gz")


def check_inputs(inputs: list[str]) -> None:
    """Raises ConfigError if a name says that the file is a table."""
    for path in inputs:
        kind = kinds.kind_of(path)
        if kind != kinds.TFRECORD:
            raise ConfigError(
                f"--predict_files: expected TFRecord files, got the {kind} file {path}. To predict "
                "tables, use an export: give --export_dir and --predict_dir."
            )


def check_output(path: Optional[str], inputs: list[str]) -> None:
    """Raises ConfigError if the output's name has an unknown suffix, or is also an input."""
    if path is not None and os.path.realpath(path) in map(os.path.realpath, inputs):
        raise ConfigError(f"--predict_output={path} is one of --predict_files. Name another file.")
    if path is not None and not path.endswith(_SUFFIXES):
        raise ConfigError(
            f"--predict_output={path}: unknown suffix. Use one of: {', '.join(_SUFFIXES)}."
        )


def from_estimator(trained: Any, input_fn: Any) -> Iterator[Batch]:
    """Yields batches of predictions of an Estimator's latest checkpoint."""
    yield from trained.predict(input_fn, yield_single_examples=False)


def chosen(batches: Iterator[Batch], names: Sequence[str]) -> Iterator[Batch]:
    """Batches with only these outputs, in this order; with all, sorted by name, if none is named.

    Reads the first batch at once.

    Raises:
      ConfigError: the first batch has no output of that name.
    """
    first = next(batches, None)
    if first is None:
        return iter(())
    check_outputs(names, first)
    return (
        {name: batch[name] for name in names or sorted(batch)}
        for batch in itertools.chain([first], batches)
    )


def check_outputs(names: Sequence[str], output_names: Iterable[str]) -> None:
    """Raises ConfigError if the model has no output of a name in --predict_outputs."""
    output_names = sorted(output_names)
    for name in names:
        if name not in output_names:
            hint = did_you_mean(name, output_names)
            raise ConfigError(f"--predict_outputs: the model has no output {name!r}{hint}")


def rows(batches: Iterator[Batch], limit: Optional[int] = None) -> Iterator[dict[str, Any]]:
    """One dict for each row, for at most `limit` rows."""
    each = (
        {name: values[i] for name, values in batch.items()}
        for batch in batches
        for i in range(len(next(iter(batch.values()))))
    )
    return itertools.islice(each, limit)


def write(predictions: Iterator[dict[str, Any]], output: Union[str, TextIO, None]) -> int:
    """Writes rows to a .jsonl or .tfrecord file, or as JSON to a stream; returns how many.

    Outputs with several dimensions, such as a step and its logits, are written as one list.

    Raises DataError if an output is not UTF-8, which JSON needs.
    """
    if isinstance(output, str) and not output.endswith(".jsonl"):
        flat = ({name: output_values(value) for name, value in row.items()} for row in predictions)
        return writing.write_examples(output, flat)
    count = 0
    with _text_output(output) as stream:
        for row in predictions:
            print(json.dumps({name: _json_of(name, v) for name, v in row.items()}), file=stream)
            count += 1
    return count


@contextlib.contextmanager
def _text_output(path: Union[str, TextIO, None]) -> Iterator[Any]:
    if not isinstance(path, str):
        yield path
        return
    with staged.file(path) as temporary, tf.io.gfile.GFile(temporary, "w") as stream:
        stream.write("")  # Makes the file even without rows, in a store.
        yield stream


def _json_of(name: str, value: Any) -> Any:
    try:
        return json_value(value)
    except UnicodeDecodeError as error:
        raise DataError(
            f"the output {name!r} is not UTF-8 text, which JSON needs. Predict a .tfrecord file, "
            "or choose other outputs with --predict_outputs."
        ) from error
