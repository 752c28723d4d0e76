"""Writes a SavedModel of a checkpoint: under a temporary name, checks it, then gives it its name.

    exports = RunExports(config, spec, eval_files)
    path = exports.write(trained, "final")

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
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.checkpoints import kept_files
from estimator_kit.config.flags import resolved_flags
from estimator_kit.config.modes import Exporting
from estimator_kit.errors import ExportError
from estimator_kit.exporters import extra_files, verification
from estimator_kit.exporters.extra_files import Origin
from estimator_kit.exporters.sample_rows import SampleRows, unusual_rows
from estimator_kit.exporters.writer import write_saved_model
from estimator_kit.model.names import PREDICT_EXAMPLES
from estimator_kit.model.session_errors import explained
from feature_specs.files import file_systems, urls, versions
from feature_specs.spec import FeatureSpec
from input_pipelines.record_files import tfrecords
from input_pipelines.row_cache.folder import sha256_of

_log = logging.getLogger("estimator_kit")

# How many of the first rows of --eval_files each export is checked with.
_CHECKED_ROWS = 100


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
        expected, copied = _digests(source), _digests(staged)
        wrong = sorted(n for n in {*expected, *copied} if expected.get(n) != copied.get(n))
        if wrong:
            raise ExportError(
                f"{staged}: expected a copy of {source}, got other bytes in {wrong[0]}. Check the "
                "disk, and export again."
            )
        extra_files.change_origin(staged, origin, source, moment)
        return versions.publish(staged, folder, least=int(moment))


def _digests(folder: str) -> dict[str, str]:
    """The SHA-256 of each file in a folder, by its path there."""
    digests = {}
    for path, _, names in tf.io.gfile.walk(folder):
        for name in names:
            place = os.path.normpath(os.path.join(os.path.relpath(path, folder), name))
            digests[place] = sha256_of(os.path.join(path, name))
    return digests


def export_folder(model_dir: str, exporter: str) -> str:
    """The folder of an exporter's SavedModels."""
    return os.path.join(model_dir, "export", exporter)


class RunExports:
    """Writes the exports of a run.

    Args:
      command: the command that exports.
      spec: its feature spec.
      files: the files whose first and unusual rows check each export; they are read once, at the
        first export.
      damaged: the files of which only the good records are read.
    """

    def __init__(
        self,
        command: Exporting,
        spec: FeatureSpec,
        files: Sequence[str] = (),
        damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    ):
        self._command = command
        self._model_dir = command.run.model_dir
        self._spec = spec
        self._files = list(files)
        self._damaged = damaged
        self._rows: Optional[SampleRows] = None
        # The checkpoint of the last export that was not a copy, and its path.
        self._last: Optional[tuple[Optional[str], str]] = None

    def write(
        self,
        trained: Any,
        exporter: str,
        checkpoint: Optional[str] = None,
        metrics: Optional[Mapping[str, Optional[float]]] = None,
    ) -> str:
        """Writes an export of the latest checkpoint, or the one given; see `export_saved_model`.

        If the last export had the same checkpoint, it writes a copy: to make the graph and check
        the answers again would take seconds.
        """
        origin = self._origin(exporter, metrics)
        folder = export_folder(self._model_dir, exporter)
        checkpoint = checkpoint or trained.latest_checkpoint()
        last = self._last
        if last is not None and last[0] == checkpoint and tf.io.gfile.exists(last[1]):
            return copy_saved_model(last[1], folder, origin=origin)
        path = export_saved_model(
            trained,
            self._spec,
            folder,
            checkpoint,
            rows=self._sample(),
            default_signature=self._command.exports.default_signature,
            origin=origin,
        )
        self._last = (checkpoint, path)
        return path

    def written_before(
        self,
        trained: Any,
        exporter: str,
        checkpoint: Optional[str],
        metrics: Mapping[str, float],
    ) -> Optional[str]:
        """The newest export if an earlier start has written it of the same, else None.

        It must have the same checkpoint, metrics, spec and flags.
        """
        checkpoint = checkpoint or trained.latest_checkpoint()
        origin = self._origin(exporter, metrics)
        for path in versions.paths(export_folder(self._model_dir, exporter))[-1:]:
            if extra_files.is_of(path, self._spec, origin, checkpoint):
                self._last = (checkpoint, path)
                return path
        return None

    def _origin(self, exporter: str, metrics: Optional[Mapping[str, Optional[float]]]) -> Origin:
        data = self._command.data
        facts = {
            "train_files": urls.given(data.train_files or data.train_mix),
            "eval_files": urls.given(data.eval_files),
            "warm_start_from": self._command.warm_start.warm_start_from,
            "model": self._command.choice.model,
        }
        if data.input_fn is not None:
            facts["input_fn"] = data.input_fn
        return Origin(exporter, metrics or {}, facts, resolved_flags(self._command.settings))

    def _sample(self) -> Optional[SampleRows]:
        if self._rows is None and self._files:
            with explained(
                self._spec, self._files, with_labels=False, filtered=True, damaged=self._damaged
            ):
                self._rows = unusual_rows(
                    self._spec,
                    self._files,
                    damaged=self._damaged,
                    count=_CHECKED_ROWS,
                )
        return self._rows
