"""The versions that each exporter writes and keeps, over several starts and with pins."""

from __future__ import annotations

import dataclasses
import json
import os
import types

import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError
from estimator_kit.exporters import extra_files, versions
from estimator_kit.exporters.best import BestKRecord, Entry
from estimator_kit.exporters.extra_files import Origin
from estimator_kit.exporters.saved_model import RunExports, export_folder
from estimator_kit.exporters.step import StepRecord
from estimator_kit.training import after_evaluation
from estimator_kit.training.hooks.stop import StopRequest
from feature_specs.files import file_systems, staged
from feature_specs.files import versions as folders
from tests.conftest import DOCUMENT, ROOT

MEANING, OTHER = ScoresMeaning("a", "a", {}), ScoresMeaning("b", "a", {})


@pytest.fixture
def folder(tmp_path):
    for number in (9, 10, 11, 12):
        (tmp_path / str(number)).mkdir()
    return str(tmp_path)


def keep(folder, entries):
    """Writes `keep.json` by hand."""
    with open(f"{folder}/keep.json", "w", encoding="utf-8") as file:
        json.dump(entries, file)


def names(folder):
    return [str(number) for number in folders.numbers(folder)]


def test_retention_keeps_the_newest_and_what_is_pinned_or_live(folder):
    keep(folder, {"pinned": {"9": "the one of the audit"}, "live": ["10"]})
    assert [os.path.basename(path) for path in versions.delete_old(folder, 1)] == ["11"]
    assert names(folder) == ["9", "10", "12"]
    assert not versions.delete(folder, "9") and not versions.delete(folder, "10")
    keep(folder, {"live": []})
    assert versions.delete(folder, "9")
    versions.delete_old(folder, 1)
    assert names(folder) == ["12"]


def test_a_store_has_versions_too(monkeypatch):
    """What a killed process has left there is removed after a day."""

    def rename(old, new, overwrite):  # Like a bucket: file by file.
        assert not overwrite
        file_systems.copy_folder(old, new)
        tf.io.gfile.rmtree(old)

    monkeypatch.setattr(tf.io.gfile, "rename", rename)
    store, left = "ram://exporters", "ram://exporters/.tmp-version-0123abcd"
    for path in ("9/saved_model.pb", "10/saved_model.pb", ".tmp-version-0123abcd/half"):
        tf.io.gfile.makedirs(os.path.dirname(f"{store}/{path}"))
        tf.io.gfile.GFile(f"{store}/{path}", "w").write("whole")
    for _ in range(2):
        with folders.unnamed(store) as temporary:
            tf.io.gfile.GFile(f"{temporary}/saved_model.pb", "w").write("new")
            folders.publish(temporary, store)
    with pytest.raises(KeyError), folders.unnamed(store):
        raise KeyError
    assert folders.paths(store) == [f"{store}/{number}" for number in (9, 10, 11, 12)]
    assert tf.io.gfile.listdir(f"{store}/12") == ["saved_model.pb"]
    assert versions.delete_old(store, 1) == [f"{store}/{number}" for number in (9, 10, 11)]
    assert sorted(tf.io.gfile.listdir(store)) == [".tmp-version-0123abcd", "12"]
    monkeypatch.setattr(file_systems, "stamp", lambda path: [5, 10**9])
    for now, there in ((1 + 24 * 3600, 2), (2 + 24 * 3600, 1)):
        staged.remove_left(left, now=now)
        assert len(tf.io.gfile.listdir(store)) == there


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"pinned": []}', "pinned: got [], expected an object"),
        ('{"live": [9.5]}', "live[0].str: got 9.5, expected a valid string"),
        ('{"liv": []}', "liv is unknown"),
    ],
)
def test_a_keep_file_that_cannot_be_read_stops_retention(folder, text, problem):
    with open(f"{folder}/keep.json", "w", encoding="utf-8") as file:
        file.write(text)
    with pytest.raises(ConfigError) as error:
        versions.delete_old(folder, 1)
    assert str(error.value) == (
        f"{folder}/keep.json: {problem}. Repair it: without it, versions that are pinned or live "
        "could be deleted."
    )
    assert names(folder) == ["9", "10", "11", "12"]


