"""A training that is killed at any write ends as an undisturbed one.

Between two writes, the disk does not change. So one training is run to its end, and its model
directory is copied before each write: the copy is what a kill at this moment leaves. A start on
each copy must then end with the same files.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit import storage
from estimator_kit.exporters.run_exports import RunExports
from estimator_kit.exporters.versions import versions
from estimator_kit.observing.page import page
from estimator_kit.result_file import read_result
from estimator_kit.training import unfinished
from tests.conftest import small_run, variables

# Stops at step 6, because a loss that falls is never better. TensorFlow keeps all checkpoints.
RUN = {
    "model": "linear",
    "max_steps": 20,
    "save_checkpoints_steps": 2,
    "early_stopping_metric": "loss",
    "early_stopping_direction": "max",
    "early_stopping_patience": 2,
    "exporters": ("latest", "best", "best_k", "step", "final"),
    "best_k": 2,
    "export_every_steps": 4,
    "exports_to_keep": 1,
    "deterministic": True,
}


def text_of(path):
    return pathlib.Path(path).read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def small_exports_and_page(monkeypatch):
    """Exports that no other process checks, and a page that shows only the history."""
    monkeypatch.setattr(RunExports, "_sample", lambda exports: None)

    def write(model_dir):
        history = text_of(f"{model_dir}/eval_history.jsonl")
        storage.write_text(f"{model_dir}/{page.FILE}", history)
        return "report"

    monkeypatch.setattr(page, "write", write)
    monkeypatch.setattr(page, "attempt", lambda write: write())


@pytest.fixture
def watched(monkeypatch):
    """The functions that are called before each write, with the path of the write."""
    calls = []

    def patch(module, name, place):
        original = getattr(module, name)

        def write(*arguments, **named):
            for call in calls:
                call(os.fspath(arguments[place]))
            return original(*arguments, **named)

        monkeypatch.setattr(module, name, write)

    # The last call of every small file, export and deletion of the kit, and of a checkpoint.
    patch(tf.io.gfile, "rename", 1)
    patch(tf.io.gfile, "remove", 0)
    patch(tf.io.gfile, "rmtree", 0)
    patch(tf.compat.v1.train.Saver, "save", 2)
    return calls


def outcome(model_dir):
    """Everything that must not depend on kills, without the times in it."""
    root = pathlib.Path(model_dir)
    found = {
        name: text_of(root / name)
        for name in ("eval_history.jsonl", "eval_meaning.json", page.FILE, "input.json")
    }
    found.update({f"curves/{path.name}": text_of(path) for path in root.glob("observed/curves/*")})
    steps = {}
    for exporter in RUN["exporters"]:
        each = []
        for path in versions(str(root / "export" / exporter)):
            lineage = json.loads(text_of(f"{path}/assets.extra/lineage.json"))
            steps[exporter, os.path.basename(path)] = lineage["global_step"]
            for name in ("created", "copy_of", "model_dir"):
                lineage.pop(name, None)
            weights = tf.saved_model.load(path).variables
            weights = {v.name: v.numpy().tobytes() for v in weights}
            each.append((lineage, text_of(f"{path}/assets.extra/metrics.json"), weights))
        found[exporter] = each
    for exporter, name in (("best", "best.json"), ("best_k", "best_k.json")):
        record = json.loads(text_of(root / "export" / exporter / name))
        for entry in [*record.pop("history", ()), *record.get("best", ())]:
            entry["version"] = steps.get((exporter, entry["version"]))
        for entry in record.get("dropped", ()):
            entry.pop("version")
        found[name] = record
    found["step.json"] = text_of(root / "export/step/step.json")
    result = read_result(model_dir)
    found["result"] = {
        **{name: result[name] for name in ("status", "stop_reason", "global_step", "metrics")},
        "exports": sorted(result["exports"]),
    }
    found["unfinished"] = unfinished.step_of(model_dir)
    return found


def check_same(found, expected, when):
    assert found.keys() == expected.keys(), when
    for name, value in expected.items():
        assert found[name] == value, (when, name)


def run(config):
    """One start. A start after the last write has nothing to do."""
    with pytest.MonkeyPatch.context() as patched, tf.Graph().as_default():
        patched.setenv("TF_DETERMINISTIC_OPS", "1")
        try:
            ek.run(config)
        except ek.NothingToDo:
            pass


@pytest.mark.nightly
def test_a_kill_at_any_write_changes_nothing(ads, tmp_path, watched):
    model_dir = str(tmp_path / "model")
    config = small_run(ads, model_dir, **RUN)
    killed = []

    def copy(path):
        if path.startswith(model_dir) and os.path.isdir(model_dir):
            shutil.copytree(model_dir, tmp_path / f"killed-{len(killed)}")
            killed.append((len(killed), os.path.relpath(path, model_dir)))

    watched.append(copy)
    run(config())
    watched.clear()
    expected = outcome(model_dir)
    names = [name for _, name in killed]
    assert names.count("unfinished.json") > 6 and "export/step/step.json" in names
    assert expected["result"]["global_step"] == 6 and expected["unfinished"] is None
    for number, name in killed:
        shutil.rmtree(model_dir)
        shutil.move(tmp_path / f"killed-{number}", model_dir)
        run(config())
        check_same(outcome(model_dir), expected, f"before the write {number} of {name}")
