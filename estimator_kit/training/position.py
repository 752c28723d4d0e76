"""How far a training has read its input, so that a restart continues with the next row.

The order of rows depends only on the files, the seed, the batch size and the selection of rows.
Files are named by `file_systems.canonical`, so another spelling of their paths is the same input. A
file is the same if its size and a sample of its content (`samples_of`) are; times do not count.
In a cluster each process takes the samples once, at its start, and compares them with `input.json`.
So all of them decide the same, also a worker that reads it before the chief writes it again.
While these stay the same, the checkpoint's step tells how many rows were read (of each shard, if
several processes train; see `Team.own_rows`). `model_dir/input.json` stores them, with the step at
which this input began. If any of them changes (new data, another batch size), reading starts at the
first row again, and counting starts again at 0. `TrainingInput.own_skip` turns a position into a
number of rows.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Optional, Union

from pydantic import Field

from estimator_kit.config.areas.run import ModelChoice
from estimator_kit.config.areas.training import Training
from estimator_kit.config.modes import InFolder
from estimator_kit.errors import ConfigError
from feature_specs.files import documents, file_systems
from feature_specs.sections.records import Filter
from input_pipelines.record_files.file_bytes import samples_of
from input_pipelines.record_files.sharding import sizes_of

_log = logging.getLogger("estimator_kit")

# The fields that do not decide the order of rows.
_PROGRESS = {"first_step", "whole", "epochs", "step"}

# Stored with the negatives: `file_systems.names_of` decides. Earlier versions used whole paths.
BY_NAME = "by name"

_Count = Annotated[int, Field(ge=0, le=2**63 - 1)]


# How many files a warning names for each kind of change.
_NAMED = 3


class InputPosition(documents.Document):
    """Where reading continues: `input.json`. Other fields also decide the order of rows.

    Attributes:
      batch_size, seed, shuffle: the settings.
      files, samples: the size and the sample of each file.
      left_out: for each damaged file, a digest of the records that are not read.
      filter: the conditions on rows.
      keep_negatives: the label, the share, and `BY_NAME`.
      mix: the files and the share of each part.
      first_step: the global step at which this input began.
      whole: (step, epochs): at `step`, exactly `epochs` epochs had been read. This is stored
        because a training may end with a batch that is smaller than the batch size.
      epochs: the value of --epochs at the previous start, or None.
      step: the global step now. Not in the file.
    """

    batch_size: Optional[int] = None
    seed: Optional[int] = None
    shuffle: Optional[bool] = None
    files: dict[str, _Count] = Field({})
    samples: dict[str, str] = Field({})
    left_out: dict[str, str] = Field({})
    filter: Optional[list[Filter]] = None
    keep_negatives: Optional[list[Union[str, float]]] = None
    mix: Optional[list[tuple[list[str], int]]] = None
    first_step: _Count = 0
    whole: tuple[_Count, _Count] = (0, 0)
    epochs: Optional[_Count] = None
    step: Annotated[int, Field(exclude=True)] = 0

    @property
    def steps_read(self) -> int:
        """How many steps were trained on this input."""
        return self.step - self.first_step

    def at(self, step: int) -> InputPosition:
        """The position at another step, for example the step of a later checkpoint."""
        return self.model_copy(update={"step": step})

    def beginning_at(self, step: int) -> InputPosition:
        """The position at the first row, if a training reads it at this step."""
        return self.model_copy(update={"first_step": step, "step": step, "whole": (step, 0)})

    def write(self, model_dir: str, epochs: Optional[int]) -> None:
        """Writes `input.json`; `epochs` is the value of --epochs at this start."""
        self.model_copy(update={"epochs": epochs}).save(_path(model_dir))


def find_position(
    run: InFolder,
    choice: ModelChoice,
    training: Training,
    train_files: list[str],
    start_step: int,
    left_out: Mapping[str, str] = MappingProxyType({}),
    *,
    selection: Mapping[str, Any] = MappingProxyType({}),
    sizes: Optional[Mapping[str, int]] = None,
    samples: Optional[Mapping[str, str]] = None,
) -> InputPosition:
    """The position at which a start at `start_step` reads.

    Args:
      run, choice, training: the training.
      train_files: the files that are read.
      start_step: the step of the checkpoint that training goes on from, 0 without one.
      left_out: for each damaged file, a digest of the records that are not read.
      selection: what else decides the order of rows, by name.
      sizes: the sizes of the files in bytes; by default they are looked up.
      samples: the samples of the files; by default they are taken.

    Raises:
      ConfigError: an earlier version of the kit drew other negatives of the same files.
    """
    sizes = sizes_of(train_files) if sizes is None else sizes
    now = InputPosition(
        batch_size=training.batch_size,
        seed=choice.seed,
        shuffle=training.shuffle,
        files=_by_name(sizes),
        samples=_by_name(samples_of(sizes) if samples is None else samples),
        left_out=_by_name(left_out),
        **selection,
    ).beginning_at(0)
    written = InputPosition.load(_path(run.model_dir)) if start_step else None
    if written is None:
        return now.at(start_step)
    kept, drawn = _with_names(written), now.keep_negatives
    by_path = drawn is not None and kept.keep_negatives == drawn[:-1]
    if by_path:
        kept = kept.model_copy(update={"keep_negatives": drawn})
    changed = _changes(kept, now)
    if changed:
        _log.warning(
            "the input changed since step %d (%s), so counting its rows and epochs starts again "
            "at 0",
            start_step,
            ", ".join(changed),
        )
        return now.beginning_at(start_step)
    names_of = file_systems.names_of(written.files if by_path else ())
    other = [path for path, name in names_of.items() if path != name]
    if other:
        raise ConfigError(
            f"--keep_negatives: {_path(run.model_dir)} is from an earlier version, which drew "
            f"negatives by whole paths, got {other[0]!r}. This version draws by names in the "
            "folder of the files, so it would go on with other rows. Finish this training with the "
            "earlier version, or change --seed: then rows and epochs are counted again from 0."
        )
    since = kept.whole if "whole" in kept.model_fields_set else (kept.first_step, 0)
    progress = {"first_step": kept.first_step, "whole": since, "epochs": kept.epochs}
    return now.model_copy(update={**progress, "step": start_step})


def _changes(kept: InputPosition, now: InputPosition) -> list[str]:
    """What decides the order of rows and differs, by name; of the files, also which ones.

    Earlier versions stored no samples. What is not stored contradicts nothing.
    """
    sides = dict(kept), dict(now)
    names = {*sides[0], *sides[1]} - _PROGRESS - {"files", "samples"}
    changed = [name for name in names if sides[0].get(name) != sides[1].get(name)]
    before, samples = kept.files, {**now.samples, **kept.samples}
    other = [
        path
        for path, size in now.files.items()
        if path in before and (before[path] != size or samples[path] != now.samples[path])
    ]
    kinds = {
        "added": [path for path in now.files if path not in before],
        "removed": [path for path in before if path not in now.files],
        "with other content": other,
    }
    texts = [f"{len(paths)} {kind}: {_listed(paths)}" for kind, paths in kinds.items() if paths]
    if texts:
        changed.append(f"files: {'; '.join(texts)}")
    return sorted(changed)


def _listed(paths: list[str]) -> str:
    """The first paths, and how many more there are."""
    more = len(paths) - _NAMED
    return ", ".join(paths[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _by_name(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of files, by the canonical names of the files."""
    names = file_systems.canonical_of(values)
    return dict(sorted((names[path], value) for path, value in values.items()))


def _with_names(kept: InputPosition) -> InputPosition:
    """The content of `input.json` with canonical names, as this version writes it.

    Earlier versions stored paths as they were written, and read the files in the order of these
    paths. If the names have another order, an entry is added that no input of this version has.
    """
    lists = [sorted(kept.files), *(paths for paths, _ in kept.mix or ())]
    names = file_systems.canonical_of(path for paths in lists for path in paths)
    in_order = all(
        [names[path] for path in paths] == sorted(names[p] for p in paths) for paths in lists
    )
    facts: dict[str, object] = {
        "files": _by_name(kept.files),
        "samples": _by_name(kept.samples),
        "left_out": _by_name(kept.left_out),
    }
    if kept.mix is not None:
        facts["mix"] = [([names[path] for path in paths], share) for paths, share in kept.mix]
    return kept.model_copy(update=facts if in_order else {**facts, "order of files": "by path"})


def _path(model_dir: str) -> str:
    return os.path.join(model_dir, "input.json")
