"""Predictions of files, from a checkpoint or from an export, as JSON lines or TFRecord.

One output row an input row, in the order of the input. Nothing appears under the output's name
before it is complete.
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
from estimator_kit.storage import plain
from feature_specs.errors import did_you_mean
from input_pipelines.record_files import kinds, writing

Batch = Mapping[str, np.ndarray]

_SUFFIXES = (".jsonl", ".tfrecord", ".tfrecord.gz")


def check_inputs(inputs: list[str]) -> None:
    """Raises ConfigError when one is a table, by its name."""
    for path in inputs:
        kind = kinds.kind_of(path)
        if kind != kinds.TFRECORD:
            raise ConfigError(
                f"--predict_files: {path} is {kind} by its name; an export predicts tables: give "
                "--export_dir and --predict_dir"
            )


def check_output(path: Optional[str], inputs: list[str]) -> None:
    """Raises ConfigError when the output's name does not say its form, or is that of an input."""
    if path is not None and os.path.realpath(path) in map(os.path.realpath, inputs):
        raise ConfigError(f"--predict_output={path} is one of --predict_files; name another file")
    if path is not None and not path.endswith(_SUFFIXES):
        raise ConfigError(f"--predict_output={path}: expected a name in {', '.join(_SUFFIXES)}")


def from_estimator(trained: Any, input_fn: Any) -> Iterator[Batch]:
    """Batches of predictions of an Estimator's latest checkpoint."""
    yield from trained.predict(input_fn, yield_single_examples=False)


def chosen(batches: Iterator[Batch], names: Sequence[str]) -> Iterator[Batch]:
    """Batches with these outputs alone, in their order; all, by their names, when none is named.

    Raises:
      ConfigError: the first batch, which is asked for at once, has no output of a name.
    """
    first = next(batches, None)
    if first is None:
        return iter(())
    check_outputs(names, first)
    return (
        {name: batch[name] for name in names or sorted(batch)}
        for batch in itertools.chain([first], batches)
    )


def check_outputs(names: Sequence[str], known: Iterable[str]) -> None:
    """Raises ConfigError for a name of --predict_outputs that is none of a model's."""
    known = sorted(known)
    for name in names:
        if name not in known:
            raise ConfigError(
                f"--predict_outputs: the model has no output {name!r}{did_you_mean(name, known)}"
            )


def rows(batches: Iterator[Batch], limit: Optional[int] = None) -> Iterator[dict[str, Any]]:
    """One dict a row, of at most `limit` rows."""
    each = (
        {name: values[i] for name, values in batch.items()}
        for batch in batches
        for i in range(len(next(iter(batch.values()))))
    )
    return itertools.islice(each, limit)


def write(predictions: Iterator[dict[str, Any]], output: Union[str, TextIO, None]) -> int:
    """Writes rows to a .jsonl or .tfrecord file, or as JSON to a stream; returns how many."""
    if isinstance(output, str) and not output.endswith(".jsonl"):
        return writing.write_examples(output, predictions)
    count = 0
    with _text_output(output) as stream:
        for row in predictions:
            print(json.dumps({name: json_value(v) for name, v in row.items()}), file=stream)
            count += 1
    return count


@contextlib.contextmanager
def _text_output(path: Union[str, TextIO, None]) -> Iterator[Any]:
    if not isinstance(path, str):
        yield path
        return
    folder, name = os.path.split(path)
    tf.io.gfile.makedirs(folder or ".")
    temporary = os.path.join(folder, f".tmp-{name}")
    try:
        with tf.io.gfile.GFile(temporary, "w") as stream:
            stream.write("")  # Makes the file, even if no row follows.
            yield stream
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except BaseException:
        with contextlib.suppress(tf.errors.OpError):
            tf.io.gfile.remove(temporary)
        raise


def json_value(value: Any) -> Any:
    """A number or string for one value, a list for several."""
    values = [v.decode() if isinstance(v, bytes) else v for v in np.asarray(value).ravel().tolist()]
    return plain(values[0] if len(values) == 1 else values)
