"""`retrain --watch`: runs a cycle as soon as a new period is complete.

    watch(cycle, look)

`cycle()` runs one cycle, as the command without `--watch` does: the same files, gate, reports and
errors. `look()` tells which periods are complete, and changes when a cycle could find other data.
This module only decides when a cycle begins. It reads no records, and changes no model.

The first cycle begins at once. The next one begins when `look` differs from what it was before the
last cycle began, so a period that is complete meanwhile is not missed, and a cycle that failed
because of its data, or was refused, is not repeated with the same data. After an error that time
may mend, such as a full disk or another start at work, the cycle is tried again after a minute,
then two, and so on up to ten. An error in the flags, the spec or the packages ends the watch. All
errors are told as the command tells them. `watch_workers` has the processes.

SIGTERM and Ctrl-C end the watch: while it waits, at once and without an error, and in a cycle as
they end a cycle.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from typing import Any, Optional

import tensorflow as tf

from estimator_kit import exit_codes
from estimator_kit.errors import Locked, NothingToDo, Stopped
from estimator_kit.exit_codes import Signalled, until_signalled
from estimator_kit.observing import failures

_log = logging.getLogger("estimator_kit")

# Seconds between two looks, or this many times what a look takes. A look lists folders.
LOOK_SECS = 1.0
_TIMES_A_LOOK = 20
# Seconds until a cycle is tried again after an error that time may mend: the first, and the most.
_AGAIN_SECS, _MOST_SECS = 60.0, 600.0


def watch(
    cycle: Callable[[], object],
    look: Callable[[], Any],
    *,
    most: Optional[int] = None,
    wait: Callable[[Signalled, float], bool] = Signalled.wait,
) -> bool:
    """Runs cycles until a signal comes.

    Args:
      cycle: runs one cycle.
      look: what the data are now, as a value that can be compared.
      most: the most cycles.
      wait: waits some seconds; returns whether a signal has come.

    Returns:
      Whether `most` cycles have run, and no signal has come.

    Raises:
      Stopped: a signal came in a cycle.
      ConfigError: the flags, the spec or the packages have an error; see `exit_codes.BAD_CONFIG`.
    """
    seen: Any = None
    runs, again = True, 0.0
    waited, last_words, count = 0.0, "", 0
    with until_signalled() as ended:
        while not ended.is_set():
            if count == most:
                return True
            begun = time.monotonic()
            now = _looked(look)
            pause = max(LOOK_SECS, _TIMES_A_LOOK * (time.monotonic() - begun))
            if now is not None and now != seen:
                seen, runs, again = now, True, 0.0
            if runs or (again and waited >= again):
                runs, waited, count = False, 0.0, count + 1
                problem = _run(cycle, last_words)
                last_words = str(problem) if problem is not None else ""
                is_temporary = (
                    problem is not None and exit_codes.exit_code(problem) == exit_codes.TEMPORARY
                )
                again = min(_MOST_SECS, again + _AGAIN_SECS) if is_temporary else 0.0
                continue
            if wait(ended, pause):
                break
            waited += pause
    _log.info("the watch has ended")
    return False


def _looked(look: Callable[[], Any]) -> Optional[Any]:
    """What the data are; None if that cannot be told now, as when a mount is gone."""
    try:
        return look()
    except OSError as error:
        _log.warning("the periods could not be listed, so they are listed again later: %s", error)
        return None


def _run(cycle: Callable[[], object], last_words: str) -> Optional[Exception]:
    """Runs a cycle. Returns its error, after it was told, unless it ends the watch."""
    try:
        cycle()
    except Stopped:
        raise
    except NothingToDo as error:
        _log.info("waiting for a new period: %s", error)
    except Locked as error:
        if str(error) != last_words:
            _log.info("waiting for another start: %s", error)
        return error
    except Exception as error:
        if exit_codes.exit_code(error) == exit_codes.BAD_CONFIG:
            raise
        if str(error) != last_words:  # Not every minute.
            failures.tell(error)
        return error
    finally:
        # Event files stay open until their process ends, and graphs are in circles of references.
        tf.compat.v1.summary.FileWriterCache.clear()
        gc.collect()
    return None
