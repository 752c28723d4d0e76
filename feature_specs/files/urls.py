"""Which paths stand for what the user wrote: local copies of what is in stores; see `copies`.

    urls.shown("/data/copies/s3/ads/runs/a: ...")     # s3://ads/runs/a: ...
    urls.stand_for("/cache/records/3fa9/data-*", "rows/*.parquet")     # for `given`

People and documents see URLs, the code sees paths. So a document that one machine has written can
be read on another one, whose copies are in another folder. Only changes texts.
"""

from __future__ import annotations

import re

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "hdfs")

_URL = re.compile(rf"\b({'|'.join(SCHEMES)})://(?=[\w.-])")

# The folder of the copies, and whether this run uses it. Errors are shown after the end of the run.
_root, _is_used = "", False


# Patterns of files that the kit made, and the patterns of the user that they stand for.
_made: dict[str, str] = {}

# What can be in the place of a pattern in a document, a flagfile and a list of flags.
_PLAIN = re.compile(r"[ !#-+\--\[\]-~]+(,[ !#-+\--\[\]-~]+)*")


def stand_for(pattern: str, text: str) -> None:
    """Says what a run records instead of a pattern, until the process ends.

    Texts that would need quotes in a document or a list of flags are never in its place.
    """
    if _PLAIN.fullmatch(text):
        _made[pattern] = text


def use(root: str, *, is_used: bool = True) -> None:
    """Says where copies are. Without `is_used`, it only explains paths."""
    global _root, _is_used
    _root, _is_used = root, is_used


def shown(text: str) -> str:
    """A text in which URLs stand for the paths of copies."""
    if not _root or _root not in text:
        return text
    return re.sub(re.escape(_root) + r"(?:/_private/[0-9a-f]+)?/([a-z0-9]+)/", r"\1://", text)


def given(text: str) -> str:
    """A text with the patterns of the user; see `stand_for`."""
    for pattern, of_user in _made.items():
        text = text.replace(pattern, of_user)
    return text


def localized(text: str) -> str:
    """A text in which the paths of copies stand for URLs, if this run uses copies."""
    if not _is_used or "://" not in text:
        return text
    return _URL.sub(lambda match: f"{_root}/{match[1]}/", text)
