"""Runs old public Estimator programs, unchanged, on several TensorFlows and prints a table.

    python tools/run_old_programs.py CHECKOUTS --plain .venv/tf2.15-py3.11/bin/python \\
        --python .venv/tf2.15-py3.11/bin/python --python .venv/tf2.21-py3.13/bin/python [--only NAME]

CHECKOUTS is a folder of checkouts that you made, each under the name of its repository
(tools/old_programs.yaml lists them); nothing is fetched. For each program, the tool copies its folder
to a temporary one, makes small input data there, and runs the program's commands: as they are for
--plain, with `-m estimator_kit.compat` in front for --python (`--tf1` too where `needs` names tf1 or
contrib). A program passes when each command exits with 0 and the expected text or file is there.
"0 lines changed" is checked: the program's files must be the same after the run.

Prints a Markdown table, one column per Python, then totals and the last line of each error. The exit
status is 1 when a program that passed with the launcher on the first --python failed on another.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

LIST = Path(__file__).with_name("old_programs.yaml")


@dataclass(frozen=True)
class Program:
    """One entry of the list."""

    name: str
    repository: str
    command: str  # one command on each line
    folder: str = "."
    cwd: str = "."  # in the folder: where the commands run
    path: list[str] = field(default_factory=list)  # other checkouts on PYTHONPATH
    needs: list[str] = field(default_factory=lambda: ["estimator"])
    data: str = ""  # Python code that makes the inputs; may call the functions of `shared`
    expect: dict[str, str] = field(default_factory=dict)  # {output: a regex} or {file: a glob}

    def lines(self, *, launcher: list[str]) -> list[list[str]]:
        """The command lines, without the interpreter."""
        tf1 = ["--tf1"] if launcher and {"tf1", "contrib"} & set(self.needs) else []
        return [[*launcher, *tf1, *shlex.split(line)] for line in self.command.strip().splitlines()]


def run(program: Program, checkouts: Path, python: str, launcher: list[str], shared: str, limit: float) -> str:
    """Returns "" when the program passed, and otherwise the reason."""
    source = checkouts / program.repository.rpartition("/")[2] / program.folder
    if not source.is_dir():
        return f"there is no folder {source}"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "program"
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns(".git"), symlinks=False)
        before = digests(folder)
        path = [str(folder), *(str(checkouts / name) for name in program.path)]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")]),
            "PATH": os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", "")]),
            "HOME": temporary,
            "PYTHONDONTWRITEBYTECODE": "1",
            "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3"),
        }
        commands = [[python, "-c", shared + "\n" + program.data]] if program.data else []
        commands += [[python, *line] for line in program.lines(launcher=launcher)]
        output = ""
        for number, command in enumerate(commands):
            status, output = execute(command, folder / program.cwd, environment, limit)
            if status != 0:
                stage = "data: " if program.data and not number else ""
                return stage + (f"longer than {limit:.0f} s" if status is None else reason(output, status))
        changed = [name for name, digest in before.items() if digests(folder, name).get(name) != digest]
        if changed:
            return f"the run changed {changed[0]}"
        pattern, glob = program.expect.get("output"), program.expect.get("file")
        if pattern and not re.search(pattern, output):
            return f"the output has no match for {pattern!r}"
        if glob and not any(folder.glob(glob)):
            return f"no file matches {glob!r}"
        return ""


def execute(command: list[str], folder: Path, environment: dict[str, str], limit: float) -> tuple[Any, str]:
    """The exit status (None past the limit) and the output of a command and of what it started."""
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        log.seek(0)
        return status, log.read()


def digests(folder: Path, name: str = "**/*.py") -> dict[str, str]:
    """A digest of each program file below a folder."""
    files = sorted(path for path in folder.glob(name) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def reason(output: str, status: int) -> str:
    """The last line of the output that names an error, or the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt|Exit)\b", line)]
    return ((errors or lines or [f"exit status {status}"])[-1])[:200]


def report(programs: list[Program], columns: list[tuple[str, list[str]]], options: Any, shared: str) -> int:
    """Runs the programs, prints the table, and returns the exit status."""
    heads = [f"{version(python)}{'' if launcher else ', as it is'}" for python, launcher in columns]
    print("| program | needs | " + " | ".join(heads) + " | lines changed |")
    print("| --- " * (len(columns) + 3) + "|", flush=True)
    passed = [0] * len(columns)
    notes, lost = [], 0
    for program in programs:
        cells = []
        for number, (python, launcher) in enumerate(columns):
            error = run(program, options.checkouts, python, launcher, shared, options.limit)
            passed[number] += not error
            cells.append("fails" if error else "runs")
            if error:
                notes.append(f"- {program.name}, {heads[number]}: {error}")
                print(notes[-1], file=sys.stderr, flush=True)
        launched = cells[len(options.plain) :]
        lost += launched[:1] == ["runs"] and "fails" in launched
        print(f"| {program.name} | {', '.join(program.needs)} | {' | '.join(cells)} | 0 |", flush=True)
    print(f"| {len(programs)} programs | | {' | '.join(f'{n} run' for n in passed)} | |\n")
    print("\n".join(notes))
    return 1 if lost else 0


def version(python: str) -> str:
    """The release of TensorFlow that a Python has."""
    code = "import importlib.metadata as m; print('TensorFlow', m.version('tensorflow'))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--plain", action="append", default=[], help="a Python that runs programs as they are")
    parser.add_argument("--python", action="append", default=[], help="a Python that uses the launcher")
    parser.add_argument("--launcher", default="-m estimator_kit.compat", help="how the launcher is started")
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--limit", type=float, default=180, help="seconds for each command")
    parser.add_argument("--list", type=Path, default=LIST, help="the list of programs")
    options = parser.parse_args(arguments)
    listed = yaml.safe_load(options.list.read_text(encoding="utf-8"))
    programs = [Program(**entry) for entry in listed["programs"] if re.search(options.only, entry["name"])]
    columns = [(p, []) for p in options.plain] + [(p, shlex.split(options.launcher)) for p in options.python]
    return report(programs, columns, options, listed.get("shared", ""))


if __name__ == "__main__":
    sys.exit(main())
