"""Which old cycles and versions are removed, and which are always kept."""

from __future__ import annotations

import logging
import os
import pathlib

import pytest

from estimator_kit.retraining import cycle_files, cycle_versions, retention
from estimator_kit.retraining.cycle_files import Done
from estimator_kit.retraining.promotion import Serving
from estimator_kit.retraining.training_stage import Start
from tests.estimator_kit.retraining import reports

TODAY = "2026-01-31"


@pytest.fixture
def model(tmp_path):
    """Eight cycles, one for each day. Odd ones were promoted. Cycle 7 started from cycle 3."""
    serving = Serving(str(tmp_path / "serving"), str(tmp_path))
    for number in range(1, 9):
        folder = cycle_files.new(str(tmp_path))
        folder.save(reports.window(f"2026-01-{20 + number}"))
        folder.save(Start(kind="live", cycle="0003" if number == 7 else None))
        if number < 8:  # Cycle 8 is running.
            folder.save(Done(outcome="promoted" if number % 2 else "refused"))
        for name in ("train", "spec"):
            os.makedirs(folder.at(name))
        if number % 2:
            export = tmp_path / f"export-{number}"
            export.mkdir()
            token = cycle_versions.begin(folder, serving)
            serving.publish(str(export), cycle=folder.name, verify=lambda path: None, token=token)
    return tmp_path, serving


def clean(model, **changes):
    folder, serving = model
    given = {"newest": 2, "versions": 2, **changes}
    return retention.clean(cycle_files.cycles(str(folder)), serving, **given)


def test_the_newest_the_live_one_its_parent_and_those_of_versions_stay(model):
    found = clean(model)
    assert found.kept == ["0003", "0005", "0007", "0008"]
    assert "0001/train" in found.removed and "0001/spec" in found.removed
    assert (model[0] / "cycles/0001/window.json").exists()
    assert found.versions_removed == [1, 2]
    assert [v.number for v in model[1].versions()] == [3, 4]
    assert clean(model).removed == []


def test_abandoned_cycles_are_not_counted_and_go(model):
    for number in (4, 6):
        cycle_files.find(str(model[0]), f"{number}").save(Done(outcome="abandoned"))
    found = clean(model, newest=5)
    assert found.kept == ["0002", "0003", "0005", "0007", "0008"]
    assert "0006/train" in found.removed


def test_what_is_pinned_stays_with_its_version(model):
    (model[0] / "cycles/0001/PINNED").touch()
    found = clean(model)
    assert "0001" in found.kept and found.versions_removed == [2]


def test_what_a_pinned_one_started_from_stays_too(model):
    for number, start in ((2, {"cycle": "0001"}), (4, {"source": str(model[0] / "serving/1")})):
        folder = cycle_files.find(str(model[0]), f"{number}")
        folder.save(Start(kind="live", **start))
        (model[0] / f"cycles/{folder.name}/PINNED").touch()
    found = clean(model)
    assert found.kept == ["0001", "0002", "0003", "0004", "0005", "0007", "0008"]
    assert found.versions_removed == [2]


def test_what_a_pinned_one_started_from_stays_however_its_path_was_written(model, monkeypatch):
    cycle_files.find(str(model[0]), "4").save(Start(kind="live", source="serving/1/"))
    (model[0] / "cycles/0004/PINNED").touch()
    monkeypatch.chdir("/")  # A later cycle may start in another folder.
    assert clean(model).versions_removed == [2]


def test_versions_of_another_model_directory_stay_for_it(model, caplog):
    """Both directories have a cycle 0001. The other one has pinned it; nobody else knows that."""
    folder, serving = model
    other_dir = folder / "other"
    other = Serving(serving.folder, str(other_dir))
    (folder / "export").mkdir()
    for number in range(1, 4):
        cycle = cycle_files.new(str(other_dir))
        cycle.save(reports.window("2026-01-25"))
        cycle.save(Done(outcome="promoted"))
        token = cycle_versions.begin(cycle, other)
        other.publish(
            str(folder / "export"), cycle=cycle.name, verify=lambda path: None, token=token
        )
        assert cycle.name == f"000{number}"
    other.publish(str(folder / "export"), cycle=None, verify=lambda path: None)  # By hand.
    (other_dir / "cycles/0001/PINNED").touch()
    with caplog.at_level(logging.INFO):
        assert clean(model).versions_removed == [1, 2, 3, 4]
    assert caplog.messages == [
        f"{serving.folder}: the old versions 5, 6 stay, because no cycle of this model directory "
        "made them. Remove the folders that nobody needs."
    ]
    assert [v.number for v in serving.versions()] == [5, 6, 7, 8]
    assert clean((other_dir, other), versions=1).versions_removed == [6, 7]
    assert [v.number for v in serving.versions()] == [5, 8]


def test_what_a_keep_file_names_stays(model, caplog):
    serving = model[1]
    keep = pathlib.Path(serving.folder, "keep.json")
    keep.write_text('{"pinned": {"1": "the one of the audit"}, "live": ["2"]}')
    assert clean(model).versions_removed == []
    keep.write_text('{"pined": {}}')
    with caplog.at_level(logging.WARNING):
        assert clean(model).versions_removed == []
    assert caplog.messages[0] == (
        f"old versions stay until the next cycle: {keep}: pined is unknown. Repair it: without it, "
        "versions that are pinned or live could be deleted."
    )
    keep.write_text('{"live": ["2"]}')
    assert clean(model).versions_removed == [1]


def test_a_rolled_back_copy_belongs_to_the_cycle_of_its_model(model):
    folder, serving = model
    (folder / "cycles/0001/PINNED").touch()
    first = serving.find(1)
    for _ in range(3):
        serving.publish(
            first.path, cycle=first.cycle, verify=lambda path: None, rollback_of=first.number
        )
    assert clean(model).versions_removed == [2, 3, 4]  # 1 and 5 are the pinned model.
    (folder / "cycles/0001/PINNED").unlink()
    assert clean(model).versions_removed == [1, 5]


def test_while_another_process_publishes_old_versions_stay(model, caplog):
    """The cycle has been decided, so it ends as it was decided."""
    folder, serving = model
    other = Serving(serving.folder, str(folder / "other"))
    found = []

    def meanwhile(path):
        with caplog.at_level(logging.WARNING):
            found.append(clean(model))

    (folder / "export").mkdir()
    other.publish(str(folder / "export"), cycle=None, verify=meanwhile)
    assert found[0].versions_removed == [] and "0002/train" in found[0].removed
    assert caplog.messages == [
        "old versions stay until the next cycle: another process is publishing or removing a model "
        f"in the serving directory {serving.folder}. Try again when it has ended."
    ]


def test_of_a_training_on_another_disk_only_the_link_is_removed(model):
    training = model[0] / "cycles/0001/train"
    os.rename(training, model[0] / "elsewhere")
    training.symlink_to(model[0] / "elsewhere")
    assert "0001/train" in clean(model).removed
    assert not training.is_symlink() and (model[0] / "elsewhere").is_dir()


def test_what_a_pinned_one_started_from_stays_without_a_version(model):
    assert "0002" not in clean(model, versions=4).kept
    cycle_files.find(str(model[0]), "4").save(Start(kind="live", cycle="0002"))
    (model[0] / "cycles/0004/PINNED").touch()
    assert {"0002", "0004"} <= {*clean(model).kept}