def test_the_keep_file_of_the_guide(folder):
    """The guide says that only users write it, so no module may."""
    guide = (ROOT / "docs/guides/exports.md").read_text(encoding="utf-8")
    place = guide.index("`keep.json`")
    example = json.loads(guide[place:].split("```json\n")[1].split("```")[0])
    assert "The kit only reads it" in guide[place : guide.index("```json", place)]
    keep(folder, example)
    assert versions.kept(folder) == {"1767225600", "1767312000"} == {
        *example["pinned"], *example["live"],
    }  # fmt: skip
    sources = (ROOT / "estimator_kit").rglob("*.py")
    named = [p.name for p in sources if '"keep.json"' in p.read_text(encoding="utf-8")]
    assert named == ["versions.py"]
    text = (ROOT / "estimator_kit/exporters/versions.py").read_text(encoding="utf-8")
    assert ".save(" not in text


def test_the_best_k_over_starts(tmp_path):
    folder = str(tmp_path)
    record = BestKRecord(folder, "auc/y", "max", 2, MEANING)
    assert record.best == [] and record.improves(0.5) and not record.improves(float("nan"))
    assert record.add(0.5, 1, "x/1") == []
    # A start that repeats what followed step 1 finds it recorded.
    assert not record.improves(0.5, 1) and record.improves(0.5, 2) and record.improves(0.6, 1)
    assert record.add(0.7, 2, "x/2") == []
    again = BestKRecord(folder, "auc/y", "max", 2, MEANING)
    assert not again.improves(0.5)  # A tie keeps the older one.
    assert again.improves(0.6)
    assert again.add(0.7, 3, "x/3") == ["1"]
    assert [entry.version for entry in again.best] == ["2", "3"]
    wider = BestKRecord(folder, "auc/y", "max", 3, MEANING)
    assert wider.improves(0.1)
    assert BestKRecord(folder, "auc/y", "max", 1, MEANING).add(0.9, 4, "x/4") == ["2", "3"]
    with pytest.raises(ConfigError, match=r"expected the metric loss \(min\), got auc/y \(max\)"):
        BestKRecord(folder, "loss", "min", 2, MEANING)


def test_the_best_k_of_scores_that_mean_something_else(folder):
    kept = [{"value": 0.9, "global_step": 1, "version": "9"},
            {"value": 0.8, "global_step": 2, "version": "10", "scores": "a"}]  # fmt: skip
    document = {"metric": "auc/y", "direction": "max", "best": kept, "dropped": []}
    with open(f"{folder}/best_k.json", "w", encoding="utf-8") as file:
        json.dump(document, file)
    assert [e.version for e in BestKRecord(folder, "auc/y", "max", 2, MEANING).best] == [
        "9", "10",
    ]  # fmt: skip
    record = BestKRecord(folder, "auc/y", "max", 2, OTHER)
    assert record.best == [] and record.improves(0.1)
    # The worse one of the earlier models makes room for the first one, and the other for the next.
    assert record.add(0.1, 3, f"{folder}/11") == ["10"]
    assert record.improves(0.05) and record.add(0.2, 4, f"{folder}/12") == ["9"]
    assert [entry.version for entry in record.best] == ["12", "11"]
    assert not record.improves(0.05)


def test_the_best_k_after_a_process_died(folder):
    record = BestKRecord(folder, "auc/y", "max", 1, MEANING)
    record.begin(0.5, 1)
    record.add(0.5, 1, f"{folder}/12")
    record.begin(0.7, 2)
    os.mkdir(f"{folder}/13")  # It died before it recorded this export, and deleted version 12.
    again = BestKRecord(folder, "auc/y", "max", 1, MEANING)
    assert again.best == [Entry(value=0.7, global_step=2, version="13", scores=MEANING.digest)]
    assert names(folder) == ["9", "10", "11", "13"]
    assert BestKRecord(folder, "auc/y", "max", 1, MEANING).best == again.best


def test_the_step_exporter_is_due_once_for_each_multiple(tmp_path):
    record = StepRecord(str(tmp_path), 10)
    assert not record.is_due(9) and record.is_due(10) and record.is_due(25)
    record.add(25)
    again = StepRecord(str(tmp_path), 10)
    assert not again.is_due(29) and again.is_due(30)


