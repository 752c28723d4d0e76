"""How an error is told to people: one message, and a traceback only for a bug.

status = failures.tell(error)       # On standard error, in the form that `console` uses.
"""

from __future__ import annotations

import traceback

from estimator_kit import exit_codes
from estimator_kit.errors import NothingToDo, Refused
from estimator_kit.observing import console
from input_pipelines.errors import first_line


def tell(error: Exception) -> int:
    """Writes what went wrong, and returns the exit status for it."""
    code = exit_codes.exit_code(error)
    if code == exit_codes.BUG:
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        console.complain("".join(lines).rstrip("\n"))
    else:
        kind = "nothing to do" if isinstance(error, NothingToDo) else "error"
        kind = "refused" if isinstance(error, Refused) else kind
        console.complain(f"{kind}: {_words(error)}")
    return code


def _words(error: Exception) -> str:
    """The text of an error; for a TensorFlow error, without nodes and stacks."""
    if not hasattr(error, "node_def"):
        return str(error)
    return first_line(error)
