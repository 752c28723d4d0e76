"""--beam_options as a user gives it: the same files, exit statuses and messages as without it."""

from __future__ import annotations

import json
import sys

import pytest

from estimator_kit import main
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError
from tests.beam import FLAGS, needs_beam

BEAM = f"--beam_options={' '.join(FLAGS)}"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command line in a folder with a table. Returns exit status, output and errors."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i % 2},user {i % 7},{i / 8}\n" for i in range(200))
    (tmp_path / "a.csv").write_text(f"click,user,price\n{rows}")
    (tmp_path / "bad.csv").write_text("a,b\n1,x\n1,2,3\n")

    def run_main(*arguments):
        code = main.main(["run.py", *arguments])
        return (code, *capsys.readouterr())

    return run_main


def content(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


CONVERT = ("--mode=convert", "--convert_files=a.csv", "--split=key:user", "--split_eval=0.3",
           "--convert_order=shuffled")  # fmt: skip
ANALYZE = ("--mode=analyze", "--train_files=a.csv", "--labels=click")


@needs_beam
def test_a_conversion(run, tmp_path):
    here = run(*CONVERT, "--convert_dir=here")
    there = run(*CONVERT, "--convert_dir=there", BEAM)
    assert here[0] == 0 and there == (0, here[1].replace("here", "there"), "")
    assert content(tmp_path / "there") == content(tmp_path / "here")
    assert run(*CONVERT, "--convert_dir=there", BEAM)[0] == 99
    (tmp_path / "beam.flags").write_text("\n".join((*CONVERT, BEAM, "--convert_dir=file")))
    assert run("--flagfile=beam.flags")[0] == 0
    assert content(tmp_path / "file") == content(tmp_path / "here")


@needs_beam
def test_an_analysis(run, tmp_path):
    here = run(*ANALYZE, "--analysis_dir=here")
    there = run(*ANALYZE, "--analysis_dir=there", BEAM)
    assert here[0] == 0 and there == (0, here[1].replace("here/", "there/"), "")
    assert content(tmp_path / "there") == content(tmp_path / "here")


@needs_beam
def test_mistakes_are_the_same(run, tmp_path):
    bad = ("--mode=convert", "--convert_files=bad.csv", "--convert_dir=x")
    expected = (65, "", "error: bad.csv: line 3: has 3 fields, expected 2: '1,2,3'\n")
    assert run(*bad) == run(*bad, BEAM) == expected
    (tmp_path / "spec.json").write_text(json.dumps({
        "features": {"user": {"dtype": "string"}},
        "columns": {"u": {"hash_bucket": "user", "size": 9}}, "groups": {"wide": ["u"]},
        "labels": {"click": {"dtype": "int64"}}, "objectives": {"click": {"head": "binary"}},
    }))  # fmt: skip
    (tmp_path / "a.csv").write_text("click,user\n1,ann\n0,\n")
    held = ("--mode=convert", "--convert_files=a.csv", "--convert_dir=y", "--spec=spec.json")
    expected = (
        65, "", "error: a.csv: line 3: column 'user' has no value, which is required, as spec.json "
        "says; a training would stop there: correct the row, or the spec\n",
    )  # fmt: skip
    assert run(*held, BEAM) == run(*held) == expected


@needs_beam
@pytest.mark.parametrize("mode", [(*CONVERT, "--convert_dir=x"), (*ANALYZE, "--analysis_dir=x")])
def test_a_flag_that_beam_does_not_know(run, tmp_path, mode):
    flags = "--beam_options=--runner=DirectRunner --direct_num_wokers=2"
    assert run(*mode, flags) == (
        2, "", "error: --beam_options: Beam has no flag --direct_num_wokers. Did you mean "
        "'direct_num_workers'?\n",
    )  # fmt: skip
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("mode", [(*CONVERT, "--convert_dir=x"), (*ANALYZE, "--analysis_dir=x")])
def test_without_beam(run, tmp_path, monkeypatch, mode):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    assert run(*mode, BEAM) == (
        2, "", "error: --beam_options needs the package 'apache-beam'; install it with: pip "
        "install 'estimator-kit[beam]'\n",
    )  # fmt: skip
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "values, message",
    [
        ({"mode": "convert", "convert_files": ("a",), "convert_dir": "x", "processes": 2,
          "beam_options": "--runner=DirectRunner"},
         "--processes is for a conversion without --beam_options. Use the flag of the Beam "
         "runner for the number of workers."),
        ({"mode": "check_data", "train_files": ("a",), "beam_options": "--runner=DirectRunner"},
         "--beam_options is for --mode=convert and --mode=analyze. Remove it."),
        ({"mode": "convert", "convert_files": ("a",), "convert_dir": "x", "beam_options": ""},
         "--beam_options: --runner is missing. Name the runner of the pipeline, such as "
         "--runner=DirectRunner (this machine) or --runner=DataflowRunner"),
    ],
)  # fmt: skip
def test_flags_that_do_not_go_together(values, message):
    with pytest.raises(ConfigError) as error:
        ExperimentConfig(**values)
    assert str(error.value) == message
