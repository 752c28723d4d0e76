"""Folders that cannot be written are refused before a run, and a failed write leaves nothing."""

from __future__ import annotations

import errno
import os

import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit import exit_codes
from estimator_kit.errors import ConfigError
from estimator_kit.model.session_errors import explained
from estimator_kit.models import find_model
from estimator_kit.training import model_dir_lock
from feature_specs.files import documents, file_systems, staged
from input_pipelines.errors import DataError
from input_pipelines.record_files import tfrecords, writing
from tests.conftest import DOCUMENT, make_rows


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    staged.check_writable(str(tmp_path), flag="--model_dir")
    staged.check_writable(f"{tmp_path}/a/b", flag="--model_dir")
    staged.check_writable("gs://bucket/run", flag="--model_dir")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as error:
        staged.check_writable(f"{tmp_path}/file/run", flag="--model_dir")
    assert str(error.value) == (
        f"--model_dir={tmp_path}/file/run: {tmp_path}/file is a file, expected a folder. "
        "Choose another path."
    )
    # A superuser, as in many containers, may write anywhere; so the system's answer is made up.
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(tmp_path))
    with pytest.raises(ConfigError) as error:
        staged.check_writable(f"{tmp_path}/a/b", flag="--model_dir")
    assert str(error.value) == (
        f"--model_dir={tmp_path}/a/b: {tmp_path} cannot be written. Give this user the right to "
        "write there, or choose another folder."
    )


def test_a_place_for_a_file_that_cannot_be_written(tmp_path):
    staged.check_writable(f"{tmp_path}/a/b.txt", flag="--schema_file", is_file=True)
    (tmp_path / "file").touch()
    staged.check_writable(f"{tmp_path}/file", flag="--schema_file", is_file=True)
    with pytest.raises(ConfigError) as error:
        staged.check_writable(f"{tmp_path}/file/b.txt", flag="--schema_file", is_file=True)
    assert str(error.value) == (
        f"--schema_file={tmp_path}/file/b.txt: {tmp_path}/file is a file, expected a folder. "
        "Choose another path."
    )


def test_a_folder_in_the_place_of_a_file(tmp_path):
    with pytest.raises(ConfigError) as error:
        staged.check_writable(str(tmp_path), flag="--schema_file", is_file=True)
    assert str(error.value) == (
        f"--schema_file={tmp_path} is a folder, expected a file. Choose another path."
    )


@pytest.mark.parametrize(
    "name", ["x" * 256, "new/" + "x" * 256, "x" * 256 + "/new", "\u00e4" * 128]
)
def test_a_name_that_no_folder_can_have(tmp_path, name):
    staged.check_writable(f"{tmp_path}/new/{'x' * 255}", flag="--graph_dir")
    with pytest.raises(ConfigError) as error:
        staged.check_writable(f"{tmp_path}/{name}", flag="--graph_dir")
    assert str(error.value) == (
        f"--graph_dir={tmp_path}/{name}: {name.strip('new/')[:20]}... has 256 bytes, expected a "
        "name of at most 255. Choose a shorter name."
    )


def test_the_name_of_a_file_leaves_room_for_its_temporary_file(tmp_path):
    longest = f"{tmp_path}/{'x' * 241}"
    staged.check_writable(longest, flag="--schema_file", is_file=True)
    documents.write_text(longest, "text")
    with pytest.raises(ConfigError, match=r"has 242 bytes, expected a name of at most 241\. "):
        staged.check_writable(f"{longest}x", flag="--schema_file", is_file=True)


def test_a_folder_on_an_unknown_file_system():
    with pytest.raises(ek.ConfigError, match=r"^--graph_dir: 'nofs://x': .* no file system"):
        staged.check_writable("nofs://x", flag="--graph_dir")


OUTPUTS = {
    "check_data": ("model_dir", {"train_files": "t.tfrecord"}),
    "convert": ("convert_dir", {"convert_files": "t.csv"}),
    "schema": ("schema_file", {"spec": "s.yaml"}),
    "inspect": ("graph_dir", {"model_dir": "m"}),
    "serve": ("serving_config_dir", {"serving_models": "a=b"}),
    "transform": (
        "transform_dir",
        {"export_dir": "e", "transform": "text", "predict_files": "p.tfrecord"},
    ),
}


@pytest.mark.parametrize("mode", OUTPUTS)
def test_a_mode_checks_where_it_writes_before_it_reads(mode):
    flag, needed = OUTPUTS[mode]
    with pytest.raises(ek.ConfigError, match=f"^--{flag}: 'nofs://x'"):
        ek.run(ek.ExperimentConfig(mode=mode, **needed, **{flag: "nofs://x"}))


@pytest.mark.parametrize("name", ["a\\b", "[ab]"])
def test_a_model_directory_in_which_tensorflow_finds_no_checkpoint(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    for end in ("index", "data-00000-of-00001"):
        (folder / f"model.ckpt-1.{end}").touch()
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"')
    assert tf.train.latest_checkpoint(str(folder)) is None
    with pytest.raises(ConfigError, match="would find no checkpoint in this folder"):
        model_dir_lock.check_folder(str(folder))


def test_a_full_disk_leaves_no_part_of_a_file(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left on device") as error:
        documents.write_text(f"{tmp_path}/flags.txt", "text")
    assert os.listdir(tmp_path) == []
    assert exit_codes.exit_code(error.value) == 75


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    path.write_text("old")

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(file_systems, "open_file", full)
    with pytest.raises(OSError, match="No space left on device"):
        documents.write_text(str(path), "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["state.json"]


def test_a_file_that_is_gone_is_bad_data(tmp_path):
    paths = [f"{tmp_path}/{name}.tfrecord" for name in "ab"]
    for path in paths:
        writing.write_examples(path, make_rows(3))
    spec = feature_specs.parse(DOCUMENT)
    blocks = tfrecords.blocks(paths)
    os.remove(paths[1])
    with pytest.raises(DataError) as error, explained(spec, paths):
        list(blocks)
    assert str(error.value) == (
        f"{paths[1]} existed when the run began, but does not exist anymore. Do not move or "
        "delete files while a run reads them."
    )


@pytest.mark.parametrize("name", [":", ":Tower", "my_models.tower:", ".tower:Tower"])
def test_a_model_without_a_module_or_a_class(name):
    with pytest.raises(ConfigError) as error:
        find_model(name)
    assert str(error.value) == (
        f"model {name!r}: expected package.module:ClassName, as in my_models.tower:Tower"
    )
