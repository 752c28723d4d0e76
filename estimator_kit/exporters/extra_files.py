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
from typing import Any, Optional

import tensorflow as tf

from estimator_kit import storage
from estimator_kit.checkpoints import run_record
from estimator_kit.exporters import client_examples, warm_up
from estimator_kit.exporters.sample_rows import SampleRows
from estimator_kit.exporters.verification import Report
from estimator_kit.exporters.writer import Written
from feature_specs.files import documents, file_systems
from feature_specs.spec import FeatureSpec
from input_pipelines.transform import raw_inputs

# Rows of a warm-up request.
_WARM_ROWS = 8

NOT_CHECKED = "not checked: no rows to send. Give --eval_files."
NO_LIBRARY = "not checked: TensorFlow has no C library"


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
    documents.write_json(os.path.join(extra, "metrics.json"), dict(origin.metrics))
    needs = {name: list(features) for name, features in sorted(written.needs.items())}
    documents.write_json(os.path.join(extra, "signature_features.json"), needs)
    if rows is None:
        return
    model = model_name(model_dir)
    warm_up.write(
        os.path.join(extra, warm_up.NAME),
        written.signatures,
        rows.records[:_WARM_ROWS],
        {name: values[:_WARM_ROWS] for name, values in rows.sent.items()},
        spec=spec,
        model=model,
    )
    row = int(rows.sendable.argmax())
    raw = {}
    if written.raw_signatures and rows.sendable[row]:
        raw = raw_inputs.one_row(spec, rows.raw, row)
    folder = os.path.join(staged, "client_examples")
    tf.io.gfile.makedirs(folder)
    for name, content in client_examples.files(spec, rows.records[row], raw, model=model).items():
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
    moment = datetime.datetime.fromtimestamp(now, datetime.timezone.utc)
    lineage = {
        "created": moment.isoformat(timespec="seconds"),
        "exporter": origin.exporter,
        "model_dir": model_dir,
        "checkpoint": os.path.basename(checkpoint),
        "global_step": int(tf.train.load_variable(checkpoint, "global_step")),
        "feature_spec": spec.fingerprint(),
        "versions": run_record.versions(),
        "signatures": sorted(written.signatures),
        "check": missing if report is None else dataclasses.asdict(report),
        **origin.facts,
    }
    documents.write_json(os.path.join(staged, "assets.extra", "lineage.json"), lineage)


def is_of(export: str, spec: FeatureSpec, origin: Origin, checkpoint: str) -> bool:
    """Whether an export is the one of this checkpoint, with these metrics, spec and flags."""
    extra = os.path.join(export, "assets.extra")
    lineage = storage.read_json(os.path.join(extra, "lineage.json"), dict[str, Any]) or {}
    metrics = storage.read_json(os.path.join(extra, "metrics.json"))
    same = lineage.get("checkpoint") == os.path.basename(checkpoint)
    same = same and lineage.get("feature_spec") == spec.fingerprint()
    if not same or metrics != documents.plain(dict(origin.metrics)):
        return False
    with tf.io.gfile.GFile(os.path.join(extra, "flags.txt")) as file:
        return bool(file.read() == origin.flags)


def change_origin(staged: str, origin: Origin, source: str, now: float) -> None:
    """Writes the exporter and the metrics of a copy of the export `source`."""
    extra = os.path.join(staged, "assets.extra")
    documents.write_json(os.path.join(extra, "metrics.json"), dict(origin.metrics))
    path = os.path.join(extra, "lineage.json")
    lineage = storage.read_json(path, dict[str, Any])
    assert lineage is not None, path
    moment = datetime.datetime.fromtimestamp(now, datetime.timezone.utc)
    changes = {
        "created": moment.isoformat(timespec="seconds"),
        "exporter": origin.exporter,
        "copy_of": source,
    }
    documents.write_json(path, {**lineage, **changes})


def model_name(model_dir: str) -> str:
    """The name of the model in requests: the name of its directory."""
    return os.path.basename(os.path.normpath(model_dir)) or "model"
