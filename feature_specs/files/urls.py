"""Which paths stand for what the user wrote: local copies of what is in stores; see `copies`.

    urls.shown("/data/copies/s3/ads/runs/a: ...")     # s3://ads/runs/a: ...
    urls.stand_for("/cache/records/3fa9/data-*", ["rows/*.parquet"])     # for `given`

People and documents see URLs, the code sees paths. So a document that one machine has written can
be read on another one, whose copies are in another folder. Only changes texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "hdfs")

_URL = re.compile(rf"\b({'|'.join(SCHEMES)})://(?=[\w.-])")

# The folder of the copies, and whether this run uses it. Errors are shown after the end of the run.
_root, _is_used = "", False


# Patterns of files that the kit made, and the patterns of the user that they stand for.
_made: dict[str, tuple[str, ...]] = {}


def stand_for(pattern: str, patterns: Sequence[str]) -> None:
    """Says what a run records instead of a pattern, until the process ends."""
    _made[pattern] = tuple(patterns)


def use(root: str, *, is_used: bool = True) -> None:
    """Says where copies are. Without `is_used`, it only explains paths."""
    global _root, _is_used
    _root, _is_used = root, is_used


def shown(text: str) -> str:
    """A text in which URLs stand for the paths of copies."""
    if not _root or _root not in text:
        return text
    return re.sub(re.escape(_root) + r"(?:/_private/[0-9a-f]+)?/([a-z0-9]+)/", r"\1://", text)


def given(patterns: Iterable[str]) -> list[str]:
    """The patterns of the user in the place of those that the kit made; see `stand_for`.

    The name of a set may be before a pattern, as in `test=/cache/records/3fa9/data-*`.
    """
    texts = []
    for each in patterns:
        made = next((pattern for pattern in _made if each.endswith(pattern)), None)
        name = each.removesuffix(made or "")
        texts += [each] if made is None else [name + pattern for pattern in _made[made]]
    return texts


def localized(text: str) -> str:
    """A text in which the paths of copies stand for URLs, if this run uses copies."""
    if not _is_used or "://" not in text:
        return text
    return _URL.sub(lambda match: f"{_root}/{match[1]}/", text)
