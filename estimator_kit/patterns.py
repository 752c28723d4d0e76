"""Regular expressions that someone writes: whether one is one. Imports no TensorFlow."""

from __future__ import annotations

import re
from typing import Optional


def pattern_problem(text: str) -> Optional[str]:
    """What is wrong with a regular expression, as a sentence that quotes it; None for nothing."""
    try:
        re.compile(text)
    except re.error as error:
        return f"{text!r} is no regular expression: {error}"
    return None
