"""The versions that each exporter writes and keeps, over several starts and with pins."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import types

import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.config.areas.exports import EXPORTERS
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import command_of
from estimator_kit.errors import ConfigError
from estimator_kit.exporters import extra_files, kinds
from estimator_kit.exporters.best import Entry
from estimator_kit.exporters.extra_files import Origin
from estimator_kit.exporters.kinds import Evaluated
from estimator_kit.exporters.saved_model import RunExports, export_folder
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
    assert [os.path.basename(path) for path in kinds.delete_old(folder, 1)] == ["11"]
    assert names(folder) == ["9", "10", "12"]
    assert not kinds.delete(folder, "9") and not kinds.delete(folder, "10")
    keep(folder, {"live": []})
    assert kinds.delete(folder, "9")
    kinds.delete_old(folder, 1)
    assert names(folder) == ["12"]
    assert kinds.delete_old(folder, 2) == [] and names(folder) == ["12"]
    assert kinds.delete_old(folder, 0) == [f"{folder}/12"] and names(folder) == []


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
    assert kinds.delete_old(store, 1) == [f"{store}/{number}" for number in (9, 10, 11)]
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
        kinds.delete_old(folder, 1)
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
    assert kinds.kept(folder) == {"1767225600", "1767312000"} == {
        *example["pinned"], *example["live"],
    }  # fmt: skip
    sources = (ROOT / "estimator_kit").rglob("*.py")
    named = [p.name for p in sources if '"keep.json"' in p.read_text(encoding="utf-8")]
    assert named == ["kinds.py"]
    text = (ROOT / "estimator_kit/exporters/kinds.py").read_text(encoding="utf-8")
    assert text.replace("_LastStep(last=now.step).save(", "").count(".save(") == 0


def exporter(name, model_dir, meaning=MEANING, *, metric="auc/y", count=2, every=10):
    """An exporter as a start makes it."""
    number = {"best_k": f":{count}", "step": f":{every}"}.get(name, "")
    config = ExperimentConfig(
        spec="s.yaml", train_files=("a",), eval_files=("b",), model_dir=str(model_dir), max_steps=9,
        exporters=(name + number,), best_metric=metric,
    )  # fmt: skip
    return kinds.exporters_of(config, config, meaning)[0]


def add(exporter, value, step, version):
    """Exports a model as version `version` of the exporter's folder."""
    now = Evaluated(step, {"auc/y": value})
    exporter.begin(now)
    os.makedirs(f"{exporter.folder}/{version}", exist_ok=True)
    exporter.done(now, f"{exporter.folder}/{version}")


def is_due(exporter, value, step=99):
    return exporter.due(Evaluated(step, {"auc/y": value}))


def versions_of(exporter):
    return [entry.version for entry in exporter.models]


def test_every_exporter_has_a_class():
    for name in EXPORTERS:
        assert issubclass(kinds.class_of(name), kinds.Exporter)


@pytest.mark.parametrize("name", ["best", "best_k"])
def test_the_best_over_starts(tmp_path, name):
    """A process dies after it has exported a version, and before it records that."""
    best = exporter(name, tmp_path)
    assert best.models == [] and best.newest is None
    assert is_due(best, 0.5) and not is_due(best, math.nan)
    add(best, 0.5, 10, 1)
    again = exporter(name, tmp_path)
    assert again.models == [Entry(value=0.5, global_step=10, version="1", scores="a")]
    assert again.newest == f"{again.folder}/1" and is_due(again, 0.6)
    again.begin(Evaluated(20, {"auc/y": 0.6}))
    assert exporter(name, tmp_path).models[0].value == 0.5
    os.mkdir(f"{again.folder}/2")
    third = exporter(name, tmp_path)
    assert third.models[0] == Entry(value=0.6, global_step=20, version="2", scores="a")
    assert exporter(name, tmp_path)._stored == third._stored
    third.begin(Evaluated(30, {"auc/y": 0.7}))  # The export fails.
    assert exporter(name, tmp_path).models == third.models
    with pytest.raises(ConfigError) as error:
        exporter(name, tmp_path, metric="loss")
    assert str(error.value) == (
        f"{best.folder}/{name}.json: expected the metric loss (min), got auc/y (max). Use the "
        "metric of the earlier runs, or move the folder away."
    )


def test_the_best_of_scores_that_mean_something_else(tmp_path):
    best = exporter("best", tmp_path)
    add(best, 0.5, 10, 1)
    assert not is_due(best, 0.5)
    other = exporter("best", tmp_path, OTHER)
    assert other.models == [] and is_due(other, 0.1)
    add(other, 0.1, 20, 2)
    assert versions_of(other) == ["2"] and not is_due(other, 0.05)
    # Back again: the newest version, which servers take, has no value to compare with.
    assert exporter("best", tmp_path).models == []


