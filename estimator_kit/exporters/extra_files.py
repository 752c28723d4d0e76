"""The files that the kit adds to a SavedModel.

assets.extra/feature_spec/   the spec and its vocabularies, as in the model directory
assets.extra/flags.txt       the resolved flags of the run; a flagfile
assets.extra/metrics.json    the metrics of the checkpoint's evaluation
assets.extra/signature_features.json
                             the features that each signature needs in a record, for clients
assets.extra/lineage.json    what the export was made from, and how it was checked
assets.extra/tf_serving_warmup_requests, client_examples/   only if there are rows
"""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Mapping
from typing import Any, Optional, Union

import tensorflow as tf
from pydantic import Field

from estimator_kit.checkpoints import run_record
from estimator_kit.exporters import example_requests
from estimator_kit.exporters.sample_rows import SampleRows
from estimator_kit.exporters.verification import Report
from estimator_kit.exporters.writer import Written
from feature_specs.files import documents, file_systems
from feature_specs.spec import FeatureSpec
from input_pipelines.transform import serving_inputs

# Rows of a warm-up request.
_WARM_ROWS = 8

NOT_CHECKED = "not checked: no rows to send. Give --eval_files."
NO_LIBRARY = "not checked: TensorFlow has no C library"


class Metrics(documents.Root[dict[str, Optional[float]]]):
    """`metrics.json`."""

    @classmethod
    def of(cls, export: str) -> Optional[Metrics]:
        """The metrics of an export, if it has them. Raises ConfigError: the file is damaged."""
        return cls.load(os.path.join(export, "assets.extra", "metrics.json"))


class Lineage(documents.Document):
    """`lineage.json`. `check` may be a sentence, and `Origin.facts` are more fields."""

    created: Optional[str] = None
    exporter: Optional[str] = None
    model_dir: Optional[str] = None
    checkpoint: Optional[str] = None
    global_step: Optional[int] = None
    feature_spec: Optional[str] = None
    versions: dict[str, str] = Field({})
    signatures: list[str] = Field([])
    check: Union[str, Report, None] = None
    copy_of: Optional[str] = None

    @classmethod
    def of(cls, export: str) -> Optional[Lineage]:
        """The lineage of an export, if it has one. Raises ConfigError: the file is damaged."""
        return cls.load(os.path.join(export, "assets.extra", "lineage.json"))


class _Needs(documents.Root[dict[str, list[str]]]):
    """`signature_features.json`."""


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where an export comes from, for `lineage.json` and the other files.

    Attributes:
      exporter: the name of the exporter: latest, best, ...
      metrics: the metrics of the checkpoint's evaluation; empty if it had none.
      facts: more entries of lineage.json.
      flags: the resolved flags, or None to copy them from the model directory.
    """

    exporter: str = "final"
    metrics: Mapping[str, Optional[float]] = dataclasses.field(default_factory=dict)
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    flags: Optional[str] = None


def write(
    staged: str,
    model_dir: str,
    spec: FeatureSpec,
    origin: Origin,
    written: Written,
    rows: Optional[SampleRows],
) -> None:
    """Writes all files except `lineage.json`."""
    extra = os.path.join(staged, "assets.extra")
    tf.io.gfile.makedirs(extra)
    copied = os.path.join(extra, "feature_spec")
    file_systems.copy_folder(os.path.join(model_dir, "feature_spec"), copied)
    flags = os.path.join(model_dir, "flags.txt")
    if origin.flags is not None:
        documents.write_text(os.path.join(extra, "flags.txt"), origin.flags)
    elif tf.io.gfile.exists(flags):
        tf.io.gfile.copy(flags, os.path.join(extra, "flags.txt"))
    Metrics(dict(origin.metrics)).save(os.path.join(extra, "metrics.json"))
    needs = {name: list(features) for name, features in written.needs.items()}
    _Needs(needs).save(os.path.join(extra, "signature_features.json"))
    if rows is None:
        return
    model = model_name(model_dir)
    example_requests.write(
        os.path.join(extra, example_requests.NAME),
        written.signatures,
        rows.records[:_WARM_ROWS],
        {name: values[:_WARM_ROWS] for name, values in rows.sent.items()},
        spec=spec,
        model=model,
    )
    row = int(rows.sendable.argmax())
    raw = {}
    if written.raw_signatures and rows.sendable[row]:
        raw = serving_inputs.one_row(spec, rows.raw, row)
    folder = os.path.join(staged, "client_examples")
    tf.io.gfile.makedirs(folder)
    for name, content in example_requests.files(spec, rows.records[row], raw, model=model).items():
        with tf.io.gfile.GFile(os.path.join(folder, name), "wb") as file:
            file.write(content)


def write_lineage(
    staged: str,
    model_dir: str,
    spec: FeatureSpec,
    origin: Origin,
    checkpoint: str,
    written: Written,
    report: Optional[Report],
    missing: str,
    now: float,
) -> None:
    """Writes `lineage.json` after the checks, because it contains their results."""
    lineage = Lineage(
        created=_time(now),
        exporter=origin.exporter,
        model_dir=model_dir,
        checkpoint=os.path.basename(checkpoint),
        global_step=int(tf.train.load_variable(checkpoint, "global_step")),
        feature_spec=spec.fingerprint(),
        versions=run_record.versions(),
        signatures=sorted(written.signatures),
        check=missing if report is None else report,
        **origin.facts,
    )
    lineage.save(os.path.join(staged, "assets.extra", "lineage.json"))


def is_of(export: str, spec: FeatureSpec, origin: Origin, checkpoint: str) -> bool:
    """Whether an export is the one of this checkpoint, with these metrics, spec and flags."""
    lineage, metrics = Lineage.of(export) or Lineage(), Metrics.of(export)
    same = lineage.checkpoint == os.path.basename(checkpoint)
    same = same and lineage.feature_spec == spec.fingerprint()
    if not same or metrics is None or metrics.root != documents.plain(dict(origin.metrics)):
        return False
    flags = file_systems.read(os.path.join(export, "assets.extra", "flags.txt")) or b""
    return flags.decode() == origin.flags


def change_origin(staged: str, origin: Origin, source: str, now: float) -> None:
    """Writes the exporter and the metrics of a copy of the export `source`."""
    extra = os.path.join(staged, "assets.extra")
    Metrics(dict(origin.metrics)).save(os.path.join(extra, "metrics.json"))
    lineage = Lineage.of(staged)
    assert lineage is not None, staged
    changes = {"created": _time(now), "exporter": origin.exporter, "copy_of": source}
    lineage.model_copy(update=changes).save(os.path.join(extra, "lineage.json"))


def _time(now: float) -> str:
    moment = datetime.datetime.fromtimestamp(now, datetime.timezone.utc)
    return moment.isoformat(timespec="seconds")


def model_name(model_dir: str) -> str:
    """The name of the model in requests: the name of its directory."""
    return os.path.basename(os.path.normpath(model_dir)) or "model"
