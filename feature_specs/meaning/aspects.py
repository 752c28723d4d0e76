"""Aspects: what a setting, an entry of a spec, or a parameter of a model changes.

    batch_size: int = setting(512, "Rows in ...", changes="training")

An aspect is an arrow of a record's way. With everything to its left fixed, it decides:

    records    what a conversion or a table reader makes, in which file
    rows       which records a training reads, in which order
    values     the tensors of a record: features, labels, weights of labels
    weights    the logits from given variables; who owns each row and column of a variable
    outputs    names, words, order and units of the answers to given logits
    training   the numbers that are found; the steps at which it saves, evaluates and ends
    scores     the metrics of given answers; the rows of an evaluation; what `best` compares
    limits     whether a number is accepted
    nothing    none of these, up to the last bits of sums

A declaration names all arrows that change. A *named* value only points at something, such as a
path or a class: what it points at counts, and not how it is spelled, so whoever compares must
resolve it. This module compares nothing.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

ASPECTS = ("records", "rows", "values", "weights", "outputs", "training", "scores", "limits")
NOTHING = "nothing"


@dataclasses.dataclass(frozen=True)
class Changes:
    """What a declared value changes.

    Attributes:
      aspects: names of `ASPECTS`; none if it changes nothing.
      named: whether the value only points at what counts.
    """

    aspects: frozenset[str]
    named: bool = False


def changes(text: str, *, named: bool = False) -> Changes:
    """The declaration in words: aspects with spaces between them, or `nothing`.

    Raises:
      ValueError: a word is not an aspect, or no word is given.
    """
    words = text.split()
    unknown = [word for word in words if word not in ASPECTS]
    if words == [NOTHING] or (named and not words):
        return Changes(frozenset(), named)
    if unknown or not words or len(set(words)) < len(words):
        raise ValueError(
            f"changes={text!r}: expected {NOTHING!r} or one or more of {', '.join(ASPECTS)}"
        )
    return Changes(frozenset(words), named)


def of_field(field: Any) -> Optional[Changes]:
    """The declaration of a pydantic field, or None."""
    return next((item for item in field.metadata if isinstance(item, Changes)), None)
