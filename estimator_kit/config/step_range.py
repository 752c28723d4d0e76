"""Steps of a training, as in `--profile=100..200` or `--profile=auto`. Imports no TensorFlow."""

from __future__ import annotations

import re

# A trace of more steps is too large to look at.
_MOST = 1000

# The steps of `auto`: the first ten fill buffers and caches.
AUTO = range(11, 111)


def parse(text: str) -> range:
    """The steps of a range, first to last, both included.

    Raises:
      ValueError: the text is not a range of steps; the message says what was expected.
    """
    if text == "auto":
        return AUTO
    match = re.fullmatch(r"\s*(\d{1,18})\.\.(\d{1,18})\s*", text)
    if match is None:
        raise ValueError(
            f"expected a first and a last step, such as 100..200, or auto, got {text!r}"
        )
    first, last = int(match[1]), int(match[2])
    if not 1 <= first <= last:
        raise ValueError(
            f"expected a first step of at least 1 and a last step that is not before it, got "
            f"{text!r}"
        )
    if last - first + 1 > _MOST:
        raise ValueError(f"expected at most {_MOST:,} steps, got {last - first + 1:,} ({text!r})")
    return range(first, last + 1)
