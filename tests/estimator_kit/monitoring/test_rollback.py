"""Rollbacks by monitoring: which version goes live again, and what remembers the bad one."""

from __future__ import annotations

import os

import pytest

from estimator_kit.errors import Locked
from estimator_kit.monitoring import rollback
from estimator_kit.retraining import cycle_versions, modes
from estimator_kit.retraining.promotion import Serving


@pytest.fixture
def serving(tmp_path, monkeypatch):
    monkeypatch.setattr(modes, "loads", lambda path: None)
    return Serving(str(tmp_path / "serving"), str(tmp_path / "model"))


def publish(serving, tmp_path, **options):
    folder = tmp_path / "export"
    folder.mkdir(exist_ok=True)
    (folder / "saved_model.pb").write_text("x")
    return serving.publish(
        str(folder), **{"cycle": None, "verify": lambda path: None, **options}
    ).number


def back(serving, bad):
    goal = rollback.target(serving)
    return rollback.roll_back(serving, goal.version, bad=bad, reason="auc").number


def test_the_version_before_goes_live_again_and_the_bad_one_is_remembered(serving, tmp_path):
    for number in (1, 2, 3):
        assert publish(serving, tmp_path) == number
    assert rollback.target(serving).version.number == 2
    assert cycle_versions.rolled_back(serving) == {}
    assert back(serving, bad=3) == 4
    live = serving.live
    assert (live.number, live.rollback_of, live.parent) == (4, 2, 3)
    assert (live.rejected, live.reason) == (3, "auc")
    assert {bad: by.number for bad, by in cycle_versions.rolled_back(serving).items()} == {3: 4}
    # It stays known after its folders are gone.
    publish(serving, tmp_path)
    for number in (2, 3, 4):
        serving.remove(serving.find(number))
    assert [*cycle_versions.rolled_back(serving)] == [3]


def test_a_version_that_is_live_by_a_rollback_is_not_rolled_back(serving, tmp_path):
    for _ in range(3):
        publish(serving, tmp_path)
    back(serving, bad=3)
    goal = rollback.target(serving)
    assert goal.version is None
    assert goal.why_not.startswith("version 4 is live by a rollback itself, so the cause may be in")


def test_a_bad_version_does_not_go_live_again(serving, tmp_path):
    publish(serving, tmp_path)
    publish(serving, tmp_path)
    assert back(serving, bad=2) == 3
    publish(serving, tmp_path)
    assert rollback.target(serving).version.number == 3
    serving.remove(serving.find(3))
    serving.remove(serving.find(1))
    goal = rollback.target(serving)
    assert goal.version is None and goal.why_not == (
        f"{serving.folder} has no earlier version that was not rolled back"
    )


def test_a_person_may_make_a_bad_version_live_again(serving, tmp_path):
    publish(serving, tmp_path)
    publish(serving, tmp_path)
    back(serving, bad=2)
    publish(serving, tmp_path, rollback_of=2)
    assert cycle_versions.rolled_back(serving) == {}
    publish(serving, tmp_path)
    back(serving, bad=5)
    # Version 4 is a copy of version 2.
    assert [*cycle_versions.rolled_back(serving)] == [5]
    assert serving.live.rollback_of == 4


def test_another_version_that_went_live_stays(serving, tmp_path):
    publish(serving, tmp_path)
    publish(serving, tmp_path)
    goal = rollback.target(serving)
    publish(serving, tmp_path)
    with pytest.raises(Locked, match=r"another model went live in .* after version 2 was judged"):
        rollback.roll_back(serving, goal.version, bad=2, reason="auc")
    assert serving.live.number == 3


def test_a_start_that_is_killed_before_the_rename_changes_nothing(serving, tmp_path, monkeypatch):
    publish(serving, tmp_path)
    publish(serving, tmp_path)

    def killed(path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(modes, "loads", killed)
        with pytest.raises(KeyboardInterrupt):
            back(serving, bad=2)
    assert serving.live.number == 2 and cycle_versions.rolled_back(serving) == {}
    assert back(serving, bad=2) == 3
    assert sorted(name for name in os.listdir(serving.folder) if name.isdigit()) == ["1", "2", "3"]


def test_without_an_earlier_version(serving, tmp_path):
    assert rollback.target(serving).why_not == "no version is live"
    publish(serving, tmp_path)
    assert rollback.target(serving).version is None
