"""EasyRec trains, evaluates, predicts and exports after the changes in docs/guides/easyrec.md.

ESTIMATOR_KIT_EASYREC names a checkout of https://github.com/alibaba/EasyRec, which stays as it is.
The packages that the guide installs must be importable, for instance from PYTHONPATH:

    ESTIMATOR_KIT_EASYREC=EasyRec python -m pytest -m nightly tests/integration/test_easyrec.py
"""

from __future__ import annotations

import csv
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from estimator_kit.compat import versions
from tests.conftest import ROOT
from tests.integration import guides

CHECKOUT = os.environ.get("ESTIMATOR_KIT_EASYREC")

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not CHECKOUT, reason="ESTIMATOR_KIT_EASYREC is not set"),
]

CONFIG = """
train_input_path: "train.csv"
eval_input_path: "eval.csv"
model_dir: "model"
train_config {
  optimizer_config {
    adam_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.01 } } }
  }
  num_steps: 20
  save_checkpoints_steps: 10
  sync_replicas: false
}
eval_config { metrics_set { auc {} } }
data_config {
  input_type: CSVInput
  separator: ","
  batch_size: 100
  input_fields { input_name: "clicked" input_type: INT32 }
  input_fields { input_name: "user" input_type: STRING }
  input_fields { input_name: "category" input_type: STRING }
  input_fields { input_name: "price" input_type: FLOAT }
  input_fields { input_name: "tags" input_type: STRING }
  label_fields: "clicked"
}
feature_config {
  features {
    input_names: "user" feature_type: IdFeature embedding_dim: 4 hash_bucket_size: 100
  }
  features {
    input_names: "category" feature_type: IdFeature embedding_dim: 4
    vocab_list: ["a", "b", "c", "d"]
  }
  features {
    input_names: "price" feature_type: RawFeature embedding_dim: 4 boundaries: [2, 4, 6, 8]
  }
  features {
    input_names: "tags" feature_type: TagFeature embedding_dim: 4 hash_bucket_size: 20
    separator: "|"
  }
}
model_config {
  model_class: "DeepFM"
  feature_groups {
    group_name: "deep" feature_names: ["user", "category", "price", "tags"] wide_deep: DEEP
  }
  feature_groups {
    group_name: "wide" feature_names: ["user", "category", "price", "tags"] wide_deep: WIDE
  }
  deepfm { dnn { hidden_units: [16, 8] } final_dnn { hidden_units: [8] } wide_output_dim: 4 }
}
"""

# Runs without the kit: arguments are the export and the output.
ANSWERS = """
import csv, json, sys
import tensorflow as tf
rows = list(csv.reader(open("eval.csv")))
columns = dict(zip(("user", "category", "price", "tags"), list(zip(*rows))[1:]))
columns["price"] = [float(price) for price in columns["price"]]
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
probs = serve(**{name: tf.constant(column) for name, column in columns.items()})["probs"]
assert "estimator_kit" not in sys.modules
json.dump(probs.numpy().tolist(), open(sys.argv[2], "w"))
"""


def changes() -> list[tuple[str, str, str]]:
    """(file, text, new text) of the table in the guide, for this TensorFlow."""
    rows = re.findall(
        r"^\| (2\.15\.1|both) \| (.*) \| `(.*)` \| `(.*)` \|$", guides.text("easyrec"), re.M
    )
    assert {on for on, *_ in rows} == {"2.15.1", "both"}
    return [
        (file, old, new)
        for on, files, old, new in rows
        if on == "both" or versions.read().has_own_estimator
        for file in re.findall("`(.*?)`", files)
    ]


def write_rows(path: pathlib.Path, count: int, seed: int) -> None:
    chosen = random.Random(seed)
    with path.open("w", newline="") as file:
        for _ in range(count):
            category = chosen.choice("abcd")
            tags = "|".join(chosen.sample("uvwxyz", chosen.randint(1, 3)))
            clicked = int(chosen.random() < (0.8 if category in "ab" else 0.2))
            csv.writer(file).writerow(
                [clicked, f"u{chosen.randrange(50)}", category, chosen.randrange(100) / 10, tags]
            )


@pytest.fixture
def python(tmp_path):
    """Runs Python in `tmp_path`, with the changed copy of EasyRec and the kit on its path."""
    easyrec = tmp_path / "easyrec"
    shutil.copytree(f"{CHECKOUT}/easy_rec", easyrec / "easy_rec")
    for name, old, new in changes():
        file = easyrec / "easy_rec" / "python" / name
        code = file.read_text("utf-8")
        assert old in code, f"{file}: expected {old!r}. Has EasyRec changed? See the guide."
        file.write_text(code.replace(old, new), "utf-8")
    paths = [str(easyrec), str(ROOT), os.environ.get("PYTHONPATH", "")]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TF_CPP_MIN_LOG_LEVEL": "3"}
    for name in ("TF_USE_LEGACY_KERAS", "TF_CONFIG"):
        variables.pop(name, None)

    def run(*arguments, folder=tmp_path):
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=folder, env=variables, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, f"{arguments}\n{done.stderr[-4000:]}"

    protos = sorted((easyrec / "easy_rec/python/protos").glob("*.proto"))
    names = [path.relative_to(easyrec) for path in protos]
    run("-m", "grpc_tools.protoc", "-I.", "--python_out=.", *names, folder=easyrec)
    return run


def test_easyrec_trains_evaluates_predicts_and_exports(tmp_path, python):
    write_rows(tmp_path / "train.csv", 2000, seed=1)
    write_rows(tmp_path / "eval.csv", 300, seed=2)
    (tmp_path / "pipeline.config").write_text(CONFIG)

    def easyrec(program, *arguments):
        python("-m", "estimator_kit.compat", "-m", f"easy_rec.python.{program}",
               "--pipeline_config_path=pipeline.config", *arguments)  # fmt: skip

    easyrec("train_eval")
    easyrec("eval")
    metrics = json.loads((tmp_path / "model/eval_result.txt").read_text())
    assert metrics["global_step"] == 20
    assert metrics["auc"] > 0.7  # The best possible is 0.8; random answers give 0.5.

    easyrec("predict", "--input_path=eval.csv", "--output_path=predictions.jsonl")
    lines = (tmp_path / "predictions.jsonl").read_text().splitlines()
    predicted = [json.loads(line)["probs"] for line in lines]

    easyrec("export", "--export_dir=exports")
    (export,) = (tmp_path / "exports").iterdir()
    python("-c", ANSWERS, export, "answers.json")
    answers = np.array(json.loads((tmp_path / "answers.json").read_text()))
    assert answers == pytest.approx(predicted, abs=1e-6)
    with (tmp_path / "eval.csv").open() as file:
        clicked = np.array([int(row[0]) for row in csv.reader(file)])
    loss = -np.log(np.where(clicked == 1, answers, 1 - answers)).mean()
    assert metrics["loss"] == pytest.approx(loss, abs=1e-5)

    python("-m", "estimator_kit.compat", "-m", "easy_rec.python.predict",
           f"--saved_model_dir={export}", "--input_path=eval.csv", "--output_path=table",
           "--output_cols=probs", "--reserved_cols=user", "--output_sep=,")  # fmt: skip
    with (tmp_path / "table/part-0.csv").open() as file:
        table = [float(row["probs"]) for row in csv.DictReader(file)]
    assert table == pytest.approx(predicted, abs=1e-6)
