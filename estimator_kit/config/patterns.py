"""Regular expressions that someone writes: whether one is one. Imports no TensorFlow."""

from __future__ import annotations

import re
from typing import Annotated, Optional

import pydantic


def pattern_problem(text: str) -> Optional[str]:
    """What is wrong with a regular expression, as a sentence that quotes it; None for nothing."""
    try:
        re.compile(text)
    except re.error as error:
        return f"{text!r} is not a regular expression: {error}"
    return None


def _pattern(text: str) -> str:
    problem = pattern_problem(text)
    if problem is not None:
        raise ValueError(problem)
    return text


# A regular expression that a variable's name must begin with, as a field of a pydantic model.
Prefix = Annotated[str, pydantic.AfterValidator(_pattern)]
