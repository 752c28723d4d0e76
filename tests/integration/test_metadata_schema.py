"""--mode=schema in both directions, as a user runs them: files, statuses, errors."""

from __future__ import annotations

import json
import os
import pathlib
import sys

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.main import main
from input_pipelines.record_files import writing
from tests.conftest import DOCUMENT, make_rows


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.yaml").write_text(json.dumps(DOCUMENT))
    return tmp_path


EXPORT = ("run.py", "--mode=schema", "--spec=spec.yaml", "--schema_file=s.pbtxt")
IMPORT = ("run.py", "--mode=schema", "--schema_file=s.pbtxt", "--analysis_dir=first")


def test_there_and_back(folder, capsys):
    assert main(EXPORT) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("s.pbtxt: a Schema of 6 features, from spec.yaml\n")
    assert '  not in the Schema: columns.price: {"numeric": "price", "normalizer": ' in printed
    assert main(EXPORT) == 0  # The same again.
    assert main(IMPORT) == 0
    printed = capsys.readouterr().out
    assert "first/spec.yaml: a first spec of s.pbtxt\n" in printed
    assert "  not in the spec: default_environment TRAINING, SERVING" in printed
    assert main(["run.py", "--mode=validate", "--spec=first/spec.yaml"]) == 0
    # The records of the first spec fit the imported spec.
    writing.write_examples("rows.tfrecord", make_rows(50))
    fits = ["--mode=validate", "--spec=first/spec.yaml", "--validate_rows=50"]
    assert main(["run.py", *fits, "--train_files=rows.tfrecord"]) == 0
    assert "50 records, 50 of them fit the spec" in capsys.readouterr().out


def test_a_schema_in_a_store(folder, capsys):
    place = f"ram://{folder}/s.pbtxt"
    command = ["run.py", "--mode=schema", "--spec=spec.yaml", f"--schema_file={place}"]
    assert main(command) == main(command) == 0
    assert capsys.readouterr().out.startswith(f"{place}: a Schema of 6 features, from spec.yaml\n")
    assert not os.path.exists("ram:")
    with tf.io.gfile.GFile(place) as file:
        text = file.read()
    assert main(EXPORT) == 0
    assert pathlib.Path("s.pbtxt").read_text() == text
    read = ["run.py", "--mode=schema", f"--schema_file={place}", "--analysis_dir=stored"]
    assert main([*read, "--labels=click,buy"]) == 0
    assert list(ek.load_spec("stored/spec.yaml").labels) == ["click", "buy"]
    with tf.io.gfile.GFile(place, "w") as file:
        file.write("something else")
    assert main(command) == 2


def test_in_a_program_of_ones_own(folder):
    config = ek.ExperimentConfig(mode="schema", spec="spec.yaml", schema_file="s.pbtxt")
    assert ek.run(config).mode == "schema"
    config = ek.ExperimentConfig(
        mode="schema", schema_file="s.pbtxt", analysis_dir="first", labels=("click", "buy")
    )
    ek.run(config)
    assert list(ek.load_spec("first/spec.yaml").labels) == ["click", "buy"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--mode=schema"],
         "--schema_file is missing. --mode=schema needs it.\n"
         "--spec is missing. --mode=schema needs it unless you give --analysis_dir."),
        (["--mode=schema", "--schema_file=s.pbtxt", "--spec=spec.yaml", "--analysis_dir=first"],
         "--spec and --analysis_dir do not go together in --mode=schema. Give --spec to write it "
         "as a Schema, or --analysis_dir to write a first spec from a Schema."),
        (["--mode=schema", "--schema_file=s.pbtxt", "--spec=spec.yaml", "--labels=click"],
         "--labels is for a first spec, but --spec has its own. Remove --labels."),
        (["--mode=import_schema", "--schema_file=s.pbtxt", "--analysis_dir=first"],
         "--mode: unknown mode 'import_schema'. The mode was merged into another one. Write "
         "schema, with --analysis_dir."),
        (["--mode=schema", "--schema_file=gone.pbtxt", "--analysis_dir=first"],
         "--schema_file: 'gone.pbtxt' cannot be read: No such file or directory"),
        (["--mode=schema", "--schema_file=s.pbtxt", "--analysis_dir=first",
          "--labels=clik"], "--labels: 's.pbtxt' has no feature 'clik'. Did you mean 'click'?"),
        (["--mode=schema", "--schema_file=s.pbtxt", "--analysis_dir=."],
         "--analysis_dir: '.' holds 's.pbtxt', which analysis did not write; name another folder, "
         "or move the file away"),
        (["--mode=schema", "--spec=spec.yaml", "--schema_file=spec.yaml"],
         "--schema_file: 'spec.yaml' exists and holds something else. Name another file, "
         "or move it away."),
    ],
)  # fmt: skip
def test_mistakes(folder, capsys, arguments, message):
    assert main(EXPORT) == 0
    before = sorted(path.name for path in folder.iterdir())
    capsys.readouterr()
    assert main(["run.py", *arguments]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"
    assert sorted(path.name for path in folder.iterdir()) == before


def test_without_the_package(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_metadata.proto.v0", None)
    assert main(EXPORT) == 2
    assert capsys.readouterr().err == (
        "error: a Schema needs the package 'tensorflow-metadata'; install it with: pip install "
        "'estimator-kit[metadata]'\n"
    )


def test_with_a_package_that_does_not_fit(folder, capsys, monkeypatch):
    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name.startswith("tensorflow_metadata"):
                raise TypeError("Descriptors cannot be created directly")

    for name in [name for name in sys.modules if name.startswith("tensorflow_metadata")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    assert main(EXPORT) == 2
    assert capsys.readouterr().err == (
        "error: the installed tensorflow-metadata cannot be imported (Descriptors cannot be "
        "created directly). With protobuf before 6 (TensorFlow 2.15 to 2.20), install: pip install "
        "'tensorflow-metadata<1.21'\n"
    )
