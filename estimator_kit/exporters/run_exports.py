"""The exports of one run: collects what `saved_model` needs from the config."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.config.flags import resolved_flags
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.exporters import extra_files, saved_model
from estimator_kit.exporters.extra_files import Origin
from estimator_kit.exporters.sample_rows import SampleRows, unusual_rows
from estimator_kit.model.session_errors import explained
from feature_specs.files import versions
from feature_specs.spec import FeatureSpec
from input_pipelines.record_files import tfrecords


def export_folder(model_dir: str, exporter: str) -> str:
    """The folder of an exporter's SavedModels."""
    return os.path.join(model_dir, "export", exporter)


# How many of the first rows of --eval_files each export is checked with.
_CHECKED_ROWS = 100


class RunExports:
    """Writes the exports of a run.

    Args:
      config: the config of the run.
      spec: its feature spec.
      files: the files whose first and unusual rows check each export; they are read once, at the
        first export.
      damaged: the files of which only the good records are read.
    """

    def __init__(
        self,
        config: ModelDirConfig,
        spec: FeatureSpec,
        files: Sequence[str] = (),
        damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    ):
        self._config = config
        self._model_dir = config.model_dir
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
        config, origin = self._config, self._origin(exporter, metrics)
        folder = export_folder(self._model_dir, exporter)
        checkpoint = checkpoint or trained.latest_checkpoint()
        last = self._last
        if last is not None and last[0] == checkpoint and tf.io.gfile.exists(last[1]):
            return saved_model.copy_saved_model(last[1], folder, origin=origin)
        path = saved_model.export_saved_model(
            trained,
            self._spec,
            folder,
            checkpoint,
            rows=self._sample(),
            default_signature=config.default_signature,
            origin=origin,
        )
        self._last = (checkpoint, path)
        return path

    def made(
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
        config = self._config
        facts = {
            "train_files": list(config.train_files or config.train_mix),
            "eval_files": list(config.eval_files),
            "warm_start_from": config.warm_start_from,
            "model": config.model,
        }
        if config.input_fn is not None:
            facts["input_fn"] = config.input_fn
        return Origin(exporter, metrics or {}, facts, resolved_flags(config))

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
