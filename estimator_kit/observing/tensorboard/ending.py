"""What a training writes for TensorBoard at its end, and the command that shows all of it.

Writing needs no package of TensorBoard; only looking does. Its extra is `tensorboard`.

The page Projector lists every matrix of a checkpoint that it finds: kernels and the slots of
optimizers, too. So `write_projector` writes the embedding tables alone, as text, into `projector/`
of the model directory, with a file of the words of each table whose vocabulary is known. Each
folder with events gets a config that names a checkpoint without matrices. The other paths are
relative, so a copy of the model directory works as well.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import re
import shlex
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.checkpoints.warm_start import row_moves
from estimator_kit.observing.measured_export import Slices, path_of
from estimator_kit.observing.tensorboard import summaries
from feature_specs.files import documents
from feature_specs.kinds import Embedding
from feature_specs.spec import FeatureSpec

_log = logging.getLogger("estimator_kit")

FOLDER = "projector"

# The first rows of a table; vocabularies are sorted by frequency. The page gets slow with more.
MOST_ROWS = 10_000
# Numbers of a table that is read, 1 GiB.
_MOST_NUMBERS = 2**28
# Numbers of all tables that are written, about 40 MB of text.
_MOST_WRITTEN = 2**22

_CONFIG = "projector_config.pbtxt"
# Exists on every machine, and is not a checkpoint. Without a name, TensorBoard would look for the
# latest checkpoint in the folder and in the folder above it. It logs that it cannot read this one.
_NO_CHECKPOINT = 'model_checkpoint_path: "/dev/null"\n'


def write_projector(model_dir: str, spec: FeatureSpec, *, most_rows: int = MOST_ROWS) -> list[str]:
    """Writes the tables of the latest checkpoint. Returns their names.

    Args:
      model_dir: the model directory. Without a checkpoint or embedding nothing is written.
      spec: the feature spec of the checkpoint.
      most_rows: how many rows of a table are written.
    """
    checkpoint = tf.train.latest_checkpoint(model_dir)
    tables = _tables(checkpoint, spec) if checkpoint is not None else {}
    if not tables:
        return []
    reader = tf.train.load_checkpoint(checkpoint)
    tables = _within_limit(tables, reader.get_variable_to_shape_map(), most_rows)
    entries = []
    for name, column in tables.items():
        file = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
        vectors = reader.get_tensor(name)[:most_rows]
        fields = {"tensor_name": name, "tensor_path": f"{FOLDER}/{file}.tsv"}
        documents.write_text(os.path.join(model_dir, fields["tensor_path"]), _lines(vectors))
        words = _words(spec, column, len(vectors))
        if words is not None:
            fields["metadata_path"] = f"{FOLDER}/{file}.metadata.tsv"
            documents.write_text(os.path.join(model_dir, fields["metadata_path"]), "\n".join(words))
        entries.append(fields)
    text = "".join(
        "embeddings {\n" + "".join(f'  {key}: "{value}"\n' for key, value in e.items()) + "}\n"
        for e in entries
    )
    documents.write_text(os.path.join(model_dir, _CONFIG), _NO_CHECKPOINT + text)
    for events in tf.io.gfile.glob(os.path.join(model_dir, "eval*", "events*")):
        documents.write_text(os.path.join(os.path.dirname(events), _CONFIG), _NO_CHECKPOINT)
    return list(tables)


def _tables(checkpoint: str, spec: FeatureSpec) -> dict[str, str]:
    """The embedding tables in a checkpoint: `{variable: column}`."""
    embeddings = spec.of_kind(Embedding)
    columns = row_moves.ColumnsOfTables(spec)
    tables = {}
    for name, shape in sorted(tf.train.list_variables(checkpoint)):
        column = columns.of(name)
        if column is None or column not in embeddings or len(shape) != 2:
            continue
        shared = embeddings[column].table
        if name != shared and not name.endswith("/embedding_weights"):
            continue  # A slot of an optimizer.
        if math.prod(shape) > _MOST_NUMBERS:
            _log.info("TensorBoard does not show %s: the table has the shape %s", name, shape)
            continue
        tables[name] = column
    return tables


def _within_limit(
    tables: dict[str, str], shapes: dict[str, list[int]], most_rows: int
) -> dict[str, str]:
    """The first tables that have `_MOST_WRITTEN` numbers together."""
    numbers = np.cumsum([min(shapes[name][0], most_rows) * shapes[name][1] for name in tables])
    count = int(np.searchsorted(numbers, _MOST_WRITTEN, side="right"))
    if count < len(tables):
        _log.info("TensorBoard shows the first %d of %d embedding tables", count, len(tables))
    return dict(list(tables.items())[:count])


def _lines(vectors: np.ndarray) -> str:
    return "".join("\t".join(f"{x:.6g}" for x in vector) + "\n" for vector in vectors)


def _words(spec: FeatureSpec, column: str, rows: int) -> Optional[list[str]]:
    """The word of each row, or None if the ids have no words."""
    ids = spec.columns[spec.ids_of(column)]
    if not ids.named_rows:
        return None
    words = [_line(str(word)) for word in ids.row_names(spec)]
    words += [f"(out of vocabulary {i})" for i in range(ids.unnamed_ids)]
    return words[:rows]


def _line(word: str) -> str:
    """A word as one line without tabs; TensorBoard skips empty lines."""
    return " ".join(word.split()) or "(empty)"


def command(model_dir: str) -> str:
    """The line that ends a run: how to open TensorBoard, and how to install it if it is absent."""
    start = f"tensorboard --logdir={shlex.quote(model_dir)}"
    if importlib.util.find_spec("tensorboard") is not None:
        return f"TensorBoard: {start}"
    return f"TensorBoard: pip install 'estimator-kit[tensorboard]', then {start}"


def finish(model_dir: str, spec: FeatureSpec, step: int, *, with_slices: bool = False) -> str:
    """Writes the embedding tables, and the slices if they were measured. Returns the last line.

    A run must not fail because of its pictures, so every error becomes a text.

    Args:
      model_dir: the model directory of a training.
      spec: its feature spec.
      step: the global step of its last checkpoint.
      with_slices: whether this training has written `observed/slices.json`.
    """
    try:
        write_projector(model_dir, spec)
        values = [summaries.value_of_an_end()]
        slices = Slices.load(path_of(model_dir, "slices.json")) if with_slices else None
        if slices is not None:
            values += slice_values(slices)
        evaluations = os.path.join(model_dir, summaries.EVALUATIONS)
        folder = evaluations if tf.io.gfile.isdir(evaluations) else model_dir
        summaries.write_file(folder, values, step, first=False)
    except Exception as error:
        return f"TensorBoard lacks embedding tables or slices: {error}. {command(model_dir)}"
    return command(model_dir)


def slice_values(slices: Slices) -> list[Any]:
    """A scalar for each slice, such as `slices/auc/click/country=DE`, if its metric is defined."""
    return [
        summaries.scalar(
            f"slices/{measured.metric}/{objective}/{entry.feature}={entry.value}", entry.metric
        )
        for objective, measured in slices.objectives.items()
        for entry in measured.slices
        if entry.metric is not None
    ]