def test_an_export_is_found_by_what_it_was_made_from(tmp_path):
    spec = feature_specs.parse(DOCUMENT)
    origin = Origin("latest", {"loss": 0.5, "auc/y": float("nan")}, flags="--seed=1\n")
    extra = tmp_path / "assets.extra"
    extra.mkdir()
    assert not extra_files.is_of(str(tmp_path), spec, origin, "x/model.ckpt-4")
    lineage = {"checkpoint": "model.ckpt-4", "feature_spec": spec.fingerprint()}
    (extra / "lineage.json").write_text(json.dumps(lineage))
    (extra / "metrics.json").write_text('{"loss": 0.5, "auc/y": null}')
    (extra / "flags.txt").write_text("--seed=1\n")
    assert extra_files.is_of(str(tmp_path), spec, origin, "x/model.ckpt-4")
    assert not extra_files.is_of(str(tmp_path), spec, origin, "x/model.ckpt-5")
    for change in ({"metrics": {"loss": 0.4}}, {"flags": "--seed=2\n"}):
        other = dataclasses.replace(origin, **change)
        assert not extra_files.is_of(str(tmp_path), spec, other, "x/model.ckpt-4")


@pytest.fixture
def evaluate(tmp_path, monkeypatch):
    """A function: evaluates (step, loss) in a new start; and the (exporter, checkpoint, loss)."""
    written = []

    def write(self, trained, exporter, checkpoint=None, metrics=None):
        path = os.path.join(export_folder(str(tmp_path), exporter), str(len(written) + 1))
        os.makedirs(path)
        written.append((exporter, checkpoint, metrics["loss"]))
        return path

    monkeypatch.setattr(RunExports, "write", write)
    config = ExperimentConfig(
        spec="s.yaml", train_files=("a",), eval_files=("b",), model_dir=str(tmp_path), max_steps=9,
        exporters=("latest", "best", "best_k:2", "step:20"),
        exports_to_keep=1,
    )  # fmt: skip

    def run(*losses):
        after = after_evaluation.AfterEvaluation(config, None, StopRequest(), meaning=MEANING)
        for step, loss in losses:
            after.export(None, "", f"ckpt-{step}", {"loss": loss, "global_step": step}, False)
        return after

    return run, written


EXPORTERS = ("latest", "best", "best_k", "step")


def all_names(folder):
    return {name: names(export_folder(str(folder), name)) for name in EXPORTERS}


def test_after_evaluations_each_exporter_has_its_own(tmp_path, evaluate):
    run, written = evaluate
    run((10, 0.5), (20, 0.7))
    after = run((30, 0.6), (40, 0.4))  # As after a restart.
    assert [(name, step[5:]) for name, step, _ in written] == [
        ("latest", "10"), ("best", "10"), ("best_k", "10"),
        ("latest", "20"), ("best_k", "20"), ("step", "20"),
        ("latest", "30"), ("best_k", "30"),
        ("latest", "40"), ("best", "40"), ("best_k", "40"), ("step", "40"),
    ]  # fmt: skip
    assert all_names(tmp_path) == {
        "latest": ["9"],
        "best": ["10"],
        "best_k": ["3", "11"],
        "step": ["12"],
    }
    best = [entry.version for entry in after._best_k.best]
    assert best == ["11", "3"]
    assert {name: os.path.basename(path) for name, path in after.exports.items()} == {
        "latest": "9", "best": "10", "best_k": "11", "step": "12",
    }  # fmt: skip


def test_exports_are_written_again_from_their_checkpoints(tmp_path, evaluate, caplog):
    caplog.set_level("WARNING", logger="estimator_kit")
    run, written = evaluate
    run((10, 0.5), (20, 0.7), (30, 0.6), (40, 0.4))
    again = run()
    again.recall(20)
    assert again.metrics == {"global_step": 20, "loss": 0.7}
    again.recall(40)
    (tmp_path / "model.ckpt-40.index").write_text("")  # Step 10's is deleted.
    again.export_again(types.SimpleNamespace(latest_checkpoint=lambda: "ckpt-40"))
    last = f"{tmp_path}/model.ckpt-40"
    assert written[12:] == [("latest", None, 0.4), ("best", last, 0.4), ("best_k", last, 0.4)]
    expected = {"latest": ["13"], "best": ["14"], "best_k": ["3", "15"], "step": ["12"]}
    assert all_names(tmp_path) == expected
    assert caplog.messages == [
        "these exports keep their earlier outputs, because their checkpoints were deleted: "
        "best_k/3 (step 10)"
    ]
    later = run()
    assert (later._best.best.version, later._best.best.value) == ("14", 0.4)
    assert [entry.version for entry in later._best_k.best] == ["15", "3"]
