"""Vocabularies that were changed after the training are an error, wherever they are read."""

from __future__ import annotations

import hashlib
import json
import logging
import os

import pytest

from estimator_kit.checkpoints import kept_files, run_record
from estimator_kit.config.areas.serving import ServedModel
from estimator_kit.errors import CheckpointError, ExportError
from estimator_kit.exporters.saved_model_graph import read_saved_model
from estimator_kit.serving.live_versions import Versions
from estimator_kit.serving.loaded_model import LoadedModel
from tests.estimator_kit.serving.small_models import write_version

WORDS, CHANGED = "rome\noslo\n", "oslo\nrome\n"
SPEC = {
    "features": {"city": {"dtype": "string"}},
    "columns": {"city": {"vocabulary": "city", "file": "words.txt"}},
    "groups": {"wide": ["city"]},
    "labels": {"click": {"dtype": "int64"}},
    "objectives": {"click": {"head": "binary"}},
}


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def spec_folder(folder, words=None):
    """A folder `feature_spec` with these files, which hold WORDS, and their digests."""
    words = words or {"words.txt": WORDS}
    for name, text in words.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    digests = {name: digest(text) for name, text in words.items()}
    (folder / "digests.json").write_text(json.dumps(digests))
    (folder / "spec.json").write_text(json.dumps(SPEC))


@pytest.fixture
def export(tmp_path):
    """An export whose graph has a vocabulary."""
    path = write_version(tmp_path, 1)
    spec_folder(path / "assets.extra" / "feature_spec")
    (path / "assets").mkdir()
    (path / "assets" / "words.txt").write_text(WORDS)
    return path


def sentence(path):
    return (
        f"{path} was changed after the training: expected the SHA-256 {digest(WORDS)[:12]}..., "
        f"got {digest(CHANGED)[:12]}... Restore the file, or export the model again."
    )


@pytest.mark.parametrize("file", ["assets/words.txt", "assets.extra/feature_spec/words.txt"])
def test_a_changed_vocabulary_of_an_export(export, file):
    load = LoadedModel(str(export), 1)
    load.close()
    (export / file).write_text(CHANGED)
    kept = os.path.join(export, "assets.extra", "feature_spec")
    for read in (
        lambda: LoadedModel(str(export), 1),
        lambda: read_saved_model(str(export)),
        lambda: run_record.kept_spec(kept),
    ):
        with pytest.raises(ExportError) as error:
            read()
        assert str(error.value) == sentence(export / file)
    (export / file).write_text(WORDS)
    kept_files.check_export(str(export))


def test_a_missing_vocabulary_of_an_export(export):
    path = export / "assets.extra" / "feature_spec" / "words.txt"
    path.unlink()
    with pytest.raises(ExportError, match=rf"\A{path} is missing\. Restore the file, or export"):
        kept_files.check_export(str(export))


def test_a_changed_version_does_not_become_live(tmp_path, export, caplog):
    versions = Versions(ServedModel("ads", str(tmp_path)))
    versions.poll()
    versions.poll()
    assert versions.live == [1]
    export.rename(tmp_path / "moved")
    (tmp_path / "moved" / "assets" / "words.txt").write_text(CHANGED)
    write_version(tmp_path, 1)
    (tmp_path / "moved").rename(tmp_path / "2")
    with caplog.at_level(logging.WARNING):
        versions.poll()
        versions.poll()
    assert versions.live == [1]
    assert versions.states()[2].name == "END"
    assert sentence(tmp_path / "2" / "assets" / "words.txt") in versions.states()[2].error
    assert "Version 1 stays live." in caplog.text
    versions.close()


def test_files_of_one_name_in_two_folders(tmp_path):
    """TensorFlow numbers the second one."""
    path = write_version(tmp_path, 1)
    spec_folder(path / "assets.extra" / "feature_spec", {"a/w.txt": "x\n", "b/w.txt": "y\n"})
    (path / "assets").mkdir()
    (path / "assets" / "w.txt").write_text("x\n")
    (path / "assets" / "w.txt_1").write_text("y\n")
    (path / "assets" / "other.txt").write_text("of another program\n")
    kept_files.check_export(str(path))
    (path / "assets" / "w.txt_1").write_text("z\n")
    with pytest.raises(ExportError, match=r"assets/w\.txt_1 was changed .* \w{12}\.\.\. or \w{12}"):
        kept_files.check_export(str(path))


def test_a_changed_vocabulary_of_a_model_directory(tmp_path):
    folder = tmp_path / "feature_spec"
    spec_folder(folder)
    assert run_record.kept_spec(str(folder)) is not None
    (folder / "words.txt").write_text(CHANGED)
    with pytest.raises(CheckpointError) as error:
        run_record.kept_spec(str(folder))
    assert str(error.value) == (
        f"{folder}/words.txt was changed after the training: expected the SHA-256 "
        f"{digest(WORDS)[:12]}..., got {digest(CHANGED)[:12]}... Restore the file that the model "
        "was trained with."
    )


def test_line_breaks_of_windows_as_an_older_kit_stored_them(tmp_path):
    folder = tmp_path / "feature_spec"
    spec_folder(folder, {"words.txt": WORDS.replace("\n", "\r\n")})
    kept_files.check_folder(str(folder))
    (folder / "words.txt").write_text(WORDS)
    kept_files.check_folder(str(folder))


def test_exports_without_digests_are_not_checked(tmp_path):
    path = write_version(tmp_path, 1)
    (path / "assets").mkdir()
    (path / "assets" / "words.txt").write_text(WORDS)
    kept_files.check_export(str(path))


def test_a_file_is_read_again_only_if_it_has_changed(export, monkeypatch):
    kept_files.check_export(str(export))
    read = []
    real = hashlib.sha256
    monkeypatch.setattr(kept_files.hashlib, "sha256", lambda data: (read.append(1), real(data))[1])
    kept_files.check_export(str(export))
    assert not read
    os.utime(export / "assets" / "words.txt", ns=(1, 1))
    kept_files.check_export(str(export))
    assert len(read) == 2
