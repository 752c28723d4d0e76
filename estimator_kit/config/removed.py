"""Settings of earlier versions that are constants now, and what to do instead of setting them.

Every `flags.txt` has all settings. One of an earlier version can still be read, unless it gives
such a setting another value than the constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Optional


class Removed(NamedTuple):
    """The constant as `flags.txt` has it, or None if it never had it; and what to do instead."""

    value: Optional[str]
    instead: str


REMOVED: Mapping[str, Removed] = {
    "serving_threads": Removed(
        "16", "16 requests of each protocol run at once. For more, use TensorFlow Serving."
    ),
    "serving_max_request_mib": Removed(
        "16", "A request has at most 16 MiB. Send fewer rows at once, or use TensorFlow Serving."
    ),
    "serving_poll_secs": Removed(
        "1.0",
        "The server looks for versions every second. For TensorFlow Serving, set its flag "
        "--file_system_poll_wait_seconds.",
    ),
    "serving_lame_duck_secs": Removed(
        "5.0",
        "After SIGTERM the server takes requests for 5 more seconds. A second SIGTERM ends it.",
    ),
    "serving_allowed_hosts": Removed(
        None,
        "Only a server on loopback checks names. For other names, give the server an address of "
        "this machine with --serving_host.",
    ),
    "serving_image": Removed(
        None,
        "The image belongs to the installed TensorFlow. Write your own into the copy of "
        "examples/serving that you start.",
    ),
    "serving_batch_timeout_micros": Removed(
        "1000", "A request waits 1000 microseconds for others. Edit batching_parameters.txt."
    ),
}

# An argument for absl, which then ignores these flags.
PASS_OVER = f"--undefok={','.join(REMOVED)}"


def instead(name: str) -> str:
    """What to do instead of a setting that was removed; empty for any other name."""
    if name not in REMOVED:
        return ""
    return f". It was removed. {REMOVED[name].instead}"


def is_constant(name: str, value: str) -> bool:
    """Whether a line of a flagfile gives a removed setting the value that it always has now."""
    return name in REMOVED and value == REMOVED[name].value
