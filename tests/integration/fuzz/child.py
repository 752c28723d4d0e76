"""A process that runs cases one after the other: `python child.py SEED NUMBERS BASE WORK`.

It says the number of a case before it begins it, and what came of it after, a JSON line each. So
whoever reads it knows which case a signal ended. A case that goes on for long is asked to end as an
operator would ask, by SIGTERM; one that does not end by that either is a hang, whose stacks are
printed.
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

# Seconds of its processor, and of the clock, after which a case is asked to end.
_WORKED, _WAITED = 60, 200

# Seconds after which it is a hang.
HANGS = 300

# Bytes that a process may take beyond those that it has when TensorFlow is there.
_MEMORY = 6 * 2**30


class _TooLongError(BaseException):
    """SIGTERM came where nothing was prepared for it."""


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
    """What a command line leaves in the process, and the next one would not find in a new one."""
    import tensorflow as tf

    for logger in (logging.getLogger(), logging.getLogger("tensorflow")):
        logger.filters.clear()
        logger.handlers.clear()
    tf.compat.v1.reset_default_graph()


if __name__ == "__main__":
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[3])
    main(*sys.argv[1:])
