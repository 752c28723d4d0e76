"""`--generate_default_data`: writes the default data, where they are missing."""

from __future__ import annotations

import logging

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError
from input_pipelines.synthetic import impression_log

_log = logging.getLogger("estimator_kit")


def generate(config: ExperimentConfig) -> None:
    """Writes the days that are missing.

    Raises:
      ConfigError: the folder holds something else.
    """
    if config.generate_default_data is None:
        return
    try:
        impression_log.generate(config.generate_default_data, progress=_log_day)
    except ValueError as error:
        raise ConfigError(f"--generate_default_data: {error}") from error


def _log_day(day: impression_log.DayReport) -> None:
    if not day.kept:
        _log.info("generated %s: %d rows", day.name, day.rows)
