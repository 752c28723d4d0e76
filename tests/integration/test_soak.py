"""Two hundred epochs with an evaluation after each: a training may run for weeks.

Memory is that of the process (`VmRSS`), read after each evaluation by an exporter's hook of the
test's own, so that nothing of the kit has a part in it.
"""

from __future__ import annotations

import gc
import json
import re

import pytest

import estimator_kit as ek
from estimator_kit.exporters.after_evaluation import AfterEvaluation
from input_pipelines import tfrecords
from tests.conftest import make_rows

EPOCHS, ROWS, BATCH = 200, 400, 50

# Small, because two graphs are made an epoch: a number, and words under a vocabulary and a hash.
DOCUMENT = {
    "features": {
        "price": {"dtype": "float32"},
        "city": {"dtype": "string", "default": ""},
        "user": {"dtype": "string", "default": ""},
    },
    "columns": {
        "price": {"numeric": "price", "normalizer": "log1p"},
        "known": {"vocabulary": "city", "list": ["rome", "oslo"], "oov_buckets": 1},
        "hashed": {"hash_bucket": "user", "size": 50},
    },
    "groups": {"wide": ["price", "known", "hashed"]},
    "labels": {"click": {"dtype": "int64"}},
    "objectives": {"click": {"head": "binary", "metrics": []}},
}


def resident_mib() -> float:
    with open("/proc/self/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+) kB", file.read())[1]) / 1024


@pytest.mark.ci
def test_memory_after_200_epochs_is_that_after_ten(tmp_path, monkeypatch):
    (tmp_path / "spec.json").write_text(json.dumps(DOCUMENT))
    for i in range(4):
        path = f"{tmp_path}/train-{i}.tfrecord"
        tfrecords.write_examples(path, make_rows(ROWS // 4, seed=i))
    tfrecords.write_examples(f"{tmp_path}/eval.tfrecord", make_rows(200, seed=9))
    memory = []
    export = AfterEvaluation.export

    def measured(self, *arguments, **options):
        result = export(self, *arguments, **options)
        gc.collect()
        memory.append(resident_mib())
        return result

    monkeypatch.setattr(AfterEvaluation, "export", measured)
    result = ek.run(ek.ExperimentConfig(
        mode="train_and_evaluate", spec=f"{tmp_path}/spec.json", model="linear",
        model_dir=f"{tmp_path}/model", train_files=(f"{tmp_path}/train-*",),
        eval_files=(f"{tmp_path}/eval.tfrecord",), batch_size=BATCH, epochs=EPOCHS,
        save_checkpoints_steps=ROWS // BATCH, eval_throttle_secs=0, exporters=(),
    ))  # fmt: skip
    assert result.rows_trained == EPOCHS * ROWS
    print("MiB after each evaluation:", [round(m) for m in memory])
    assert len(memory) >= EPOCHS
    assert memory[EPOCHS - 1] < 1.1 * memory[9], memory
