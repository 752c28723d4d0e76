"""Small days of records and a spec to retrain on, for tests of retraining."""

from __future__ import annotations

import copy
import json
import pathlib
from typing import Any, Optional

import estimator_kit as ek
from input_pipelines.record_files import writing
from tests.conftest import DOCUMENT, make_rows

RETRAINING: dict[str, Any] = {
    "label_rate": {"click": {"min": 0.05, "otherwise": "leave_out"}},
    "gate": {
        "bootstrap": {"samples": 50},
        "conditions": [
            {"metric": "log_loss/click", "max": 5},
            {"metric": "auc/click", "max_loss": 0.5, "by": "estimate"},
        ],
    },
}


def write_spec(folder: pathlib.Path, **retraining: Any) -> str:
    """Writes a spec with a vocabulary file of cities and a section `retraining`."""
    document = copy.deepcopy(DOCUMENT)
    document["columns"]["city"] = {
        "vocabulary": "city", "file": "words/city.txt", "oov_buckets": 1,
    }  # fmt: skip
    document["retraining"] = {**RETRAINING, **retraining}
    (folder / "words").mkdir(exist_ok=True)
    (folder / "words" / "city.txt").write_text("oslo\n")
    path = folder / "spec.yaml"
    path.write_text(json.dumps(document))
    return str(path)


def write_day(folder: pathlib.Path, day: int, rows: int = 120, **changes: Any) -> pathlib.Path:
    """Writes a complete day of January 2026. `changes` apply to every row."""
    place = folder / "data" / f"dt=2026-01-{day:02d}"
    place.mkdir(parents=True, exist_ok=True)
    records = [{**row, **changes} for row in make_rows(rows, seed=day)]
    writing.write_examples(str(place / "part-0.tfrecord"), records[: rows // 2])
    writing.write_examples(str(place / "part-1.tfrecord"), records[rows // 2 :])
    (place / "_SUCCESS").touch()
    return place


def fields(folder: Optional[pathlib.Path] = None, **changes: Any) -> dict[str, Any]:
    """The fields of a config for a cycle of a linear model, by default in the working directory."""
    start = "" if folder is None else f"{folder}/"
    return {
        "mode": "retrain", "spec": f"{start}spec.yaml", "model": "linear",
        "train_files": (f"{start}data/dt=*/*.tfrecord",), "window": "2d",
        "model_dir": f"{start}model", "as_of": "2026-01-03", "epochs": 1, "batch_size": 40,
        "min_count": 2, **changes,
    }  # fmt: skip


def config(folder: Optional[pathlib.Path] = None, **changes: Any) -> ek.ExperimentConfig:
    return ek.ExperimentConfig(**fields(folder, **changes))
