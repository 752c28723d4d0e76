"""`--mode=rollback` and `--mode=history`."""

from __future__ import annotations

import json
import os

import tensorflow as tf

from estimator_kit import tensorflow_errors
from estimator_kit.checkpoints import kept_files
from estimator_kit.config.mode_configs import ModelDirConfig, RollbackConfig
from estimator_kit.embeddings import dynamic_package
from estimator_kit.errors import ConfigError
from estimator_kit.retraining import report, state
from estimator_kit.retraining.stages import serving_of
from feature_specs.files import owners


def roll_back(config: RollbackConfig) -> str:
    """Makes the version `config.to` live again as a new version, and returns a sentence about it.

    Raises:
      ConfigError: the version does not exist, or it is already live.
      ExportError: the version does not load.
      Locked: a cycle is running.
    """
    serving = serving_of(config)
    serving.find(config.to)  # An error must come before the lock makes a folder.
    with owners.held(config.model_dir, stale_secs=config.lock_stale_secs) as held:
        serving = serving_of(config, held)
        version = serving.find(config.to)
        live = serving.live
        assert live is not None
        if live.number == version.number:
            raise ConfigError(
                f"--to={config.to}: version {config.to} is already live. Choose another version."
            )
        published = serving.publish(
            version.path, cycle=version.cycle, verify=_loads, rollback_of=version.number
        )
    whose = f" of cycle {version.cycle}" if version.cycle is not None else ""
    return (
        f"version {published.number} is live. It is a copy of version {version.number}{whose}, and "
        f"replaces version {live.number}."
    )


def _loads(path: str) -> None:
    kept_files.check_export(path)
    dynamic_package.load_ops_of(path)
    with tensorflow_errors.as_export_error(f"{path} does not load"):
        signatures = tf.saved_model.load(path).signatures
    if "serving_default" not in signatures:
        raise ConfigError(f"{path} has no signature serving_default")


def history(config: ModelDirConfig) -> str:
    """The table of all cycles, and the list of versions in the serving directory."""
    cycles = state.cycles(config.model_dir)
    if not cycles:
        raise ConfigError(f"--model_dir={config.model_dir} has no cycle yet")
    serving = serving_of(config)
    live = serving.live
    lines = [report.history(cycles, live.number if live is not None else None), ""]
    for version in serving.versions():
        what = f"cycle {version.cycle}" if version.cycle else "from another program"
        again = f", copy of version {version.rollback_of}" if version.rollback_of else ""
        is_live = ", live" if live is not None and version.number == live.number else ""
        lines.append(f"version {version.number}: {what}{again}{is_live}")
    lines.append(f"a server watches {json.dumps(os.path.abspath(serving.folder))}")
    return "\n".join(lines)
