"""Metrics for the textfile collector of Prometheus: `--prometheus_file`.

    check(path)                          before anything runs
    write(path, text_of_run(...))        at the end of a training

The extra `prometheus` installs the package. A file that cannot be written is a warning, and does
not change the outcome of a run. `retraining.notices` has the metrics of a cycle.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Mapping
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.result import RunResult
from feature_specs.files import documents, file_systems
from input_pipelines.errors import MissingPackageError, unreadable

_log = logging.getLogger("estimator_kit")

# How a file of metrics starts.
_START = "# HELP "


class Gauges:
    """Gauges that share a prefix and the labels of a model.

    Args:
      prefix: the start of each name.
      model_dir: the model directory. Every metric has its name as the label `model`, and its whole
        path as the label `model_dir`, which distinguishes models with the same name.
    """

    def __init__(self, prefix: str, model_dir: str):
        self._client = _client()
        self._registry = self._client.CollectorRegistry()
        self._prefix = prefix
        path = file_systems.absolute(model_dir)
        self._of_model = {"model": os.path.basename(path), "model_dir": path}

    def add(self, name: str, help_text: str, values: Mapping[Any, Any], *labels: str) -> None:
        """Adds a gauge. `values` maps the values of `labels` to a number. None is left out."""
        present = {key: value for key, value in values.items() if value is not None}
        if present:
            names = (*self._of_model, *labels)
            gauge = self._client.Gauge(
                f"{self._prefix}_{name}", help_text, names, registry=self._registry
            )
            for key, value in present.items():
                gauge.labels(*self._of_model.values(), *key).set(value)

    def text(self) -> str:
        """All gauges in Prometheus's text format."""
        return str(self._client.generate_latest(self._registry).decode())


def check(path: str) -> None:
    """Checks `--prometheus_file` before anything runs.

    Raises:
      ConfigError: the file exists, and cannot be read or is not a file of metrics. So it must not
        be replaced.
      MissingPackageError: the package is not installed.
    """
    _client()
    file_systems.check(path, flag="--prometheus_file")
    if file_systems.exists(path) and not file_systems.is_folder(path):
        try:
            with file_systems.open_file(path, "rb") as file:
                start = file.read(len(_START)).decode(errors="replace")
        except (OSError, tf.errors.OpError) as error:
            raise ConfigError(
                f"--prometheus_file={path}: {unreadable(error)}. Choose another path."
            ) from error
        if start not in ("", _START):
            raise ConfigError(
                f"--prometheus_file={path} is not a file of metrics: it starts with "
                f"{start!r}, expected {_START!r}. Choose another path."
            )


def _client() -> Any:
    try:
        return importlib.import_module("prometheus_client")
    except ImportError as error:
        raise MissingPackageError(
            "--prometheus_file needs the package prometheus_client. Install it with "
            f"`pip install 'estimator-kit[prometheus]'` ({error})"
        ) from error


def write(path: str, text: str) -> None:
    """Writes the textfile. A failure is a warning."""
    try:
        documents.write_text(file_systems.absolute(path), text)
    except Exception as error:
        _log.warning("--prometheus_file=%s could not be written: %s", path, error)


def text_of_run(result: Optional[RunResult], *, model_dir: str, ended: float, failed: bool) -> str:
    """The metrics of a training, in Prometheus's text format.

    Args:
      result: None if the run failed before it wrote one.
      model_dir: the model directory.
      ended: when the run ended, in seconds since 1970.
      failed: whether it ended with an error or was stopped.
    """
    gauges = Gauges("estimator_kit_training", model_dir)
    gauges.add("end_timestamp_seconds", "End of the latest training.", {(): ended})
    gauges.add("failed", "Whether it ended with an error or was stopped.", {(): failed})
    if result is None:
        return gauges.text()
    speed, share = result.examples_per_second, result.input_profile.share_waiting
    for name, help_text, value in (
        ("global_step", "The step of the latest checkpoint.", result.global_step),
        ("rows_trained", "Rows that the latest training read.", result.rows_trained),
        ("rows_evaluated", "Rows of the latest evaluation.", result.rows_evaluated),
        ("examples_per_second", "Speed of the latest training, without evaluations.", speed),
        ("share_waiting", "Share of time waiting for input (--profile).", share),
    ):
        gauges.add(name, help_text, {(): value})
    metrics = {(name,): value for name, value in result.metrics.items()}
    gauges.add("metric", "Metrics of the latest evaluation.", metrics, "metric")
    return gauges.text()
