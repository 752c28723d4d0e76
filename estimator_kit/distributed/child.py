"""Starts this program again as a child process that ends when its parent ends.

`--launch_local` starts the tasks of a cluster with it, and `--mode=tune` its trials. Imports no
TensorFlow.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence

_PR_SET_PDEATHSIG = 1


def command(arguments: Sequence[str]) -> list[str]:
    """The command that runs the program with these flags, as this process runs it."""
    code = (
        f"import sys; sys.argv[0] = {sys.argv[0]!r}; "
        "from estimator_kit.main import main; sys.exit(main())"
    )
    return [sys.executable, "-c", code, *arguments]


def in_child(niceness: int) -> Callable[[], None]:
    """What a new process does first: it lowers its priority, and ends when its parent ends.

    Only on Linux it ends with its parent, even if SIGKILL ends the parent.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def prepare() -> None:
        os.nice(niceness)
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return prepare
