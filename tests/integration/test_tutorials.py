"""Runs each page of docs/tutorials as a reader does: from top to bottom, in an empty folder.

The pages follow these rules:

- A block of Python, YAML, flags or TOML whose first line is `# NAME` is the file NAME.
- A block `sh` has commands. `estimator-kit` and `python` run in the process of the test; a block
  with processes in the background, or with a cluster, runs in a shell. `pip install` does not run.
  A comment `# exit status 99` after a command says how it ends; without one it ends with 0.
- A block `text` right after it has lines that these commands print, in this order. A line `...`
  stands for lines that are left out, and `...` inside a line for any text. Numbers may differ.
"""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests import programs
from tests.conftest import ROOT

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
FILES = ("python", "yaml", "flags", "toml")
LIMIT = 300  # Seconds after which a block that hangs fails its test.

pytestmark = pytest.mark.ci


class Block(NamedTuple):
    """A block of code on a page."""

    language: str
    text: str


def blocks(page: pathlib.Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(*found) for found in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)]


def run_block(text: str, folder: pathlib.Path, command: pathlib.Path) -> str:
    """Runs the commands of a block and returns what they print."""
    text = with_versions(text, folder)
    if re.search(r"&$|--launch_local|\bkill\b", text, re.M):
        return run_in_shell(text, folder, command)
    printed = ""
    for line in text.replace("\\\n", " ").splitlines():
        line, _, comment = line.partition("#")
        program, *arguments = shlex.split(line) or [""]
        if program == "estimator-kit":
            done = programs.run(folder, *arguments)
        elif program == "python":
            done = programs.run_script(folder, *arguments)
        elif program == "cat":
            done = programs.Done(0, "".join((folder / a).read_text() for a in arguments), "")
        else:
            assert line.strip() == "" or line.startswith(("pip install ", "mkdir ")), line
            continue
        status = re.search(r"exit status (\d+)", comment)
        expected = int(status[1]) if status else 0
        assert done.returncode == expected, f"{line}\n{done.stdout}\n{done.stderr}"
        printed += done.stdout + done.stderr
    return printed


def run_in_shell(text: str, folder: pathlib.Path, command: pathlib.Path) -> str:
    environment = {
        **os.environ, "PATH": f"{command}:{os.environ['PATH']}",
        "PYTHONPATH": f"{folder}:{ROOT}",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-e", "-c", text], cwd=folder, env=environment, text=True, timeout=LIMIT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, f"{text}\n{done.stdout[-6000:]}"
    return done.stdout


def with_versions(text: str, folder: pathlib.Path) -> str:
    """The commands with the version of this run in the place of the one on the page."""

    def newest(found: re.Match) -> str:
        versions = [path.name for path in (folder / found[1]).iterdir() if path.name.isdigit()]
        return f"{found[1]}/{max(versions)}"

    return re.sub(r"(?<==)([\w/]+/export/\w+)/\d{10}\b", newest, text)


def pattern(shown: str) -> str:
    """A regular expression for the lines of a block `text`."""
    lines = []
    for line in shown.splitlines():
        if line.strip() == "...":
            continue
        words = re.split(r"(\.\.\.|\d[\d,.]*|-{4,}|\s+)", line.strip())
        lines.append("".join(map(_loose, words)))
    return r".*".join(rf"^[^\n]*?{line}[^\n]*$\n?" for line in lines)


def _loose(word: str) -> str:
    if word == "...":
        return r"[^\n]*"
    if re.fullmatch(r"\d[\d,.]*", word):
        return r"-?\d[\d,.]*"
    if re.fullmatch(r"-{4,}", word):
        return "-+"
    return r"\s+" if word.isspace() else re.escape(word)


@pytest.fixture
def command(tmp_path) -> pathlib.Path:
    """A folder with the programs `estimator-kit` and `python`, for blocks that run in a shell."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, more in (("estimator-kit", f" {ROOT / 'run.py'}"), ("python", "")):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable}{more} "$@"\n')
        program.chmod(0o755)
    return folder


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_reader_gets_what_the_page_shows(page, tmp_path, command, monkeypatch):
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    printed = ""
    for block in blocks(page):
        name = re.match(r"# ([\w/.]+\.\w+)\n", block.text)
        if block.language in FILES and name:
            (folder / name[1]).parent.mkdir(parents=True, exist_ok=True)
            (folder / name[1]).write_text(block.text)
        elif block.language == "sh":
            printed = run_block(block.text, folder, command)
        elif block.language == "text":
            found = re.search(pattern(block.text), printed, re.M | re.S)
            assert found, f"not printed:\n{block.text}\nbut:\n{printed}"
    for module in set(sys.modules) - before:  # Modules that the page wrote.
        if str(folder) in str(getattr(sys.modules[module], "__file__", None)):
            del sys.modules[module]


def test_every_block_has_a_use():
    """A block in another language would not be run."""
    for page in TUTORIALS:
        for block in blocks(page):
            assert block.language in (*FILES, "sh", "text", "console"), (page.name, block)


def test_the_pages_name_extras_that_exist():
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = metadata.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = set(re.findall(r"^(\w+) = ", table, re.M))
    for page in TUTORIALS:
        for named in re.findall(r"\[([\w,]+)\]['\"]", page.read_text(encoding="utf-8")):
            assert set(named.split(",")) <= extras, (page.name, named)
