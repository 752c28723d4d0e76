"""Where a restart goes on: the same files are the same input, however their paths are spelled."""

from __future__ import annotations

import json
import logging
import os

import pytest

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError
from estimator_kit.training.position import BY_NAME, find_position
from feature_specs.sections.records import Filter

NEGATIVES = {"keep_negatives": ["click", 0.1, BY_NAME]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("here", "cwd/a"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.tfrecord").write_bytes(b"1234")
    (tmp_path / "link").symlink_to(tmp_path / "cwd")
    monkeypatch.chdir(tmp_path / "cwd")
    return tmp_path


def position(folder, paths, *, step, **selection):
    config = ExperimentConfig(mode="train", model_dir=str(folder / "model"), train_files=("x",),
                         spec="s.yaml", batch_size=10, epochs=1)  # fmt: skip
    return find_position(config, config, config, paths, step, selection=selection)


SPELLINGS = [
    ["a/x.tfrecord", "../here/x.tfrecord"],
    ["./a//x.tfrecord", "a/../../here/x.tfrecord"],
    ["{0}/cwd/a/x.tfrecord", "{0}/here/x.tfrecord"],
    ["{0}/link/a/x.tfrecord", "../here/x.tfrecord"],
]


@pytest.mark.parametrize("first", SPELLINGS)
def test_a_restart_goes_on_with_another_spelling_of_the_same_files(folder, first, caplog):
    begun = position(folder, [path.format(folder) for path in first], step=0, **NEGATIVES)
    begun.write(str(folder / "model"), None)
    for spelling in SPELLINGS:
        paths = [path.format(folder) for path in spelling]
        assert position(folder, paths, step=7, **NEGATIVES).steps_read == 7
    assert not caplog.records


def test_equal_paths_in_another_folder_are_other_files(folder, monkeypatch, caplog):
    position(folder, ["a/x.tfrecord"], step=0).write(str(folder / "model"), None)
    (folder / "other" / "a").mkdir(parents=True)
    (folder / "other" / "a" / "x.tfrecord").write_bytes(b"1234")
    monkeypatch.chdir(folder / "other")
    with caplog.at_level(logging.WARNING):
        assert position(folder, ["a/x.tfrecord"], step=7).steps_read == 0
    assert (
        f"the input changed since step 7 (files: 1 added: {folder}/other/a/x.tfrecord; 1 removed: "
        f"{folder}/cwd/a/x.tfrecord), so counting its rows and epochs starts again at 0"
    ) in caplog.text


def write_of_earlier_version(folder, paths, **selection):
    """`input.json` as versions wrote it that stored paths as the user spelled them."""
    document = {
        "batch_size": 10, "seed": 1, "shuffle": True, "files": dict.fromkeys(paths, 4),
        "left_out": {}, **selection, "first_step": 0, "whole": [0, 0], "epochs": None,
    }  # fmt: skip
    os.makedirs(folder / "model", exist_ok=True)
    (folder / "model" / "input.json").write_text(json.dumps(document))


def test_a_training_of_an_earlier_version_goes_on(folder, caplog):
    write_of_earlier_version(folder, ["../here/x.tfrecord"])
    assert position(folder, [f"{folder}/here/x.tfrecord"], step=7).steps_read == 7
    write_of_earlier_version(folder, ["a/x.tfrecord"], mix=[[["a/x.tfrecord"], 1]])
    new = [([f"{folder}/cwd/a/x.tfrecord"], 1)]
    assert position(folder, ["a/x.tfrecord"], step=7, mix=new).steps_read == 7
    assert not caplog.records


def test_the_order_of_words_of_a_filter_is_no_other_input(folder, caplog):
    write_of_earlier_version(
        folder, ["a/x.tfrecord"], filter=[{"feature": "city", "in": ["rome", "bern", "rome"]}]
    )
    for words, steps in ((["bern", "rome"], 7), (["bern", "rome", "oslo"], 0)):
        now = [Filter.model_validate({"feature": "city", "in": words})]
        assert position(folder, ["a/x.tfrecord"], step=7, filter=now).steps_read == steps


def test_another_order_of_files_in_an_earlier_version_is_another_input(folder, caplog):
    paths = ["../here/x.tfrecord", "a/x.tfrecord"]  # The order of the paths, not of the files.
    write_of_earlier_version(folder, paths)
    with caplog.at_level(logging.WARNING):
        assert position(folder, paths, step=7).steps_read == 0
    assert "the input changed since step 7 (order of files), so counting" in caplog.text


def test_negatives_that_an_earlier_version_drew_by_paths_are_refused(folder):
    selection = {"keep_negatives": ["click", 0.1]}
    write_of_earlier_version(folder, ["a/x.tfrecord"], **selection)
    with pytest.raises(ConfigError) as error:
        position(folder, ["a/x.tfrecord"], step=7, **NEGATIVES)
    assert str(error.value) == (
        f"--keep_negatives: {folder}/model/input.json is from an earlier version, which drew "
        "negatives by whole paths, got 'a/x.tfrecord'. This version draws by names in the folder "
        "of the files, so it would go on with other rows. Finish this training with the earlier "
        "version, or change --seed: then rows and epochs are counted again from 0."
    )
    # The path was only a name, so both versions draw the same rows.
    os.chdir("a")
    write_of_earlier_version(folder, ["x.tfrecord"], **selection)
    assert position(folder, ["../a/x.tfrecord"], step=7, **NEGATIVES).steps_read == 7
    # Any other change of the input counts again from 0.
    write_of_earlier_version(folder, ["y.tfrecord"], **selection)
    assert position(folder, ["x.tfrecord"], step=7, **NEGATIVES).steps_read == 0


NAMES = [f"{i}.tfrecord" for i in range(5)]


@pytest.fixture
def several(folder):
    """Five files of which each has 100,000 bytes."""
    for i, name in enumerate(NAMES):
        (folder / "cwd" / name).write_bytes(bytes([i]) * 100_000)
    position(folder, NAMES, step=0).write(str(folder / "model"), None)
    return folder


def replace(path, content):
    """Writes a file as a machine does that fetches it again."""
    path.unlink()
    path.write_bytes(content)
    os.utime(path, (0, 0))


def test_a_file_of_the_same_size_and_other_content_is_another_input(several, caplog):
    replace(several / "cwd" / NAMES[1], b"x" * 100_000)
    with caplog.at_level(logging.WARNING):
        assert position(several, NAMES, step=7).steps_read == 0
    (message,) = caplog.messages
    assert message == (
        f"the input changed since step 7 (files: 1 with other content: {several}/cwd/1.tfrecord), "
        "so counting its rows and epochs starts again at 0"
    )


def test_the_same_content_with_other_times_is_the_same_input(several, caplog):
    for i, name in enumerate(NAMES):
        replace(several / "cwd" / name, bytes([i]) * 100_000)
    assert position(several, NAMES, step=7).steps_read == 7
    assert not caplog.records


def test_three_files_of_each_kind_are_named(several, caplog):
    for name in NAMES[:4]:
        replace(several / "cwd" / name, b"of another size")
    with caplog.at_level(logging.WARNING):
        position(several, [*NAMES[:4], "a/x.tfrecord"], step=7, trainers=2)
    here = f"{several}/cwd"
    assert (
        f"(files: 1 added: {here}/a/x.tfrecord; 1 removed: {here}/4.tfrecord; 4 with other "
        f"content: {here}/0.tfrecord, {here}/1.tfrecord, {here}/2.tfrecord and 1 more, trainers)"
    ) in caplog.text


def test_without_stored_samples_sizes_decide(several, caplog):
    path = several / "model" / "input.json"
    kept = json.loads(path.read_text())
    del kept["samples"]
    path.write_text(json.dumps(kept))
    replace(several / "cwd" / NAMES[1], b"x" * 100_000)
    assert position(several, NAMES, step=7).steps_read == 7
    assert not caplog.records
    position(several, NAMES, step=7).write(str(several / "model"), None)
    replace(several / "cwd" / NAMES[1], b"y" * 100_000)
    with caplog.at_level(logging.WARNING):
        assert position(several, NAMES, step=9).steps_read == 0
    assert "1 with other content" in caplog.text
