"""The program ends silently if its reader, such as `| head`, closes the pipe."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from estimator_kit import main
from tests.conftest import ROOT

pytestmark = pytest.mark.no_tensorflow


def test_head_ends_the_program_quietly():
    read, write = os.pipe()
    os.close(read)  # So that the first byte is refused, however fast or slow either side is.
    try:
        done = subprocess.run(
            [sys.executable, "run.py", "--help"],
            cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_status_of_what_ended_stays_also_if_nobody_reads_the_output():
    """The commands catch the error of a closed pipe, but Python keeps the text in its buffer."""
    code = (
        "import contextlib, sys\n"
        "from estimator_kit import main\n"
        "def refused(arguments):\n"
        "    with contextlib.suppress(BrokenPipeError):\n"
        "        print('a page', flush=True)\n"
        "    return 77\n"
        "main._main = refused\n"
        "main.program()\n"
    )
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (77, "")


def test_another_pipe_that_breaks_is_no_success(monkeypatch, capsys):
    def broken(arguments):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(main, "_main", broken)
    assert main.main(["run.py"]) == 70
    assert "BrokenPipeError" in capsys.readouterr().err
