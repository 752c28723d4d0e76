"""The files that cases start with: small data, and the results of trainings on them.

    data/       spec.yaml, words.txt, run.flags, records, tables; each case has a copy
    model/      a model directory with two checkpoints, its evaluations and two exports
    retraining/ a model directory of retraining after one cycle, with its serving directory

A case works in its own folder, and all its paths are relative to that folder.
"""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

DOCUMENT: dict[str, Any] = {
    "features": {
        "price": {"dtype": "float32", "default": 0.0},
        "city": {"dtype": "string"},
        "tags": {"dtype": "string", "shape": "variable"},
        "row": {"dtype": "int64"},
    },
    "columns": {
        "price": {"numeric": "price", "normalizer": "log1p"},
        "city": {"vocabulary": "city", "file": "words.txt", "oov_buckets": 1},
        "tag": {"hash_bucket": "tags", "size": 10},
        "row": {"identity": "row", "size": 9, "default_id": 8},
        "city_emb": {"embedding": "city", "dimension": 2},
    },
    "groups": {"wide": ["price", "city", "tag"], "deep": ["price", "city_emb", "row"]},
    "labels": {"click": {"dtype": "int64"}},
    "objectives": {"click": {"head": "binary"}},
}

FLAGS = """\
# A small run.
--spec=spec.yaml
--train_files=train-*
--eval_files=eval.tfrecord
--predict_files=eval.tfrecord
--mode=validate
--model=linear
--model_dir=model
--batch_size=20
--max_steps=2
--exporters=final
"""

# The flags of the model in `model/`, which has two checkpoints.
STEPS = 4

EXPORT = "export/final/1"


def make(folder: pathlib.Path) -> None:
    """Fills a folder with all three."""
    import yaml

    from input_pipelines.record_files import writing
    from tests.conftest import make_rows
    from tests.programs import run

    data = folder / "data"
    data.mkdir()
    (data / "spec.yaml").write_text(yaml.safe_dump(DOCUMENT, sort_keys=False))
    (data / "words.txt").write_text("rome\noslo\n")
    (data / "run.flags").write_text(FLAGS)
    for name, count in (
        ("train-0.tfrecord", 30),
        ("train-1.tfrecord.gz", 10),
        ("eval.tfrecord", 20),
    ):
        writing.write_examples(str(data / name), make_rows(count, seed=count))
    _write_tables(data, make_rows(25, seed=1))
    work = folder / "work"
    shutil.copytree(data, work)
    for steps in (2, STEPS):
        done = run(
            work, "--flagfile=run.flags", "--mode=train_and_evaluate", f"--max_steps={steps}",
            "--exporters=best,final", "--save_checkpoints_steps=2",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    for path in (work / "model").rglob("events.out.*"):
        path.unlink()  # Most of the bytes; nothing reads them.
    exports = work / "model" / "export" / "final"
    newest, *older = sorted(exports.iterdir(), key=lambda path: int(path.name), reverse=True)
    newest.rename(work / "model" / EXPORT)
    for path in older:
        shutil.rmtree(path)
    shutil.move(str(work / "model"), str(folder / "model"))
    shutil.rmtree(work)
    _write_retraining(folder / "retraining")


def _write_tables(data: pathlib.Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    with (data / "table.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    flat = [{**row, "tags": "|".join(row["tags"])} for row in rows]
    lines = [",".join(flat[0]), *(",".join(map(str, row.values())) for row in flat)]
    (data / "table.csv").write_text("\n".join(lines) + "\n")
    pa.parquet.write_table(pa.Table.from_pylist(rows), data / "table.parquet", row_group_size=10)


def _write_retraining(folder: pathlib.Path) -> None:
    from tests.integration import retraining_data
    from tests.programs import run

    folder.mkdir()
    retraining_data.write_spec(folder)
    for day in (1, 2, 3):
        retraining_data.write_day(folder, day, rows=40)
    flags = [f"--{name}={','.join(v) if isinstance(v, tuple) else v}"
             for name, v in retraining_data.fields().items()]  # fmt: skip
    (folder / "retrain.flags").write_text("\n".join(flags) + "\n")
    done = run(folder, "--flagfile=retrain.flags")
    assert done.returncode == 0, done.stderr
    for path in (folder / "model").rglob("events.out.*"):
        path.unlink()
