"""Writes a SavedModel of a checkpoint: under a temporary name, checks it, then gives it its name.

Each export is a version in its folder (`versions`). It needs only TensorFlow to load. `signatures`
lists its signatures, `extra_files` the files that the kit adds. If there are rows, a fresh process
checks the export with them before it gets its name (`verification`). An export that does not answer
like the model is deleted, and raises an error. A second export of the same checkpoint is a copy of
the first one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.checkpoints import kept_files
from estimator_kit.errors import ExportError
from estimator_kit.exporters import extra_files, verification
from estimator_kit.exporters.extra_files import Origin
from estimator_kit.exporters.sample_rows import SampleRows
from estimator_kit.exporters.writer import write_saved_model
from estimator_kit.model.names import PREDICT_EXAMPLES
from feature_specs.files import file_systems, versions
from feature_specs.spec import FeatureSpec
from input_pipelines.row_cache.digests import sha256_of

_log = logging.getLogger("estimator_kit")


def export_saved_model(
    trained: Any,
    spec: FeatureSpec,
    folder: str,
    checkpoint: Optional[str] = None,
    *,
    rows: Optional[SampleRows] = None,
    default_signature: str = PREDICT_EXAMPLES,
    origin: Optional[Origin] = None,
    now: Optional[float] = None,
) -> str:
    """Exports the latest or the given checkpoint, and returns the path of the SavedModel.

    Args:
      trained: the `tf.estimator.Estimator`.
      spec: its feature spec.
      folder: the folder of the versions; created if it does not exist.
      checkpoint: the path prefix of the checkpoint; by default the latest one.
      rows: the rows that check the export. Without rows it is not checked, and its lineage.json and
        the log say so.
      default_signature: the signature that is also `serving_default`.
      origin: the content of files in assets.extra.
      now: seconds since 1970, which become the version; by default the current time.

    Raises:
      ConfigError: the model has no such signature.
      ExportError: the export does not load, or answers differently from the model; it is deleted.
      ValueError: the model has no checkpoint.
    """
    origin = origin or Origin()
    checkpoint = checkpoint or trained.latest_checkpoint()
    if checkpoint is None:
        raise ValueError(f"{trained.model_dir} has no checkpoint to export")
    moment = time.time() if now is None else now
    with contextlib.ExitStack() as stack:
        staged = stack.enter_context(versions.unnamed(folder))
        loader = stack.enter_context(verification.started()) if rows is not None else None
        written = write_saved_model(
            trained,
            spec,
            staged,
            checkpoint,
            default_signature=default_signature,
            features=rows.features if rows is not None else None,
        )
        extra_files.write(staged, trained.model_dir, spec, origin, written, rows)
        try:  # Another file since the start of the training would give other ids.
            kept_files.check_export(staged)
        except ExportError as error:
            raise ExportError(f"the export of {checkpoint} was refused: {error}") from error
        report, missing = None, extra_files.NOT_CHECKED
        if rows is None:
            _log.info("the export of %s is %s", checkpoint, missing)
        elif loader is None:
            missing = extra_files.NO_LIBRARY
        else:
            try:
                report = verification.verify(loader, staged, spec, written, rows)
            except ExportError as error:
                raise ExportError(f"the export of {checkpoint} was refused: {error}") from error
        extra_files.write_lineage(
            staged, trained.model_dir, spec, origin, checkpoint, written, report, missing, moment
        )
        return versions.publish(staged, folder, least=int(moment))


def copy_saved_model(
    source: str, folder: str, *, origin: Origin, now: Optional[float] = None
) -> str:
    """Writes a copy of an export of the same checkpoint, and returns its path.

    The check of the export holds for the copy, because their bytes are compared.

    Args:
      source: the path of the export.
      folder, now: see `export_saved_model`.
      origin: the exporter and the metrics of the copy. All other files stay unchanged.

    Raises:
      ExportError: the bytes of the copy differ; it is deleted.
    """
    moment = time.time() if now is None else now
    with versions.unnamed(folder) as staged:
        kept_files.check_export(source)
        file_systems.copy_folder(source, staged)
        expected, found = _digests(source), _digests(staged)
        wrong = sorted(n for n in {*expected, *found} if expected.get(n) != found.get(n))
        if wrong:
            raise ExportError(
                f"{staged}: expected a copy of {source}, got other bytes in {wrong[0]}. Check the "
                "disk, and export again."
            )
        extra_files.change_origin(staged, origin, source, moment)
        return versions.publish(staged, folder, least=int(moment))


def _digests(folder: str) -> dict[str, str]:
    """The SHA-256 of each file in a folder, by its path there."""
    found = {}
    for path, _, names in tf.io.gfile.walk(folder):
        for name in names:
            place = os.path.normpath(os.path.join(os.path.relpath(path, folder), name))
            found[place] = sha256_of(os.path.join(path, name))
    return found
