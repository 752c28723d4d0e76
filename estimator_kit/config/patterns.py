"""Checks regular expressions that a user writes. Imports no TensorFlow."""

from __future__ import annotations

import re
from typing import Annotated, Optional

import pydantic


def pattern_problem(text: str) -> Optional[str]:
    """What is wrong with a regular expression, as a sentence; None if it is valid."""
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


# A field of a pydantic model: a regular expression for the start of a variable's name.
Prefix = Annotated[str, pydantic.AfterValidator(_pattern)]
