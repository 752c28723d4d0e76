"""Runs a page of documentation as a reader does: from top to bottom, in one folder.

The README and the pages of docs/tutorials follow these rules:

- A block of Python, YAML, flags or TOML whose first line is `# NAME` is the file NAME.
- A block `sh` has commands. `estimator-kit` and `python` run in the process of the test; a block
  with a process in the background, a cluster or the launcher runs in a shell. `pip install` and
  `make` do not run. A comment `# exit status 99` after a command says how it ends. The default
  is 0.
- A block `text` after it has lines that these commands print, in this order. A line `...` stands
  for lines that are left out, and `...` inside a line for any text. Numbers may differ.
- A block `console` is not run. Blocks in other languages are not allowed.
"""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess
import sys
from typing import NamedTuple, Optional

from tests import programs
from tests.conftest import ROOT

FILES = ("python", "yaml", "flags", "toml")
LANGUAGES = (*FILES, "sh", "text", "console")
NOT_RUN = ("pip install ", "make ", "export PYTHONPATH=.")
LIMIT = 600  # Seconds after which a block that hangs fails its test.


class Block(NamedTuple):
    """A block of code on a page."""

    language: str
    text: str


def blocks(page: pathlib.Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(*found) for found in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)]


def follow(page: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes the files of a page, runs its commands, and compares what they print."""
    printed = ""
    for block in blocks(page):
        name = re.match(r"# ([\w/.]+\.\w+)\n", block.text)
        if block.language in FILES and name:
            (folder / name[1]).parent.mkdir(parents=True, exist_ok=True)
            (folder / name[1]).write_text(with_versions(block.text, folder))
        elif block.language == "sh":
            printed = run_block(block.text, folder)
        elif block.language == "text":
            line = missing_line(block.text, printed)
            assert line is None, f"{page.name} shows:\n{line}\nbut this was printed:\n{printed}"


def run_block(text: str, folder: pathlib.Path) -> str:
    """Runs the commands of a block and returns what they print."""
    text = with_versions(text, folder)
    if re.search(r"&$|--launch_local|^sed |estimator_kit\.compat", text, re.M):
        return _run_in_shell(text, folder)
    printed = ""
    for line in text.replace("\\\n", " ").splitlines():
        line, _, comment = line.partition("#")
        program, *arguments = shlex.split(line) or [""]
        if program == "estimator-kit":
            done = programs.run(folder, *arguments)
        elif program == "python" and arguments[0] == "-m":
            done = programs.run_module(folder, *arguments[1:])
        elif program == "python":
            done = programs.run_script(folder, *arguments)
        elif program == "cat":
            done = programs.Done(0, "".join((folder / a).read_text() for a in arguments), "")
        else:
            assert line.strip() == "" or line.startswith(NOT_RUN), line
            continue
        status = re.search(r"exit status (\d+)", comment)
        expected = int(status[1]) if status else 0
        assert done.returncode == expected, f"{line}\n{done.stdout}\n{done.stderr}"
        printed += done.stdout + done.stderr
    return printed


def _run_in_shell(text: str, folder: pathlib.Path) -> str:
    commands = folder.parent / "bin"
    commands.mkdir(exist_ok=True)
    for name, more in (("estimator-kit", f" {ROOT / 'run.py'}"), ("python", "")):
        program = commands / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable}{more} "$@"\n')
        program.chmod(0o755)
    path = f"{commands}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", text], cwd=folder, text=True, timeout=LIMIT,
        env={**os.environ, "PATH": path, "PYTHONPATH": f"{folder}:{ROOT}"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, f"{text}\n{done.stdout[-6000:]}"
    return done.stdout


def with_versions(text: str, folder: pathlib.Path) -> str:
    """Commands or code with the export of this run instead of the one on the page."""

    def newest(found: re.Match) -> str:
        versions = [path.name for path in (folder / found[1]).iterdir() if path.name.isdigit()]
        return f"{found[1]}/{max(versions)}"

    return re.sub(r"(?<=[=\"])([\w/]+/export/\w+)/\d{10}\b", newest, text)


def missing_line(shown: str, printed: str) -> Optional[str]:
    """The first line of a block `text` that was not printed after the lines before it, or None."""
    lines = iter(printed.splitlines())
    for line in shown.splitlines():
        if line.strip() == "...":
            continue
        words = re.split(r"(\.\.\.|\d[\d,.]*|-{4,}|\s+)", line.strip())
        expected = re.compile("".join(map(_loose, words)))
        if not any(expected.search(one) for one in lines):
            return line
    return None


def _loose(word: str) -> str:
    if word == "...":
        return ".*"
    if re.fullmatch(r"\d[\d,.]*", word):
        return r"-?\d[\d,.]*"
    if re.fullmatch(r"-{4,}", word):
        return "-+"
    return r"\s+" if word.isspace() else re.escape(word)
