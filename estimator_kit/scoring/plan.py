"""Which file becomes which, and what a second start has to have in common with the first."""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from estimator_kit.errors import ConfigError
from estimator_kit.scoring.export import Export
from input_pipelines.prepare.convert.shard_files import Written
from input_pipelines.prepare.tables.options import CsvOptions

_VERSION = 1

# What entries of the document are called in errors, in the order of their weight.
CALLED = {
    "version": "the version of the kit",
    "export": "the export",
    "files": "the files that are predicted",
    "keep_columns": "the columns that are kept",
    "csv": "how CSV is written",
    "left_out": "the bad records that are left out",
}


@dataclasses.dataclass(frozen=True)
class ScoredFile:
    """An output file.

    Attributes:
      name: in the output folder.
      path: of the input.
      stamp: its size and the time of its last change, as `places.stamp` has them.
      rows: of the input, where they were counted: those of a table.
    """

    name: str
    path: str
    stamp: tuple[int, ...]
    rows: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be predicted.

    Attributes:
      export: by what.
      kind: of the files, as `record_files.kinds` names it.
      shards: the output files, in the order of the inputs.
      keep: names of columns or features that go beside the predictions.
      csv: how CSV files are written.
      chosen: the outputs that were asked for by name, in their order; empty for all.
      left_out: of damaged files that are read in part, a digest of what is not.
    """

    export: Export
    kind: str
    shards: tuple[ScoredFile, ...]
    keep: tuple[str, ...]
    csv: CsvOptions = CsvOptions()
    chosen: tuple[str, ...] = ()
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The plan in JSON: two with the same one predict the same."""
        return {
            "version": _VERSION,
            "export": {
                "version": self.export.version,
                "digest": self.export.digest,
                **({"outputs": list(self.chosen)} if self.chosen else {}),
            },
            "export_dir": self.export.path,
            "files": [{"path": shard.path, "stamp": list(shard.stamp)} for shard in self.shards],
            "keep_columns": list(self.keep),
            "csv": {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in dataclasses.asdict(self.csv).items()
            },
            "left_out": dict(self.left_out),
            "shards": [[shard.name, shard.path] for shard in self.shards],
        }

    def manifest(
        self, document: Mapping[str, Any], written: Mapping[str, Written]
    ) -> dict[str, Any]:
        """The document with what was written: rows, bytes and CRC-32 of every file."""
        return {
            **document,
            "signature": self.export.signature,
            "outputs": {
                output.name: {"dtype": output.dtype, "width": output.width}
                for output in self.export.outputs
            },
            "files": [
                {"path": file["path"], "bytes": file["stamp"][0]} for file in document["files"]
            ],
            "shards": [
                {**dataclasses.asdict(written[shard.name]), "of": shard.path}
                for shard in self.shards
            ],
            "rows": sum(shard.rows for shard in written.values()),
        }


def output_names(paths: Sequence[str]) -> dict[str, str]:
    """A name in one folder for the output of each input.

    That of the input; where two inputs have one name, with the folders that differ before it, as in
    `dt=2026-01-08__part-0.tfrecord`.

    Raises:
      ConfigError: two of them still have one, or one would be hidden.
    """
    names = {path: os.path.basename(path) for path in paths}
    if len(set(names.values())) < len(paths):
        parts = {path: [part for part in path.split("/") if part] for path in paths}
        levels = enumerate(zip(*parts.values()))
        common = next((i for i, found in levels if len(set(found)) > 1), 0)
        names = {path: "__".join(parts[path][common:]) for path in paths}
    for name, count in collections.Counter(names.values()).items():
        if count > 1:
            raise ConfigError(
                f"--predict_files: the predictions of {count} of them would be named {name!r}; "
                "predict them into folders of their own"
            )
        if name.startswith(("_", ".")):
            raise ConfigError(
                f"--predict_files: the predictions of a file would be named {name!r}, which "
                "readers of folders pass over; rename the file"
            )
    return names
