"""Says what is wrong from TensorFlow's errors. Imports no TensorFlow.

    with tensorflow_errors.as_export_error(f"--export_dir={path} does not load"):
        loaded = tf.saved_model.load(path)

A session writes up to thirty lines, with the reason between the op that failed and the place where
the op was made. The code that reads a damaged graph expects a complete one, so it can raise any
type of error.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator

from estimator_kit import exit_codes
from estimator_kit.errors import ExportError

# The most characters of a line in a log.
_MOST = 400


def reason(error: BaseException) -> str:
    """The reason in at most 400 characters; empty if the error has no message."""
    text = str(error).splitlines()
    lines = [line.strip() for line in text if line.strip()]
    # A wrapped error has several of these lines; the first reason follows the last one.
    nodes = [i for i, line in enumerate(lines[:-1]) if line.startswith("Node: '")]
    if not nodes:
        lines = [line.strip() for line in _without_trace(text) if line.strip()]
        # The error of an op in the body of a condition or a loop has no trace.
        if lines[:1] == ["Graph execution error:"] and lines[1:2] and "Detected" not in lines[1]:
            lines = lines[1:]
    chosen = lines[nodes[-1] + 1] if nodes else next(iter(lines), "")
    if nodes and re.fullmatch(r"\d+ root error\(s\) found\.", chosen):
        chosen = next(iter(lines[nodes[-1] + 2 :]), chosen)
    return re.sub(r"^(\{\{.*?\}\} )+|^\(0\) ", "", chosen)[:_MOST]


def _without_trace(lines: list[str]) -> list[str]:
    """The lines of an error of a function, without those that say where its ops were defined.

    Graph execution error:

    Detected at node save/RestoreV2 defined at (most recent call last):
      File "program.py", line 9, in <module>

    Read less bytes than requested
    """
    starts = [i for i, line in enumerate(lines) if line.startswith("Detected at node ")]
    if not starts:
        return lines
    rest = lines[starts[-1] + 1 :]
    trace = itertools.takewhile(lambda line: line[:2] in ("", "  ", "<s"), rest)
    return rest[len(list(trace)) :] or lines


@contextlib.contextmanager
def as_export_error(
    sentence: str, errors: tuple[type[Exception], ...] = (Exception,)
) -> Iterator[None]:
    """Raises ExportError in place of these errors, except those with their own exit status.

    Args:
      sentence: what the export cannot do; the message continues with the reason.
      errors: the types of errors. Use the default only for blocks that do nothing but load.
    """
    try:
        yield
    except errors as error:
        if exit_codes.exit_code(error) != exit_codes.BUG:
            raise
        said = reason(error) or type(error).__name__
        said = said.rstrip(".")
        raise ExportError(f"{sentence}: {said}. Use another version, or export again.") from error
