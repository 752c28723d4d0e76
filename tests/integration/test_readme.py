"""Every snippet of the README does what the text around it says."""

from __future__ import annotations

import re
import shlex
import shutil
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from estimator_kit import exit_codes
from input_pipelines.synthetic import impression_log
from tests import programs
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def snippets(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder like a checkout, with the README's files and little of the default data."""
    folder = tmp_path_factory.mktemp("home")
    impression_log.generate(str(folder / "data" / "ads"), rows=8000)
    (folder / "my_spec.yaml").write_text(snippets("yaml")[0])
    (folder / "my.flags").write_text(snippets("flags")[0])
    example = folder / "examples" / "next_purchase"
    shutil.copytree(ROOT / "examples" / "next_purchase", example)
    for code in snippets("python"):
        name = code.partition("\n")[0].removeprefix("# ")
        (folder / name).write_text(code)
    write_logs(folder)
    (folder / "feature_specs").symlink_to(ROOT / "feature_specs")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(folder))
        patched.setenv("PYTHONPATH", f"{folder}:{ROOT}")
        patched.setenv("PATH", "")
        yield folder
    for code in snippets("python"):  # Modules of that folder.
        sys.modules.pop(code.partition("\n")[0].removeprefix("# ").removesuffix(".py"), None)


def write_logs(folder) -> None:
    """Some of the default data as a Parquet file."""
    first = str(next((folder / "data" / "ads" / "dt=2026-01-01").glob("*.tfrecord")))
    rows = []
    for record in tf.data.TFRecordDataset(first).as_numpy_iterator():
        row = {}
        for name, feature in tf.train.Example.FromString(record).features.feature.items():
            values = list(getattr(feature, feature.WhichOneof("kind") or "int64_list").value)
            values = [v.decode() if isinstance(v, bytes) else v for v in values]
            row[name] = values if name == "interests" else values[0]
        rows.append(row)
    (folder / "logs").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), folder / "logs" / "2026-01-01.parquet")


def run(home, command: str) -> programs.Done:
    python, script, *arguments = shlex.split(command, comments=True)
    assert python == "python"
    if script == "run.py":
        return programs.run(home, *arguments)
    return programs.run_script(home, script, *arguments)


def commands() -> list[str]:
    text = "".join(snippets("sh")).replace("\\\n", " ")
    return [line for line in text.splitlines() if line.startswith("python ")]


def test_the_snippets_are_those_that_are_tested_here():
    assert [len(snippets(kind)) for kind in ("yaml", "flags", "python", "text")] == [1, 1, 4, 3]
    assert snippets("sh")[0].startswith("make demo ") and len(commands()) == 24


def test_the_tutorial_is_the_model_of_the_example():
    (snippet,) = [code for code in snippets("python") if code.startswith("# examples/")]
    name, _, code = snippet.partition("\n")
    assert code == (ROOT / name.removeprefix("# ")).read_text()


@pytest.mark.ci
def test_every_command_of_the_readme_works_in_its_order(home):
    for command in commands():
        done = run(home, command)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    lines = (home / "runs/mine/predictions.jsonl").read_text().splitlines()
    assert len(lines) == 1000
    outputs = {path.name for path in (home / "runs/mine").iterdir()}
    for name in re.findall(r"^  ([\w./]+)", snippets("text")[2], re.M):
        top = name.split("/")[0]
        assert any(output.startswith(top.rstrip("*-")) for output in outputs), name


@pytest.mark.ci
def test_the_program_of_the_readme_works(home):
    done = run(home, "python in_a_program.py")
    assert done.returncode == 0, done.stderr
    auc, path = done.stdout.split()[-2:]
    assert 0 < float(auc) < 1
    assert (home / path / "saved_model.pb").exists()


def test_the_exit_statuses_are_those_of_the_program():
    table = dict(re.findall(r"^\| (\d+) \| (.*) \|$", README, re.M))
    assert table == {str(code): text for code, text in exit_codes.MEANING.items()}
