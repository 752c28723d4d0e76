"""Which paths stand for URLs: local copies of what is in stores; see `copies`.

    urls.shown("/data/copies/s3/ads/runs/a: ...")     # s3://ads/runs/a: ...

People and documents see URLs, the code sees paths. So a document that one machine has written can
be read on another one, whose copies are in another folder. Only changes texts.
"""

from __future__ import annotations

import re

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "hdfs")

_URL = re.compile(rf"\b({'|'.join(SCHEMES)})://(?=[\w.-])")

# The folder of the copies, and whether this run uses it. Errors are shown after the end of the run.
_root, _is_used = "", False


def use(root: str, *, is_used: bool = True) -> None:
    """Says where copies are. Without `is_used`, it only explains paths."""
    global _root, _is_used
    _root, _is_used = root, is_used


def shown(text: str) -> str:
    """A text in which URLs stand for the paths of copies."""
    if not _root or _root not in text:
        return text
    return re.sub(re.escape(_root) + r"(?:/_private/[0-9a-f]+)?/([a-z0-9]+)/", r"\1://", text)


def localized(text: str) -> str:
    """A text in which the paths of copies stand for URLs, if this run uses copies."""
    if not _is_used or "://" not in text:
        return text
    return _URL.sub(lambda match: f"{_root}/{match[1]}/", text)
