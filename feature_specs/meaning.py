"""Aspects: what a setting, an entry or a parameter changes; and what each artifact compares.

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
resolve it.

    spec.meaning(meaning.CHECKPOINT.aspects)
    meaning.differences(kept, now)      # ["columns.city.size: was 20, is 30"]

An artifact is what an earlier run wrote and a later run reads. The aspects that it names must be as
they were. All other aspects may change. The page `how_it_works/meaning.md` prints the table `ALL`.
The reader of each artifact compares, and decides what follows from a difference.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
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


_RESULTS = ("rows", "values", "weights", "outputs", "training", "scores")


@dataclasses.dataclass(frozen=True)
class Compared:
    """What an artifact compares.

    Attributes:
      artifact: what it is.
      aspects: names of `aspects.ASPECTS`, of settings, spec and parameters of the model.
      also: what else it compares, because a setting only names it.
      otherwise: what follows from a difference.
    """

    artifact: str
    aspects: tuple[str, ...]
    also: str
    otherwise: str


CHECKPOINT = Compared(
    "A checkpoint: training that goes on, evaluation, prediction, export",
    ("values", "weights"),
    "the columns of each row of a kernel, shapes of variables, words of vocabularies",
    "refused. Train into a new model directory with a warm start, or go back to the old value.",
)
WARM_START = Compared(
    "The source of a warm start",
    ("values", "weights"),
    "shapes of variables",
    "words, classes, columns and objectives are moved by their names; what cannot be moved is "
    "refused, by variable. Another use of the same variables is said.",
)
POSITION = Compared(
    "How far a training has read its files",
    ("rows",),
    "the files, with a sample of their content, the batch size, the number of processes",
    "rows and epochs are counted again from 0.",
)
RESUMED = Compared(
    "A training that goes on",
    ("training",),
    "nothing else",
    "it goes on, and a line in the log names them once.",
)
SCORES = Compared(
    "The history of evaluations, `best`, early stopping, and a finished training",
    ("scores",),
    "the features, labels and filter of the spec, content of the evaluation files",
    "they begin again, and old lines stay. A finished training is evaluated again. Another "
    "`--best_metric` is refused, because `best` has a model of the earlier one.",
)
EXPORTS = Compared(
    "The exports of a finished training",
    ("outputs",),
    "the order of the objectives",
    "written again, without a training. `step` and those whose checkpoint is deleted stay.",
)
ROWS_OF_A_FILE = Compared(
    "The row cache, and what retraining knows of a file",
    ("rows", "values", "limits"),
    "the content of the file, what objectives read and accept as labels, the code of the kit",
    "made again.",
)
CONVERSION = Compared(
    "A conversion that is half done",
    ("records", "values"),
    "the tables with sizes and times, the code of the kit that reads them",
    "refused. Name an empty folder.",
)
CYCLE = Compared(
    "A cycle of retraining",
    _RESULTS,
    "the content of the files of its periods, pretrained vectors, code of the kit and of the model",
    "a new cycle.",
)
VERDICT = Compared(
    "The checks and the gate of a cycle that has not gone live",
    ("limits",),
    "which model is live",
    "checked and judged again, without a training.",
)
LIVE = Compared(
    "The live model at the gate",
    ("outputs",),
    "which version is live",
    "its answers are mapped by words, boundaries, levels and names of objectives; what cannot be "
    "mapped is not judged, and the report says so.",
)
PREDICTIONS = Compared(
    "Predictions that are half done",
    ("records", "outputs"),
    "the export, the files with sizes and times, the code of the kit",
    "refused. Name an empty folder.",
)
SEARCH = Compared(
    "A search",
    # Names of answers do not change the metric of a trial, and a trial is accepted or not.
    ("rows", "values", "weights", "training", "scores"),
    "the data files and pretrained vectors with sizes and times, the code of the model",
    "refused. Search in a new folder.",
)
CLUSTER = Compared(
    "The mark of a cluster that has ended",
    _RESULTS,
    "files, days and model as they are spelled",
    "another goal, so the task waits for its own cluster.",
)
ALL = (
    *(CHECKPOINT, RESUMED, WARM_START, POSITION, SCORES, EXPORTS, ROWS_OF_A_FILE, CONVERSION),
    *(PREDICTIONS, CYCLE, VERDICT, LIVE, SEARCH, CLUSTER),
)


# A value is shortened to this many characters.
_LONGEST = 200


def differences(kept: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """`columns.city.size: was 20, is 30` for each place with two values, in alphabetical order.

    An entry that only one side has is one sentence.
    """
    entries = _entries(kept), _entries(now)
    sentences = []
    for place in sorted({*kept, *now}):
        entry = entry_of(place)
        if entry in entries[0] and entry in entries[1]:
            was, is_now = kept.get(place), now.get(place)
            if was != is_now:
                sentences.append(f"{place}: was {_shown(was)}, is {_shown(is_now)}")
        else:
            was, is_now = (side.get(entry) for side in entries)
            sentence = f"{entry}: was {_shown(was)}, is {_shown(is_now)}"
            if sentence not in sentences:
                sentences.append(sentence)
    return sentences


def entry_of(place: str) -> str:
    """`columns.city` of `columns.city.size`; a setting itself. Names may have dots."""
    first, _, rest = place.partition(".")
    middle, dot, _ = rest.rpartition(".")
    return f"{first}.{middle}" if dot else place


def _entries(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = {}
    for place, value in values.items():
        entry = entry_of(place)
        entries.setdefault(entry, {})[place[len(entry) :].lstrip(".") or place] = value
    return entries


def _shown(value: Any) -> str:
    if value is None:
        return "absent"
    if isinstance(value, Mapping):
        value = {key: each for key, each in value.items() if each not in (None, False, (), [], {})}
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
