"""The output file of each input file, and what a restart must have in common with the start."""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import ClassVar, Optional

import pydantic

from estimator_kit.config import code_digests
from estimator_kit.errors import ConfigError
from estimator_kit.scoring.export import Export
from feature_specs.files import documents, jobs
from feature_specs.files.jobs import File
from feature_specs.files.shards import Written
from input_pipelines.prepare.tables.options import CsvOptions

_VERSION = 1


class _Prediction(jobs.Plan):
    """What the plan and the manifest have in common."""

    noun = "prediction"
    # The most important first.
    called: ClassVar[Mapping[str, str]] = {
        "version": "the form of the plan",
        "export": "the export",
        "files": "the files that are predicted",
        "keep_columns": "the columns that are kept",
        "csv": "how CSV is written",
        "left_out": "the bad records that are left out",
    }

    export: dict[str, pydantic.JsonValue]
    export_dir: str
    files: list[File]
    keep_columns: list[str]
    csv: dict[str, pydantic.JsonValue]
    left_out: dict[str, str]

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]


class OutputForm(documents.Part):
    """The form of an output; see `tables.table_format.Output`."""

    dtype: str
    width: Optional[int]


class WrittenFile(Written):
    """A finished file; `of` is the path of the input file."""

    of: str


class ManifestDocument(_Prediction):
    """`_MANIFEST.json` of a prediction. The files are in the order of the inputs."""

    shards: list[WrittenFile]
    signature: str
    outputs: dict[str, OutputForm]
    rows: int


class PlanDocument(_Prediction):
    """`_PLAN.json` of a prediction. A shard has its name and the path of its input file."""

    shards: list[tuple[str, str]]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.shards]

    def manifest(self, export: Export, written: Mapping[str, Written]) -> ManifestDocument:
        """The manifest, when these files are written."""
        same = {name: getattr(self, name) for name in _Prediction.model_fields}
        same["files"] = [File(path=f.path, bytes=(f.stamp or [0])[0]) for f in self.files]
        return ManifestDocument(
            **same,
            shards=[
                WrittenFile(**{**dict(written[name]), "of": path}) for name, path in self.shards
            ],
            signature=export.signature,
            outputs={o.name: OutputForm(dtype=o.dtype, width=o.width) for o in export.outputs},
            rows=sum(file.rows for file in written.values()),
        )


@dataclasses.dataclass(frozen=True)
class ScoredFile:
    """An output file.

    Attributes:
      name: its name in the output folder.
      path: the path of the input file.
      stamp: the size and last change of the input file; see `file_systems.stamp`.
      rows: the number of rows of the input file if it is a table; otherwise None.
    """

    name: str
    path: str
    stamp: tuple[int, ...]
    rows: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Plan:
    """What to predict.

    Attributes:
      export: the export that predicts.
      kind: the kind of the files; see `record_files.kinds`.
      shards: the output files, in the order of the inputs.
      keep: the columns or features that are copied to the output.
      csv: the CSV format.
      chosen: the names in --predict_outputs, in their order; empty for all outputs.
      left_out: for each damaged file that is read in part, a digest of the part that is not read.
    """

    export: Export
    kind: str
    shards: tuple[ScoredFile, ...]
    keep: tuple[str, ...]
    csv: CsvOptions = CsvOptions()
    chosen: tuple[str, ...] = ()
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def document(self) -> PlanDocument:
        """The plan as a file. Two plans with the same document predict the same."""
        return PlanDocument(
            version=_VERSION,
            code=code_digests.of_kit(),
            export={
                "version": self.export.version,
                "digest": self.export.digest,
                **({"outputs": list(self.chosen)} if self.chosen else {}),
                **{name: value.item() for name, value in self.export.fixed_inputs.items()},
            },
            export_dir=self.export.path,
            files=[File(path=shard.path, stamp=list(shard.stamp)) for shard in self.shards],
            keep_columns=list(self.keep),
            csv=self.csv.document(),
            left_out=dict(self.left_out),
            shards=[(shard.name, shard.path) for shard in self.shards],
        )


def output_names(paths: Sequence[str]) -> dict[str, str]:
    """The name of each input's output in one folder.

    It is the name of the input. If two inputs have the same name, the names of the folders that
    differ come before it, for example `dt=2026-01-08__part-0.tfrecord`.

    Raises:
      ConfigError: two outputs still have the same name, or a name would hide its file.
    """
    names = {path: os.path.basename(path) for path in paths}
    if len(set(names.values())) < len(paths):
        parts = {path: [part for part in path.split("/") if part] for path in paths}
        levels = enumerate(zip(*parts.values()))
        common = next((i for i, level in levels if len(set(level)) > 1), 0)
        names = {path: "__".join(parts[path][common:]) for path in paths}
    for name, count in collections.Counter(names.values()).items():
        if count > 1:
            raise ConfigError(
                f"--predict_files: the predictions of {count} files would have the same name "
                f"{name!r}. Predict these files into separate folders."
            )
        if name.startswith(("_", ".")):
            raise ConfigError(
                f"--predict_files: the predictions of a file would have the name {name!r}, which "
                "readers of folders ignore. Rename the file."
            )
    return names
