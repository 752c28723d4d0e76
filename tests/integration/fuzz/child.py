"""A process that runs cases one after the other: `python child.py SEED NUMBERS BASE WORK`.

Before each case it prints the number of the case, and after it the result, each as a JSON line. So
the reader knows which case a signal ended. A case that takes long gets a SIGTERM, as from an
operator. If it does not end then, it counts as a hang, and its stacks are printed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import os
import pathlib
import resource
import shutil
import signal
import sys
from typing import Any, NoReturn

# After these seconds, of CPU time or of the clock, a case gets a SIGTERM.
_WORKED, _WAITED = 60, 200

# After these seconds it counts as a hang.
HANGS = 300

# How many bytes a process may use in addition to its memory after importing TensorFlow.
_MEMORY = 6 * 2**30


class _TooLongError(BaseException):
    """SIGTERM came while the program had no handler for it."""


def _ask(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _too_long(*_: Any) -> NoReturn:
    raise _TooLongError("the case went on for too long, and did not end by SIGTERM")


def main(seed: str, numbers: str, base: str, work: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    sys.stdout.reconfigure(encoding="utf-8", errors="strict")  # type: ignore[union-attr]
    import estimator_kit.compat  # noqa: F401
    from tests.integration.fuzz import cases

    _limit_memory()
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, _ask)
    place = pathlib.Path(work)
    hangs = (place.parent / f"{place.name}.stacks").open("w")
    faulthandler.enable(hangs)
    for number in map(int, numbers.split(",")):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        answers.write(json.dumps({"begins": number}) + "\n")
        answers.flush()
        signal.signal(signal.SIGTERM, _too_long)
        signal.setitimer(signal.ITIMER_PROF, _WORKED)
        signal.alarm(_WAITED)
        faulthandler.dump_traceback_later(HANGS, exit=True, file=hangs)
        report = cases.run(seed, number, pathlib.Path(base), place)
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        _forget()
        answers.write(json.dumps({"ended": number, **report}) + "\n")
        answers.flush()
    answers.close()
    os._exit(0)  # Servers of TensorFlow's may be running; see `estimator_kit.main.program`.


def _limit_memory() -> None:
    with contextlib.suppress(OSError, ValueError):
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + _MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _forget() -> None:
    """Resets the state of the process that a command line leaves behind."""
    import tensorflow as tf

    for logger in (logging.getLogger(), logging.getLogger("tensorflow")):
        logger.filters.clear()
        logger.handlers.clear()
    tf.compat.v1.reset_default_graph()


if __name__ == "__main__":
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[3])
    main(*sys.argv[1:])
