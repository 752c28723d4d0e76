"""Where in its input a training is, so that a restart reads the rows that would have come next.

The order of rows is a function of files, seed, batch size and what is selected of them, so the
checkpoint's step says how many rows were read, as long as these stay the same. They are kept in
`model_dir/input.json`, with the step at which this input began. When they change (new data, another
batch size), reading begins anew, and epochs are counted from there.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from typing import Any, Optional

import tensorflow as tf

from estimator_kit import storage
from estimator_kit.config import ExperimentConfig

_log = logging.getLogger("estimator_kit")


@dataclasses.dataclass(frozen=True)
class InputPosition:
    """Where reading goes on.

    Attributes:
      identity: what decides the order of rows.
      first_step: the global step at which this input began.
      skip_rows: rows of it that were read since.
    """

    identity: dict[str, Any]
    first_step: int
    skip_rows: int

    def write(self, model_dir: str) -> None:
        storage.write_json(_path(model_dir), {**self.identity, "first_step": self.first_step})


def find_position(
    config: ExperimentConfig,
    train_files: list[str],
    start_step: int,
    selection: Optional[dict[str, Any]] = None,
) -> InputPosition:
    """The position at which a start at `start_step` reads.

    `selection` is what else decides the order of rows, by name.
    """
    assert config.model_dir is not None
    identity: dict[str, Any] = {
        "batch_size": config.batch_size,
        "seed": config.seed,
        "shuffle": config.shuffle,
        "files": {path: tf.io.gfile.stat(path).length for path in sorted(train_files)},
        **(selection or {}),
    }
    kept = storage.read_json(_path(config.model_dir)) if start_step else None
    first_step = 0 if kept is None else kept.get("first_step", 0)
    names = {**identity, **(kept or {})}.keys() - {"first_step"}
    changed = [name for name in sorted(names) if kept and kept.get(name) != identity.get(name)]
    if changed:
        _log.warning(
            "the input changed since step %d (%s): its rows and epochs are counted from here",
            start_step,
            ", ".join(changed),
        )
        first_step = start_step
    return InputPosition(identity, first_step, (start_step - first_step) * config.batch_size)


def _path(model_dir: str) -> str:
    return os.path.join(model_dir, "input.json")
