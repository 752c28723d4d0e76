"""Runs old public Estimator programs, unchanged, on several TensorFlows and prints a table.

    python tools/run_old_programs.py CHECKOUTS --plain .venv/tf2.15-py3.11/bin/python \\
        --python .venv/tf2.15-py3.11/bin/python --python .venv/tf2.21-py3.13/bin/python

CHECKOUTS is a folder of checkouts that you made, each named as its repository (the part after the
slash); nothing is fetched. tools/old_programs.yaml lists the programs. For each of them, the tool
copies its folder to a temporary one, makes small inputs there and runs its commands: as they are
with --plain, and with `-m estimator_kit.compat` in front with --python (`--tf1` too, if `needs`
names tf1 or contrib). A program runs if each command exits with 0, the expected text or file is
there, and no *.py file of it has changed.

Prints a Markdown table with one column for each Python, the totals, and the reason of each failure.
The exit status is 1 if a program runs with the launcher on the first --python but not on another.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import yaml

LIST = Path(__file__).with_name("old_programs.yaml")
LAUNCHER = ["-m", "estimator_kit.compat"]
_ERROR = re.compile(r"[\w.]*(Error|Exception|Interrupt|Exit)\b")


@dataclass(frozen=True)
class Program:
    """One entry of the list; old_programs.yaml says what each field means."""

    name: str
    repository: str
    command: str
    folder: str = "."
    cwd: str = "."
    path: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=lambda: ["estimator"])
    data: str = ""
    expect: dict[str, str] = field(default_factory=dict)

    def commands(self, launcher: list[str], shared: str) -> list[list[str]]:
        """The arguments of Python for the inputs, if there are any, and for each command."""
        start = launcher + ["--tf1"] * bool(launcher and {"tf1", "contrib"} & set(self.needs))
        inputs = [["-c", f"{shared}\n{self.data}"]] if self.data else []
        return inputs + [[*start, *shlex.split(line)] for line in self.command.splitlines()]


@dataclass(frozen=True)
class Environment:
    """A Python, and how it starts a program: with a launcher or, if that is empty, as it is."""

    python: str
    launcher: list[str]

    def title(self) -> str:
        code = "import importlib.metadata as m; print('TensorFlow', m.version('tensorflow'))"
        done = subprocess.run([self.python, "-c", code], capture_output=True, text=True, check=True)
        return done.stdout.strip() + ("" if self.launcher else ", as it is")

    def run(self, program: Program, checkouts: Path, shared: str, limit: float) -> str:
        """Returns "" if the program runs, and otherwise the reason."""
        source = checkouts / program.repository.rpartition("/")[2] / program.folder
        if not source.is_dir():
            return f"no folder {source}"
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary, "program")
            shutil.copytree(source, folder, ignore=shutil.ignore_patterns(".git"))
            code = _code(folder)
            paths = [folder, *(checkouts / name for name in program.path)]
            variables = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")]),
                "HOME": temporary,  # ~/.keras/datasets: what tf.keras.utils.get_file would fetch
                "TF_CPP_MIN_LOG_LEVEL": "3",
            }
            for arguments in program.commands(self.launcher, shared):
                try:
                    done = subprocess.run(
                        [self.python, *arguments], cwd=folder / program.cwd, env=variables,
                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                        text=True, errors="replace", timeout=limit,
                    )  # fmt: skip
                except subprocess.TimeoutExpired:
                    return f"longer than {limit:g} s"
                if done.returncode:
                    return f"exit status {done.returncode}: {_last_error(done.stdout)}"
            if not code.items() <= _code(folder).items():
                return "the run changed the program's code"
            pattern, glob = program.expect.get("output", ""), program.expect.get("file")
            if not re.search(pattern, done.stdout):
                return f"the output has no match for {pattern!r}"
            return "" if not glob or any(folder.glob(glob)) else f"no file matches {glob!r}"


def _code(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.py") if path.is_file()}


def _last_error(output: str) -> str:
    """The last line of an output that names an error, or its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return ([line for line in lines if _ERROR.match(line)] or lines or ["no output"])[-1][:200]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--plain", action="append", default=[], help="runs programs as they are")
    parser.add_argument("--python", action="append", default=[], help="runs them with the launcher")
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--limit", type=float, default=300, help="seconds for each command")
    parser.add_argument("--list", type=Path, default=LIST, help="another list of programs")
    options = parser.parse_args()
    checkouts = options.checkouts.resolve()
    listed = yaml.safe_load(options.list.read_text(encoding="utf-8"))
    shared = listed.get("shared", "")
    programs = [Program(**entry) for entry in listed["programs"]]
    programs = [program for program in programs if re.search(options.only, program.name)]
    columns = [Environment(os.path.abspath(python), []) for python in options.plain]
    columns += [Environment(os.path.abspath(python), LAUNCHER) for python in options.python]
    titles = [column.title() for column in columns]
    print(f"| program | needs | {' | '.join(titles)} | lines changed |")
    print("|" + " --- |" * (len(titles) + 3), flush=True)
    notes, runs, lost = [], [0] * len(columns), 0
    for program in programs:
        errors = [column.run(program, checkouts, shared, options.limit) for column in columns]
        runs = [count + (not error) for count, error in zip(runs, errors)]
        launched = errors[len(options.plain) :]
        lost += launched[:1] == [""] and any(launched)
        reasons = [f"- {program.name}, {t}: {e}" for t, e in zip(titles, errors) if e]
        notes += reasons
        print(*reasons, sep="\n", file=sys.stderr, flush=True)
        marks = ["fails" if error else "runs" for error in errors]
        print(f"| {' | '.join([program.name, ', '.join(program.needs), *marks])} | 0 |", flush=True)
    print(f"| {len(programs)} programs | | {' | '.join(f'{count} run' for count in runs)} | |\n")
    print("\n".join(notes))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
