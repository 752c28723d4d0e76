"""tools/run_old_programs.py, on checkouts and a list that are made here."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import yaml

from tests.conftest import ROOT
from tools.run_old_programs import LIST, Program

LISTED = """
shared: |
  def write(path, text):
      with open(path, "w") as file:
          file.write(text)
programs:
- name: reads its data
  repository: somebody/programs
  folder: good
  cwd: inner
  path: [programs/library]
  data: write("rows.csv", "1,2")
  command: |
    reads.py --out=a.txt
    -m reads --out='b c.txt'
  expect: {file: "inner/b*.txt", output: "read 1,2 by [a-z]+"}
- {name: raises, repository: somebody/programs, folder: bad, command: raises.py}
- name: no match
  repository: somebody/programs
  folder: good
  command: silent.py
  expect: {output: done}
- name: no file
  repository: somebody/programs
  folder: good
  command: silent.py
  expect: {file: "*.index"}
- {name: changes itself, repository: somebody/programs, folder: bad, command: changes.py}
- {name: no data, repository: somebody/programs, folder: good, command: silent.py, data: missing()}
- {name: no folder, repository: somebody/others, command: silent.py}
- {name: slow, repository: somebody/programs, folder: bad, command: slow.py}
"""

CHANGES = "open(__file__, 'a').write('# new')\n"


@pytest.fixture
def checkouts(tmp_path):
    folder = tmp_path / "checkouts" / "programs"
    for name in ("good/inner", "bad", "library"):
        (folder / name).mkdir(parents=True)
    (folder / "library" / "helper.py").write_text("NAME = 'helper'\n")
    (folder / "good" / "inner" / "reads.py").write_text(
        "import sys, helper\n"
        "open(sys.argv[1].partition('=')[2], 'w')\n"
        "print('read', open('rows.csv').read(), 'by', helper.NAME)\n"
    )
    (folder / "good" / "silent.py").write_text("")
    (folder / "bad" / "raises.py").write_text("raise KeyError('gone')\n")
    (folder / "bad" / "changes.py").write_text(CHANGES)
    (folder / "bad" / "slow.py").write_text("input_never_comes = __import__('time').sleep(600)\n")
    (tmp_path / "list.yaml").write_text(LISTED)
    return folder.parent


def run(checkouts, *arguments):
    return subprocess.run(
        [sys.executable, "tools/run_old_programs.py", str(checkouts), *arguments,
         "--list", str(checkouts.parent / "list.yaml")],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_table_of_programs_that_run_as_they_are(checkouts):
    done = run(checkouts, "--plain", sys.executable, "--only", "^(?!slow)")
    assert done.returncode == 0, done.stderr
    title = re.search(r"TensorFlow [\d.]+, as it is", done.stdout).group()
    assert done.stdout == (
        f"| program | needs | {title} | lines changed |\n"
        "| --- | --- | --- | --- |\n"
        "| reads its data | estimator | runs | 0 |\n"
        "| raises | estimator | fails | 0 |\n"
        "| no match | estimator | fails | 0 |\n"
        "| no file | estimator | fails | 0 |\n"
        "| changes itself | estimator | fails | 0 |\n"
        "| no data | estimator | fails | 0 |\n"
        "| no folder | estimator | fails | 0 |\n"
        "| 7 programs | | 1 run | |\n"
        "\n"
        f"- raises, {title}: exit status 1: KeyError: 'gone'\n"
        f"- no match, {title}: the output has no match for 'done'\n"
        f"- no file, {title}: no file matches '*.index'\n"
        f"- changes itself, {title}: the run changed the program's code\n"
        f"- no data, {title}: exit status 1: NameError: name 'missing' is not defined\n"
        f"- no folder, {title}: no folder {checkouts / 'others'}\n"
    )
    assert (checkouts / "programs" / "bad" / "changes.py").read_text() == CHANGES


def test_a_program_that_takes_too_long_fails(checkouts):
    done = run(checkouts, "--plain", sys.executable, "--only", "slow", "--limit", "1")
    assert "| slow | estimator | fails | 0 |" in done.stdout
    assert done.stdout.endswith("as it is: longer than 1 s\n")


def test_launcher_and_its_option_come_first():
    program = Program(
        "a", "b/c", "-m trainer.task --x 'a b'\nnext.py", needs=["contrib"], data="d()"
    )
    assert program.commands(["-m", "launcher"], "shared") == [
        ["-c", "shared\nd()"],
        ["-m", "launcher", "--tf1", "-m", "trainer.task", "--x", "a b"],
        ["-m", "launcher", "--tf1", "next.py"],
    ]
    assert program.commands([], "")[1] == ["-m", "trainer.task", "--x", "a b"]
    plain = Program("a", "b/c", "main.py", needs=["estimator", "tpu"])
    assert plain.commands(["-m", "launcher"], "") == [["-m", "launcher", "main.py"]]


@pytest.mark.nightly  # It starts four programs with TensorFlow.
def test_a_program_that_a_later_python_cannot_run_gives_exit_status_1(checkouts, tmp_path):
    # A second "Python" on which no program runs.
    other = tmp_path / "other"
    other.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exec {sys.executable} "$@"\nexit 3\n')
    other.chmod(0o755)
    (checkouts / "programs" / "good" / "silent.py").write_text("")
    both = ["--python", sys.executable, "--python", str(other)]
    done = run(checkouts, *both, "--only", "no match")
    assert done.returncode == 0, done.stderr  # it runs on neither
    (tmp_path / "list.yaml").write_text(LISTED.replace("output: done", "output: ''"))
    done = run(checkouts, *both, "--only", "no match")
    assert done.returncode == 1, done.stderr
    assert "| no match | estimator | runs | fails | 0 |" in done.stdout


def test_the_list():
    listed = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    programs = [Program(**entry) for entry in listed["programs"]]
    names = [program.name for program in programs]
    assert len(names) == len(set(names)) >= 40
    for program in programs:
        compile(f"{listed['shared']}\n{program.data}", program.name, "exec")
        assert set(program.needs) <= {"estimator", "tf1", "contrib", "tpu"}, program.name
        assert set(program.expect) <= {"output", "file"} and program.expect, program.name
        assert program.repository.count("/") == 1, program.name