@pytest.mark.parametrize(
    ("name", "fields"), [("best", ["history"]), ("best_k", ["best", "dropped"])]
)
def test_the_best_of_an_earlier_version_of_the_kit(tmp_path, name, fields):
    entries = [{"value": 0.9, "global_step": 10, "version": "1"}]
    folder = tmp_path / "export" / name
    folder.mkdir(parents=True)
    document = {"metric": "auc/y", "direction": "max", **dict.fromkeys(fields, entries)}
    (folder / f"{name}.json").write_text(json.dumps(document))
    assert exporter(name, tmp_path).models[0].value == 0.9


def test_an_export_that_was_not_recorded_keeps_the_meaning_of_its_value(tmp_path):
    best = exporter("best", tmp_path)
    best.begin(Evaluated(10, {"auc/y": 0.9}))
    os.makedirs(f"{best.folder}/2")
    assert exporter("best", tmp_path, OTHER).models == []
    assert exporter("best", tmp_path).models[0].value == 0.9


def test_the_best_k_over_starts(tmp_path):
    best = exporter("best_k", tmp_path)
    add(best, 0.5, 1, 1)
    # A start that repeats what followed step 1 finds it recorded.
    assert not is_due(best, 0.5, 1) and is_due(best, 0.5, 2) and is_due(best, 0.6, 1)
    add(best, 0.7, 2, 2)
    again = exporter("best_k", tmp_path)
    assert not is_due(again, 0.5)  # A tie keeps the older one.
    assert is_due(again, 0.6)
    add(again, 0.7, 3, 3)
    assert versions_of(again) == ["2", "3"] == names(again.folder)
    assert is_due(exporter("best_k", tmp_path, count=3), 0.1)
    add(exporter("best_k", tmp_path, count=1), 0.9, 4, 4)
    assert names(again.folder) == ["4"]


def test_the_best_k_of_scores_that_mean_something_else(tmp_path):
    best = exporter("best_k", tmp_path)
    add(best, 0.9, 1, 9)
    add(best, 0.8, 2, 10)
    other = exporter("best_k", tmp_path, OTHER)
    assert other.models == [] and is_due(other, 0.1)
    # The worse one of the earlier models makes room for the first one, and the other for the next.
    add(other, 0.1, 3, 11)
    assert names(other.folder) == ["9", "11"] and is_due(other, 0.05)
    add(other, 0.2, 4, 12)
    assert versions_of(other) == ["12", "11"] and not is_due(other, 0.05)


def test_the_best_k_after_a_process_died(tmp_path):
    best = exporter("best_k", tmp_path, count=1)
    add(best, 0.5, 1, 12)
    best.begin(Evaluated(2, {"auc/y": 0.7}))
    os.mkdir(f"{best.folder}/13")  # It died before it recorded this export, and deleted version 12.
    again = exporter("best_k", tmp_path, count=1)
    assert again.models == [Entry(value=0.7, global_step=2, version="13", scores="a")]
    assert names(best.folder) == ["13"]
    os.mkdir(f"{best.folder}/12")  # It died after it recorded it, and before it deleted version 12.
    assert exporter("best_k", tmp_path, count=1).models == again.models
    assert names(best.folder) == ["13"]


def test_the_step_exporter_is_due_once_for_each_multiple(tmp_path):
    step = exporter("step", tmp_path)
    assert [is_due(step, 0, at) for at in (9, 10, 25)] == [False, True, True]
    add(step, 0, 25, 1)
    again = exporter("step", tmp_path)
    assert not is_due(again, 0, 29) and is_due(again, 0, 30)


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


REPEATED = ("latest", "best", "best_k", "step")


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
        after = after_evaluation.AfterEvaluation(
            command_of(config), None, StopRequest(), meaning=MEANING
        )
        for step, loss in losses:
            after.export(None, "", f"ckpt-{step}", {"loss": loss, "global_step": step}, False)
        return after

    return run, written


def all_names(folder):
    return {name: names(export_folder(str(folder), name)) for name in REPEATED}


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
        "latest": ["9"], "best": ["10"], "best_k": ["3", "11"], "step": ["12"],
    }  # fmt: skip
    assert versions_of(after.exporters[2]) == ["11", "3"]
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
    assert written[12:] == [("latest", last, 0.4), ("best", last, 0.4), ("best_k", last, 0.4)]
    expected = {"latest": ["13"], "best": ["14"], "best_k": ["3", "15"], "step": ["12"]}
    assert all_names(tmp_path) == expected
    assert caplog.messages == [
        "these exports keep their earlier outputs, because their checkpoints were deleted: "
        "best_k/3 (step 10)"
    ]
    later = run()
    _, best, best_k, _ = later.exporters
    assert (best.models[0].version, best.models[0].value) == ("14", 0.4)
    assert versions_of(best_k) == ["15", "3"]
