"""Messages about a model of a test, without the place that they begin with."""

from __future__ import annotations

import re


def without_place(error, *methods):
    """The text of an error without `file:line: `, and without `Class.method: ` of some methods."""
    names = rf"(\w+\.({'|'.join(methods)}): )?" if methods else ""
    return re.sub(rf"^\S+\.py:\d+: {names}", "", str(error))
