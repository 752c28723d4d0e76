"""Every file of an export that has a digest is compared with it, by everything that reads exports.

The digests are those that are found in the files of a real export.
"""

from __future__ import annotations

import copy
import hashlib
import json
import pathlib
import re
import shutil

import numpy as np
import pytest

import estimator_kit as ek
from estimator_kit.errors import ExportError
from estimator_kit.exporters import saved_model
from estimator_kit.exporters.extra_files import Origin
from estimator_kit.retraining import gate_stage, modes
from estimator_kit.scoring import measured
from estimator_kit.serving import server
from tests.conftest import DOCUMENT
from tests.estimator_kit.serving import small_models

pytestmark = pytest.mark.ci

# Digests of no file: `feature_spec` of lineage.json names the spec (see `test_digests`).
NAMES_NO_FILE = {"feature_spec"}


@pytest.fixture(scope="module")
def made(ads, once):
    """(folder of the data, export): its spec has a vocabulary in a file."""
    folder = once("digests", lambda folder: train(folder, ads))
    (export,) = (folder / "run" / "export" / "final").iterdir()
    return str(ads), str(export)


def train(folder, ads):
    document = copy.deepcopy(DOCUMENT)
    document["columns"]["city"] = {"vocabulary": "city", "file": "words.txt", "oov_buckets": 1}
    (folder / "spec.yaml").write_text(json.dumps(document))
    (folder / "words.txt").write_text("rome\noslo\n")
    ek.run(
        ek.ExperimentConfig(
            mode="train_and_evaluate", spec=f"{folder}/spec.yaml", model_dir=f"{folder}/run",
            train_files=(f"{ads}/train-0.tfrecord",), eval_files=(f"{ads}/eval.tfrecord",),
            batch_size=50, max_steps=2, exporters=("final",),
        )
    )  # fmt: skip


def files_with_digests(export):
    """The files of an export whose SHA-256 is in another one, and the keys of all other digests."""
    files = sorted(path for path in pathlib.Path(export).rglob("*") if path.is_file())
    digests = {hashlib.sha256(path.read_bytes()).hexdigest(): None for path in files}
    found, others = set(), set()
    for path in files:
        if path.suffix != ".json":
            continue
        for key, digest in re.findall(r'"([^"]+)": "([0-9a-f]{64})"', path.read_text()):
            if digest not in digests:
                others.add(key)
            found |= {
                str(each.relative_to(export))
                for each in files
                if hashlib.sha256(each.read_bytes()).hexdigest() == digest
            }
    return sorted(found), others


def run(mode, ads, **settings):
    ek.run(ek.ExperimentConfig(mode=mode, **settings))


def serve(export, ads, tmp_path):
    folder = tmp_path / "versions"
    shutil.copytree(export, folder / "1")
    with server.running(*[small_models.config(folder)] * 2) as (_, models):
        assert models.live() == {"ads": []}
        (state,) = models.states("ads").values()
    assert state.name == "END"
    raise ExportError(state.error)


READERS = {
    "predict": lambda export, ads, to: run(
        "predict", ads, export_dir=export, predict_files=(f"{ads}/eval.tfrecord",),
        predict_output=f"{to}/rows.jsonl",
    ),
    "evaluate": lambda export, ads, to: run(
        "evaluate", ads, export_dir=export, eval_files=(f"{ads}/eval.tfrecord",)
    ),
    "inspect": lambda export, ads, to: run("inspect", ads, export_dir=export),
    "transform": lambda export, ads, to: run(
        "transform", ads, export_dir=export, transform="freeze", transform_dir=f"{to}/frozen",
        predict_files=(f"{ads}/eval.tfrecord",),
    ),
    "warm start": lambda export, ads, to: run(
        "train", ads, spec=f"{ads}/spec.yaml", model_dir=f"{to}/run", max_steps=1, batch_size=50,
        train_files=(f"{ads}/train-0.tfrecord",), warm_start_from=export,
    ),
    "serve": serve,
    "gate of retraining": lambda export, ads, to: gate_stage._answers_of(export, np.array([b""])),
    "rollback": lambda export, ads, to: modes.loads(export),
    "slices": lambda export, ads, to: measured.asker(None, export, [], 1),
    "copy": lambda export, ads, to: saved_model.copy_saved_model(
        export, str(to / "copy"), origin=Origin()
    ),
}  # fmt: skip


def test_the_digests_of_an_export(made):
    found, others = files_with_digests(made[1])
    assert found == ["assets.extra/feature_spec/words.txt", "assets/words.txt"]
    assert others == NAMES_NO_FILE


@pytest.mark.parametrize("reader", READERS)
def test_a_changed_file_is_an_error_wherever_it_is_read(made, tmp_path, reader):
    ads, export = made
    files, _ = files_with_digests(export)
    for number, file in enumerate(files):
        changed = tmp_path / str(number) / "1"
        shutil.copytree(export, changed)
        (changed / file).write_text("oslo\nrome\n")
        to = tmp_path / f"to-{number}"
        to.mkdir()
        with pytest.raises(ExportError) as error:
            READERS[reader](str(changed), ads, to)
        path = str(to / "versions" / "1" / file) if reader == "serve" else str(changed / file)
        assert f"{path} was changed after the training: expected the SHA-256 " in str(error.value)
        assert "Restore the file, or export the model again" in str(error.value)
