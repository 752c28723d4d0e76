"""A Python process, of this environment or of another one, that runs one job after another.

A process that imports TensorFlow takes seconds to start, so tests of two TensorFlows keep one of
each. As a program it reads a job a line from stdin, `[function, arguments]` in JSON, calls the
function, which is named `package.module:name`, and answers with a line: null, or the error's
traceback. It imports nothing but what the jobs name.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping

LIMIT = 300.0  # Seconds after which a job that hangs fails its test.

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Resident:
    """A process that calls functions until it is closed, or until the test process ends."""

    def __init__(self, python: str, variables: Mapping[str, str]):
        """Starts it.

        Args:
          python: the path of the interpreter.
          variables: its environment.
        """
        handle, self._log = tempfile.mkstemp()
        with open(handle, "w") as log:
            self._process = subprocess.Popen(
                [python, os.path.abspath(__file__)], cwd=ROOT, env=dict(variables), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip

    def call(self, function: str, *arguments: object) -> None:
        """Calls a function, `package.module:name`; if it raises an error, the test fails."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([function, [str(a) for a in arguments]]) + "\n")
        self._process.stdin.flush()
        answered, _, _ = select.select([self._process.stdout], [], [], LIMIT)
        line = self._process.stdout.readline() if answered else ""
        if not line:
            self._process.kill()
            status = self._process.wait()
            with open(self._log, errors="replace") as log:
                printed = log.read()[-4000:]
            raise AssertionError(f"no answer to {function}; ended with {status}\n{printed}")
        error = json.loads(line)
        assert error is None, error

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        os.remove(self._log)


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Keeps what jobs print out of the answers.
    sys.path[0] = ROOT  # It was the folder of this file, with packages of the kit's names.
    for line in sys.stdin:
        function, arguments = json.loads(line)
        module, _, name = function.partition(":")
        error = None
        try:
            getattr(importlib.import_module(module), name)(*arguments)
        except BaseException:
            error = traceback.format_exc()
        answers.write(json.dumps(error) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
