"""The serving directory has only whole versions at any time, and their numbers only increase."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil

import pytest

from estimator_kit import exit_codes
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError, Locked
from estimator_kit.retraining import stages
from estimator_kit.retraining.promotion import Serving
from feature_specs.files import locks, owners, staged


def fine(path):
    assert os.path.basename(path).startswith(".tmp-version-")


@pytest.fixture
def serving(tmp_path):
    return Serving(str(tmp_path / "serving"), str(tmp_path / "model"))


def export(tmp_path, name):
    folder = tmp_path / f"export-{name}"
    (folder / "variables").mkdir(parents=True)
    for part in ("saved_model.pb", "variables/variables.index", "variables/variables.data"):
        (folder / part).write_text(name)
    return str(folder)


def names(serving):
    """The names in the serving directory, without its lock."""
    return sorted(name for name in os.listdir(serving.folder) if name != ".lock")


def content(version):
    """The content of a version. Fails if it is not whole or mixes two models."""
    parts = ("saved_model.pb", "variables/variables.index", "variables/variables.data")
    texts = set()
    for part in parts:
        with open(os.path.join(version, part), encoding="utf-8") as file:
            texts.add(file.read())
    (text,) = texts
    return text


def test_versions_follow_each_other_and_say_whose_they_are(serving, tmp_path):
    assert serving.live is None and serving.versions() == []
    first = serving.publish(export(tmp_path, "a"), cycle="0001", verify=fine)
    second = serving.publish(export(tmp_path, "b"), cycle="0002", verify=fine)
    assert (first.number, first.cycle, first.parent) == (1, "0001", None)
    assert (second.number, second.cycle, second.parent) == (2, "0002", 1)
    assert serving.live == second and content(second.path) == "b"
    back = serving.publish(
        serving.find(1).path, cycle=first.cycle, verify=fine, rollback_of=first.number
    )
    assert (back.number, back.cycle, back.rollback_of, back.parent) == (3, "0001", 1, 2)
    assert content(back.path) == "a"


def test_a_number_is_never_given_twice_even_when_versions_are_gone(serving, tmp_path):
    one = export(tmp_path, "a")
    for number in (1, 2, 3):
        assert serving.publish(one, cycle=None, verify=fine).number == number
    shutil.rmtree(os.path.join(serving.folder, "3"))
    shutil.rmtree(os.path.join(serving.folder, "2"))
    assert serving.publish(one, cycle=None, verify=fine).number == 4
    assert [entry.version for entry in serving.past()] == [1, 2, 3, 4]


def test_a_version_of_another_program_counts(serving, tmp_path):
    shutil.copytree(export(tmp_path, "a"), os.path.join(serving.folder, "1700000000"))
    assert serving.live.number == 1700000000 and serving.live.cycle is None
    published = serving.publish(export(tmp_path, "b"), cycle="0001", verify=fine)
    assert (published.number, published.parent) == (1700000001, 1700000000)


def test_what_is_no_folder_of_a_plain_number_is_no_version(serving, tmp_path, caplog):
    os.makedirs(os.path.join(serving.folder, "007"))
    os.makedirs(os.path.join(serving.folder, "²"))
    with open(os.path.join(serving.folder, "20260101"), "w"):
        pass
    assert serving.live is None
    with caplog.at_level(logging.WARNING):
        made = serving.publish(export(tmp_path, "a"), cycle=None, verify=fine)
    # A server takes the largest number, so the file would be the newest version.
    assert made.number == 20260102
    assert [version.number for version in serving.versions()] == [20260102]
    assert [message.partition(" is not a version")[0] for message in caplog.messages] == [
        os.path.join(serving.folder, name) for name in ("007", "20260101", "²")
    ]


def test_nothing_goes_live_above_the_largest_number(serving, tmp_path):
    shutil.copytree(export(tmp_path, "a"), os.path.join(serving.folder, str(2**63 - 1)))
    with pytest.raises(ConfigError, match="has 9223372036854775807, the largest number that a ver"):
        serving.publish(export(tmp_path, "b"), cycle="0001", verify=fine)
    assert names(serving) == [str(2**63 - 1)]


def test_a_model_that_does_not_answer_never_goes_live(serving, tmp_path):
    serving.publish(export(tmp_path, "a"), cycle="0001", verify=fine)

    def refuse(path):
        assert content(path) == "b"
        raise ValueError("it does not answer")

    with pytest.raises(ValueError, match="it does not answer"):
        serving.publish(export(tmp_path, "b"), cycle="0002", verify=refuse)
    assert [version.number for version in serving.versions()] == [1]
    assert names(serving) == ["1"]


def test_nothing_goes_live_once_the_lock_is_lost(tmp_path):
    lost = []

    def check():
        assert lost  # The model was verified before.
        raise Locked("another process is at it")

    serving = Serving(str(tmp_path / "serving"), str(tmp_path / "model"), check)
    with pytest.raises(Locked):
        serving.publish(export(tmp_path, "a"), cycle="0001", verify=lost.append)
    assert serving.live is None and serving.past() == []
    with owners.held(str(tmp_path / "model")) as held:
        config = ExperimentConfig(mode="inspect", model_dir=str(tmp_path / "model"))
        os.remove(tmp_path / "model" / "lock.json")
        with pytest.raises(Locked):
            stages.serving_of(config, config, held).publish(str(tmp_path / "export-a"), cycle=None,
                                                   verify=fine)  # fmt: skip


def test_a_full_disk_leaves_the_live_model(serving, tmp_path, monkeypatch):
    serving.publish(export(tmp_path, "a"), cycle="0001", verify=fine)

    copy, target = shutil.copy2, tmp_path / "serving" / ".tmp-version-1"

    def full(source, into):
        copy(source, into)
        raise OSError(errno.ENOSPC, "No space left on device", into)

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copy2", full)
        with pytest.raises(OSError, match="No space left") as error:
            serving.publish(export(tmp_path, "b"), cycle="0002", verify=fine)
    assert error.value.errno == errno.ENOSPC
    assert exit_codes.exit_code(error.value) == exit_codes.TEMPORARY
    assert not target.exists()  # It would keep the disk full.
    assert content(serving.live.path) == "a"
    again = serving.publish(str(tmp_path / "export-b"), cycle="0002", verify=fine)
    assert again.number == 2 and names(serving) == ["1", "2"]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
@pytest.mark.parametrize("step", ["makedirs", "publish"])
def test_a_folder_that_may_not_be_written_to_is_a_sentence(
    serving, tmp_path, monkeypatch, step, number
):
    model = export(tmp_path, "a")

    def refuse(path, *arguments, **named):
        raise OSError(number, "Not allowed", path)

    monkeypatch.setattr(os if step == "makedirs" else staged, step, refuse)
    with pytest.raises(ConfigError) as error:
        serving.publish(model, cycle="0001", verify=fine)
    where = serving.folder if step == "makedirs" else os.path.join(serving.folder, ".tmp-version-1")
    assert str(error.value) == (
        f"the serving directory {serving.folder} is not writable: {where}: Not allowed. Give the "
        "user of this program the right to write there, or choose another --serving_dir."
    )
    assert step == "makedirs" or names(serving) == []


def test_a_folder_is_checked_before_there_is_a_model(serving, monkeypatch):
    serving.check_writable()
    assert os.listdir(serving.folder) == []

    def refuse(path, *arguments, **named):
        raise OSError(errno.EROFS, "Read-only file system", path)

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(ConfigError, match=r"not writable: .*: Read-only file system\. Give the"):
        serving.check_writable()


def test_links_and_folders_are_copied_whole(serving, tmp_path):
    model = export(tmp_path, "a")
    os.makedirs(os.path.join(model, "empty"))
    os.rename(os.path.join(model, "saved_model.pb"), tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", os.path.join(model, "saved_model.pb"))
    version = serving.publish(model, cycle=None, verify=fine)
    assert content(version.path) == "a"
    assert not os.path.islink(os.path.join(version.path, "saved_model.pb"))
    assert os.path.isdir(os.path.join(version.path, "empty"))


def test_of_a_link_to_a_version_only_the_link_is_removed(serving, tmp_path):
    """Another program may have put links to models into the folder."""
    model = export(tmp_path, "a")
    os.makedirs(serving.folder)
    os.symlink(model, os.path.join(serving.folder, "7"))
    serving.publish(export(tmp_path, "b"), cycle=None, verify=fine)
    serving.remove(serving.find(7))
    assert names(serving) == ["8"] and content(model) == "a"


def test_two_model_directories_do_not_publish_at_once(serving, tmp_path, caplog, monkeypatch):
    other = Serving(serving.folder, str(tmp_path / "other"))
    model, at_once = export(tmp_path, "a"), []

    def publish_too(path):
        for work in (lambda: other.publish(model, cycle=None, verify=fine),
                     lambda: other.remove(other.find(1))):  # fmt: skip
            with pytest.raises(Locked) as error:
                work()
            at_once.append(str(error.value))
        other.clean()  # What another process is writing stays.
        assert os.path.isdir(path)

    serving.publish(model, cycle="0001", verify=fine)
    serving.publish(model, cycle="0002", verify=publish_too)
    assert at_once == [
        "another process is publishing or removing a model in the serving directory "
        f"{serving.folder}. Try again when it has ended."
    ] * 2  # fmt: skip
    assert names(serving) == ["1", "2"]
    assert other.publish(model, cycle=None, verify=fine).number == 3

    def no_locks(*arguments):
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(locks.fcntl, "flock", no_locks)
    with caplog.at_level(logging.WARNING):
        assert serving.publish(model, cycle=None, verify=fine).number == 4
        serving.remove(serving.find(1))
    assert caplog.messages == [
        f"the file system of {serving.folder} has no locks. Publish there with one --model_dir "
        "only."
    ]


def test_the_lock_of_another_user_is_only_read(serving, tmp_path, monkeypatch):
    model, flags = export(tmp_path, "a"), []
    serving.publish(model, cycle=None, verify=fine)

    def forbidden(path, flag, *mode, **place):
        if os.path.basename(path) == ".lock":
            flags.append(flag & os.O_ACCMODE)
            if flags[-1] != os.O_RDONLY:
                raise PermissionError(errno.EACCES, "Not allowed", path)
        return opened(path, flag, *mode, **place)

    opened = os.open
    monkeypatch.setattr(os, "open", forbidden)
    assert serving.publish(model, cycle=None, verify=fine).number == 2
    assert flags == [os.O_RDWR, os.O_RDONLY]
    os.remove(os.path.join(serving.folder, ".lock"))
    with pytest.raises(ConfigError, match=r"\.lock: Not allowed\. Give the user"):
        serving.publish(model, cycle=None, verify=fine)


def test_a_version_that_another_process_has_removed_is_gone(serving, tmp_path):
    for name in ("a", "b"):
        serving.publish(export(tmp_path, name), cycle=None, verify=fine)
    first = serving.find(1)
    shutil.rmtree(first.path)
    serving.remove(first)
    assert names(serving) == ["2"]


def test_what_is_live_is_not_removed(serving, tmp_path):
    for name in ("a", "b"):
        serving.publish(export(tmp_path, name), cycle=None, verify=fine)
    with pytest.raises(ValueError, match="version 2 is live"):
        serving.remove(serving.find(2))
    serving.remove(serving.find(1))
    assert names(serving) == ["2"]
    with pytest.raises(ConfigError) as error:
        serving.find(1)
    assert str(error.value) == f"--to=1: {serving.folder} has no version 1. Use one of: 2."


def test_a_damaged_past_is_named(serving, tmp_path):
    os.makedirs(tmp_path / "model")
    (tmp_path / "model" / "versions.json").write_text(json.dumps({}))
    message = r"versions\.json: the top level: got \{\}, expected a valid "
    with pytest.raises(ConfigError, match=message):
        serving.publish(export(tmp_path, "a"), cycle=None, verify=fine)


def test_a_past_has_times_that_exist(serving, tmp_path):
    """The history page shows them as days."""
    os.makedirs(tmp_path / "model")
    (tmp_path / "model" / "versions.json").write_text(json.dumps([{"version": 1, "at": 1e300}]))
    with pytest.raises(
        ConfigError, match=r"versions\.json: \[0\]\.at: got 1e\+300, expected less "
    ):
        serving.past()


@pytest.mark.parametrize("given", ["live/ads", None])
def test_the_serving_dir_of_the_last_promotion_is_remembered(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)

    def serving(folder):
        return stages.serving_of(
            *[ExperimentConfig(mode="inspect", model_dir="model", serving_dir=folder)] * 2
        )

    assert serving(None).folder == "model/serving"
    first = serving(given)
    assert not (tmp_path / "model").exists()  # Only a promotion is remembered.
    first.publish(export(tmp_path, "a"), cycle="0001", verify=fine)
    found = serving(None)
    assert found.folder == (str(tmp_path / given) if given else "model/serving")
    assert found.live is not None and found.live.number == 1
    assert serving("elsewhere").folder == "elsewhere"


def test_a_candidate_that_fails_its_check_does_not_change_the_serving_dir(tmp_path):
    def refuse(path):
        raise ConfigError("other answers")

    with pytest.raises(ConfigError, match="other answers"):
        Serving(str(tmp_path / "live"), str(tmp_path / "model")).publish(
            export(tmp_path, "a"), cycle="0001", verify=refuse
        )
    assert not (tmp_path / "model" / "serving.json").exists()
