"""An export that is killed at any point: every version is whole, and the rest is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.checkpoints import run_record
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import command_of
from estimator_kit.models import find_model
from feature_specs.files import versions
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conftest import DOCUMENT, ROOT, make_rows
from tests.integration import killed_export

pytestmark = pytest.mark.ci

NOW = 1_700_000_000
DAY = 24 * 3600


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model directory after one step, and a file with rows."""
    folder = tmp_path_factory.mktemp("killed")
    rows = make_rows(40)
    writing.write_examples(f"{folder}/rows.tfrecord", rows)
    records = [writing.example(row).SerializeToString() for row in rows]
    spec = feature_specs.parse(DOCUMENT)

    def input_fn():
        batch = tf.data.Dataset.from_tensors(records)
        parse = Transform(spec).features_and_labels
        return batch.map(tf.autograph.experimental.do_not_convert(parse))

    model = find_model("wide_deep")(spec, {"hidden_units": [4]})
    config = tf.estimator.RunConfig(f"{folder}/model", save_summary_steps=None)
    tf.estimator.Estimator(model, config=config).train(input_fn, steps=1)
    fields = {"spec": "s", "model_dir": config.model_dir, "train_files": ("t",), "max_steps": 1}
    run_record.write_record(command_of(ExperimentConfig(mode="train", **fields)), spec)
    return config.model_dir, f"{folder}/rows.tfrecord"


def check_whole(path, records):
    """Checks that a version answers, and that it has the extra files of an export."""
    loaded = tf.saved_model.load(path)
    answer = loaded.signatures["predict_examples"](tf.constant(records))
    assert np.isfinite(answer["click/logits"].numpy()).all()
    for name in ("lineage.json", "metrics.json", "tf_serving_warmup_requests", "feature_spec"):
        assert os.path.exists(f"{path}/assets.extra/{name}"), name


@pytest.mark.parametrize(
    "point",
    [
        point if point == "rename"
        else pytest.param(point, marks=pytest.mark.nightly)
        for point in killed_export.POINTS
    ],
)  # fmt: skip
def test_no_broken_version_appears_and_the_next_export_cleans_up(trained, point, tmp_path):
    model_dir, path = trained
    records = [writing.example(row).SerializeToString() for row in make_rows(3)]
    folder = str(tmp_path / "final")
    first = killed_export.export(model_dir, path, folder, NOW - DAY)
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.killed_export", point, model_dir, path, folder,
         str(NOW)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    there = [first, f"{folder}/{NOW}"] if point == "named" else [first]
    assert versions.paths(folder) == there
    for version in there:
        check_whole(version, records)
    left = sorted(set(os.listdir(folder)) - {os.path.basename(name) for name in there})
    assert len(left) == (point != "named")
    assert all(name == ".tmp-version-1" for name in left)

    again = killed_export.export(model_dir, path, folder, NOW + 60)
    check_whole(again, records)
    assert versions.paths(folder) == [*there, again]
    assert sorted(os.listdir(folder)) == [os.path.basename(name) for name in versions.paths(folder)]
