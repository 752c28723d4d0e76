"""`--mode=rollback`, `retrain --cycle`, and the table of cycles that `inspect` shows.

`reproduce` repeats the training of a cycle from its lineage, and reports differences. The data
files must not have changed, and the model that the training started from must still exist. Pin a
cycle to keep what its reproduction needs. The result is in `reproduction/` of the cycle's folder.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import Optional

import tensorflow as tf

from estimator_kit import tensorflow_errors
from estimator_kit.checkpoints import kept_files, run_record
from estimator_kit.config.areas.retraining import Retraining
from estimator_kit.config.experiment_config import ModelDirConfig
from estimator_kit.config.flags import config_from_flagfile
from estimator_kit.config.modes import InFolder, OfCycle, ToVersion, TrainAndEvaluate
from estimator_kit.distributed import tasks
from estimator_kit.errors import ConfigError
from estimator_kit.retraining import cycle_files, cycle_report, cycle_versions, lineage
from estimator_kit.retraining.lineage import Lineage
from estimator_kit.retraining.stages import serving_of
from estimator_kit.training import unfinished
from feature_specs.files import documents, owners
from feature_specs.parser import parser
from input_pipelines.row_cache.folder import Digests


def roll_back(run: InFolder, retraining: ToVersion) -> str:
    """Makes the version `--to` live again as a new version, and returns a sentence about it.

    Raises:
      ConfigError: the version does not exist, or it is already live.
      ExportError: the version does not load.
      Locked: a cycle is running.
    """
    serving = serving_of(run, retraining)
    serving.find(retraining.to)  # An error must come before the lock makes a folder.
    with owners.held(run.model_dir) as lock:
        serving = serving_of(run, retraining, lock)
        version = serving.find(retraining.to)
        live = serving.live
        assert live is not None
        if live.number == version.number:
            raise ConfigError(
                f"--to={retraining.to}: version {retraining.to} is already live. Choose another "
                "version."
            )
        published = serving.publish(
            version.path, cycle=version.cycle, verify=loads, rollback_of=version.number
        )
    whose = f" of cycle {version.cycle}" if version.cycle is not None else ""
    return (
        f"version {published.number} is live. It is a copy of version {version.number}{whose}, and "
        f"replaces version {live.number}."
    )


def loads(path: str) -> None:
    """Checks that a SavedModel is whole, and loads. Raises ExportError or ConfigError."""
    kept_files.check_export(path)
    with tensorflow_errors.as_export_error(f"{path} does not load"):
        signatures = tf.saved_model.load(path).signatures
    if "serving_default" not in signatures:
        raise ConfigError(f"{path} has no signature serving_default")


def history(run: InFolder, retraining: Retraining) -> str:
    """The table of all cycles, and the list of versions in the serving directory."""
    serving = serving_of(run, retraining)
    live = serving.live
    cycles = cycle_files.cycles(run.model_dir)
    lines = [cycle_report.history(cycles, live.number if live is not None else None), ""]
    for version in serving.versions():
        what = f"cycle {version.cycle}" if version.cycle else "from another program"
        again = f", copy of version {version.rollback_of}" if version.rollback_of else ""
        is_live = ", live" if live is not None and version.number == live.number else ""
        lines.append(f"version {version.number}: {what}{again}{is_live}")
    canary = cycle_versions.waiting_canary(serving)
    if canary is not None:
        lines.append(f"version {canary.number}: cycle {canary.cycle}, canary")
    lines.append(f"a server watches {json.dumps(os.path.abspath(serving.folder))}")
    return "\n".join(lines)


# How many files a message names.
_NAMED = 5


def reproduce(run: InFolder, retraining: OfCycle) -> str:
    """Repeats the training of `--cycle`, and returns a table of the metrics of both trainings.

    Raises:
      ConfigError: the cycle, its spec, its data or its start do not exist or have changed.
      Locked: a cycle is running.
    """
    folder = cycle_files.find(run.model_dir, retraining.cycle)
    kept = folder.load(Lineage)
    if kept is None:
        raise ConfigError(
            f"--cycle={retraining.cycle}: cycle {folder.name} has no lineage.json yet. Choose a "
            "cycle that has ended."
        )
    with owners.held(run.model_dir):
        _check_unchanged(kept, os.path.join(run.model_dir, "facts"))
        flags = os.path.join(folder.train_dir, "flags.txt")
        if not os.path.exists(flags):
            raise ConfigError(
                f"{flags} no longer exists, because retention removed the training of cycle "
                f"{folder.name}. Choose another --cycle."
            )
        target = folder.at("reproduction")
        shutil.rmtree(target, ignore_errors=True)
        again = tasks.train(TrainAndEvaluate.of(_config(flags, target)))
        unfinished.end_work(target)
        text = compared(kept, again.metrics, lineage.code(config_model(kept)))
        documents.write_text(os.path.join(target, "reproduction.txt"), text + "\n")
    return text


def config_model(kept: Lineage) -> str:
    """The value of --model in the flags of a lineage."""
    models = [flag for flag in kept.flags if flag.startswith("--model=")]
    return models[-1].partition("=")[2] if models else "wide_deep"


def _config(flagfile: str, target: str) -> ModelDirConfig:
    """The config of the first training, with another model directory."""
    first = config_from_flagfile(flagfile).model_dump()
    return ModelDirConfig(**{**first, "model_dir": target})


def _check_unchanged(kept: Lineage, facts: str) -> None:
    digests = Digests(pathlib.Path(facts) / "digests.txt")
    changed = []
    for file in (*kept.data.train, *kept.data.evaluate):
        if not os.path.exists(file.path) and "://" not in file.path:
            changed.append(f"{file.path} no longer exists")
        elif digests.of(file.path) != file.sha256:
            changed.append(f"{file.path} has changed")
    source = kept.parent.source
    if source is not None and not _is_there(source):
        changed.append(f"{source}, from which it started, no longer exists")
    spec = kept.spec.path
    if not os.path.exists(spec):
        changed.append(f"{spec} no longer exists")
    elif parser.load(spec, stored=True).fingerprint() != kept.spec.fingerprint:
        changed.append(f"{spec} or one of its vocabularies has changed")
    if changed:
        more = f", and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        raise ConfigError(
            f"cycle {kept.cycle} cannot be reproduced: {'; '.join(changed[:_NAMED])}{more}"
        )


def _is_there(source: str) -> bool:
    return os.path.exists(f"{source}.index") or os.path.isdir(source)


def compared(kept: Lineage, again: Mapping[str, Optional[float]], code: str) -> str:
    """The table of two trainings of a cycle.

    Args:
      kept: the lineage of the cycle.
      again: the metrics of the second training, by name. The values None, NaN and infinity count as
        undefined. A line at the end lists metrics that are defined in only one training.
      code: the fingerprint of the code of the second training.
    """
    lines = [f"cycle {kept.cycle}, trained again:"]
    versions, metrics = run_record.versions(), kept.metrics or {}
    for package, version in kept.versions.items():
        if versions.get(package) != version:
            lines.append(f"  {package} was {version}, is {versions.get(package)}")
    if code != kept.code:
        lines.append("  the code of the kit or of the model has changed")
    rows = [("metric", "then", "now", "difference")]
    defined = documents.plain(dict(again))  # In the form of a lineage.
    differences, unlike = [0.0], []
    for metric in sorted({*metrics, *again}):
        then, now = metrics.get(metric), defined.get(metric)
        difference = ""
        if then is not None and now is not None:
            difference = f"{now - then:+.3g}"
            differences.append(abs(now - then))
        elif then is not None or now is not None:
            unlike.append(metric)
        rows.append((metric, _text(then), _text(now), difference))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines += ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]
    if unlike:
        lines.append(f"defined in only one of the two: {', '.join(unlike)}")
    lines.append(f"the largest difference is {max(differences):.3g}")
    return "\n".join(lines)


def _text(value: Optional[float]) -> str:
    return "undefined" if value is None else f"{value:.6g}"
