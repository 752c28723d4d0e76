"""Runs a command line of the program inside the test process.

A new process takes some seconds to import TensorFlow, so only tests of signals, imports and how a
process ends start one. Other tests call `run`, which returns what `subprocess.run` would: the
exit status, standard output, and standard error with the lines of progress.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import pathlib
import runpy
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple, Union

from estimator_kit import main


class Done(NamedTuple):
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


def run(folder: Union[str, pathlib.Path], *arguments: str) -> Done:
    """`python run.py ARGUMENTS` in a folder."""
    with _captured(folder) as (out, err):
        code = main.main(["run.py", *arguments])
    return Done(code, out.getvalue(), err.getvalue())


def run_script(folder: Union[str, pathlib.Path], script: str, *arguments: str) -> Done:
    """`python SCRIPT ARGUMENTS` in a folder."""
    return _run_python(runpy.run_path, folder, script, *arguments)


def run_module(folder: Union[str, pathlib.Path], module: str, *arguments: str) -> Done:
    """`python -m MODULE ARGUMENTS` in a folder."""
    return _run_python(runpy.run_module, folder, module, *arguments)


def _run_python(
    start: Callable[..., object], folder: Union[str, pathlib.Path], program: str, *arguments: str
) -> Done:
    with _captured(folder) as (out, err), _arguments(program, *arguments):
        try:
            start(program, run_name="__main__")
            code = 0
        except SystemExit as end:
            code = end.code or 0
    assert isinstance(code, int), code
    return Done(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _captured(folder: Union[str, pathlib.Path]) -> Iterator[tuple[io.StringIO, io.StringIO]]:
    out, err = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(err)
    handler.setLevel(logging.INFO)
    loggers = [logging.getLogger(name) for name in (None, "estimator_kit", "tensorflow")]
    before = [(logger.level, list(logger.filters), list(logger.handlers)) for logger in loggers]
    folder_before = os.getcwd()
    os.chdir(folder)
    for logger in loggers[1:]:
        logger.addHandler(handler)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield out, err
    finally:
        for logger, (level, filters, handlers) in zip(loggers, before):
            logger.setLevel(level)
            logger.filters[:], logger.handlers[:] = filters, handlers
        os.chdir(folder_before)


@contextlib.contextmanager
def _arguments(script: str, *arguments: str) -> Iterator[None]:
    before = sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before
