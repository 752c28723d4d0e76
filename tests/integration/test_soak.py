"""Many epochs with an evaluation after each, because a training may run for weeks.

The test reads the memory of the process (`VmRSS`) after each evaluation, in its own exporter, so it
does not depend on the kit. Forty epochs show how fast the memory grows, and two hundred epochs show
how much it has grown.
"""

from __future__ import annotations

import gc
import json
import re

import numpy as np
import pytest

import estimator_kit as ek
from estimator_kit.training.after_evaluation import AfterEvaluation
from input_pipelines.record_files import writing
from tests.conftest import make_rows

ROWS, BATCH = 400, 50

# The 190 epochs after the first ten may add at most a tenth of the memory.
GROWTH = 0.1 / 190

# A small model, because each epoch makes two graphs: one number, a vocabulary and a hash column.
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


@pytest.mark.nightly
@pytest.mark.parametrize("epochs", [40, 200])
def test_memory_stays_what_it_is_after_ten_epochs(tmp_path, monkeypatch, epochs):
    (tmp_path / "spec.json").write_text(json.dumps(DOCUMENT))
    for i in range(4):
        path = f"{tmp_path}/train-{i}.tfrecord"
        writing.write_examples(path, make_rows(ROWS // 4, seed=i))
    writing.write_examples(f"{tmp_path}/eval.tfrecord", make_rows(200, seed=9))
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
        eval_files=(f"{tmp_path}/eval.tfrecord",), batch_size=BATCH, epochs=epochs,
        save_checkpoints_steps=ROWS // BATCH, eval_throttle_secs=0, exporters=(),
    ))  # fmt: skip
    assert result.rows_trained == epochs * ROWS
    print("MiB after each evaluation:", [round(m) for m in memory])
    assert len(memory) >= epochs
    after = memory[9:epochs]
    slope = np.polyfit(np.arange(len(after)), after, 1)[0]
    assert slope < GROWTH * memory[9], memory
    assert after[-1] - after[0] < 0.1 * memory[9], memory
