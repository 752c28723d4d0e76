"""How many cores this process may use. It may be bound to fewer cores than the machine has."""

from __future__ import annotations

import os


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
