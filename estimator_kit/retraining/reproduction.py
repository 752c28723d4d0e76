"""`--mode=reproduce`: trains a cycle again from its lineage, and says what differs.

The data files have to hold what they held, and the model that the training started from has to be
there still; a cycle that may have to be made again is pinned. Written to `reproduction/` of the
cycle's folder; what is served is never touched.
"""

from __future__ import annotations

import math
import os
import pathlib
import shutil
from typing import Any, Optional

from estimator_kit import experiment, run_record, storage
from estimator_kit.config import ExperimentConfig
from estimator_kit.errors import ConfigError
from estimator_kit.flags import config_from_flagfile
from estimator_kit.retraining import lineage, lock, state
from input_pipelines.row_cache.digests import Digests

# Files that a message names.
_NAMED = 5


def reproduce(config: ExperimentConfig) -> str:
    """Trains `config.cycle` again; returns the table of both trainings' metrics.

    Raises:
      ConfigError: the cycle, its spec, its data or its start are not there as they were.
      Locked: a cycle is at work.
    """
    assert config.model_dir is not None and config.cycle is not None
    folder = state.find(config.model_dir, config.cycle)
    kept = folder.read("lineage")
    if kept is None:
        raise ConfigError(f"--cycle={config.cycle}: cycle {folder.name} has no lineage.json yet")
    with lock.held(config.model_dir, stale_secs=config.lock_stale_secs):
        _check_there(kept, os.path.join(config.model_dir, "facts"))
        flags = os.path.join(folder.train_dir, "flags.txt")
        if not os.path.exists(flags):
            raise ConfigError(f"{flags} is gone: retention removed the training of {folder.name}")
        target = folder.at("reproduction")
        shutil.rmtree(target, ignore_errors=True)
        again = experiment.run(_config(flags, target))
        text = _compare(folder.name, kept, again.metrics, lineage.code(config_model(kept)))
        storage.write_text(os.path.join(target, "reproduction.txt"), text + "\n")
    return text


def config_model(kept: dict[str, Any]) -> str:
    """The model that the flags of a lineage name."""
    found = [flag for flag in kept["flags"] if flag.startswith("--model=")]
    return found[-1].partition("=")[2] if found else "wide_deep"


def _config(flagfile: str, target: str) -> ExperimentConfig:
    """The config of the first training, in another folder."""
    return ExperimentConfig(**{**config_from_flagfile(flagfile).model_dump(), "model_dir": target})


def _check_there(kept: dict[str, Any], facts: str) -> None:
    digests = Digests(pathlib.Path(facts) / "digests.txt")
    changed = []
    for file in (*kept["data"]["train"], *kept["data"]["evaluate"]):
        if not os.path.exists(file["path"]) and "://" not in file["path"]:
            changed.append(f"{file['path']} is gone")
        elif digests.of(file["path"]) != file["sha256"]:
            changed.append(f"{file['path']} holds something else")
    source = kept["parent"]["source"]
    if source is not None and not _is_there(source):
        changed.append(f"{source}, from which it started, is gone")
    if not os.path.exists(kept["spec"]["path"]):
        changed.append(f"{kept['spec']['path']} is gone")
    if changed:
        more = f", and {len(changed) - _NAMED} more" * (len(changed) > _NAMED)
        raise ConfigError(
            f"cycle {kept['cycle']} cannot be made again: {'; '.join(changed[:_NAMED])}{more}"
        )


def _is_there(source: str) -> bool:
    return os.path.exists(f"{source}.index") or os.path.isdir(source)


def _compare(name: str, kept: dict[str, Any], again: Any, code: str) -> str:
    lines = [f"cycle {name}, trained again:"]
    versions = run_record.versions()
    for package, version in kept["versions"].items():
        if versions.get(package) != version:
            lines.append(f"  {package} was {version}, is {versions.get(package)}")
    if code != kept["code"]:
        lines.append("  the code of the kit, or of the model, is another")
    rows = [("metric", "then", "now", "difference")]
    for metric, then in sorted(kept["metrics"].items()):
        now: Optional[float] = again.get(metric)
        if then is None or now is None or not math.isfinite(now):
            continue
        rows.append((metric, f"{then:.6g}", f"{now:.6g}", f"{now - then:+.3g}"))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines += ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]
    largest = max((abs(float(row[3])) for row in rows[1:]), default=0.0)
    lines.append(f"the largest difference is {largest:.3g}")
    return "\n".join(lines)
