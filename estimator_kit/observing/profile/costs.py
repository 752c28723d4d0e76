"""Where the time of training steps goes: input, host and devices, and the most expensive ops.

    result = analyze(space, steps=101, seconds=0.8)
    print(text(result))

The three shares divide the time of the steps. A moment in which a device works belongs to the
devices, and otherwise a moment in which the step waits for a batch belongs to the input. The rest
belongs to the host: ops on the CPU, and Python between them. The shares of the ops divide the time
of all ops, summed over threads and streams; ops of the input are left out, because `input_work`
counts them. TensorFlow does not trace ops that it takes for cheap.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from estimator_kit.observing.profile.trace import PICOSECONDS, WAIT, Event, own_times, threads

# How many ops are listed.
MOST_OPS = 10

HOST = "host"

# The event of an op: its name and its type. Events of TensorFlow's own code contain `::`.
_OP = re.compile(r"([^:]+):([A-Za-z_]\w*)")


def analyze(space: Any, *, steps: int, seconds: float) -> dict[str, Any]:
    """Computes the shares of input, host and devices, and the most expensive ops.

    Args:
      space: an XSpace of the profiler.
      steps: how many steps the trace covers.
      seconds: how long these steps took.

    Returns:
      `steps`, `seconds_a_step`, `shares` (`input`, `host` and `device`; their sum is 1), `ops` (for
      each, `name`, `type`, `place`, `seconds` over all steps, and `share`), `other_ops` (how many
      ops are not listed) and `other_share`. The shares of the ops and `other_share` add up to 1.
    """
    spent: dict[tuple[str, str, str], int] = defaultdict(int)
    waiting: list[Event] = []
    working: list[Event] = []
    for thread in threads(space):
        waiting += [event for event in thread.events if event.name == WAIT]
        if thread.device:
            working += thread.events
        if thread.of_input:
            continue
        events = [event for event in thread.events if thread.device or _OP.fullmatch(event.name)]
        for event, own, _ in own_times(events):
            spent[_named(event.name, thread.device or HOST)] += own
    total = sum(spent.values())
    order = sorted(spent.items(), key=lambda item: (-item[1], item[0]))
    ops = [
        {
            "name": name, "type": kind, "place": place, "seconds": own * PICOSECONDS,
            "share": own / total if total else 0.0,
        }
        for (place, kind, name), own in order[:MOST_OPS]
    ]  # fmt: skip
    others = sum(own for _, own in order[MOST_OPS:])
    return {
        "steps": steps,
        "seconds_a_step": seconds / steps if steps else 0.0,
        "shares": _shares(waiting, working, seconds),
        "ops": ops,
        "other_ops": len(order) - len(ops),
        "other_share": others / total if total else 0.0,
    }


def text(result: dict[str, Any]) -> str:
    """The lines that are printed."""
    shares, steps = result["shares"], max(1, result["steps"])
    lines = [
        f"profile of {result['steps']} steps: a step takes {1000 * result['seconds_a_step']:.2f} "
        f"ms: {shares['input']:.0%} waits for input, {shares['host']:.0%} works on the host, "
        f"{shares['device']:.0%} works on devices",
        "the most expensive ops, summed over threads:",
    ]
    for op in result["ops"]:
        each = f"{1000 * op['seconds'] / steps:>9.3f} ms a step"
        place = "" if op["place"] == HOST else f"  on {op['place']}"
        lines.append(f"  {op['share']:>4.0%} {each}  {op['type']}  {op['name']}{place}")
    if result["other_ops"]:
        lines.append(f"  {result['other_share']:>4.0%} {'':>19}  {result['other_ops']} other ops")
    return "\n".join(lines)


def _named(name: str, place: str) -> tuple[str, str, str]:
    """(place, type, name) of an event; a kernel without an op has the type `kernel`."""
    found = _OP.fullmatch(name)
    return (place, found[2], found[1]) if found is not None else (place, "kernel", name)


def _shares(waiting: Iterable[Event], working: Iterable[Event], seconds: float) -> dict[str, float]:
    working = list(working)
    device = _covered(working)
    either = _covered([*working, *waiting])
    whole = seconds / PICOSECONDS
    if not whole:
        return {"input": 0.0, "host": 0.0, "device": 0.0}
    device_share = min(1.0, device / whole)
    input_share = min(1.0 - device_share, (either - device) / whole)
    return {
        "input": input_share,
        "host": 1.0 - device_share - input_share,
        "device": device_share,
    }


def _covered(events: Iterable[Event]) -> int:
    """The picoseconds in which at least one of the events runs."""
    covered, until = 0, 0
    for event in sorted(events, key=lambda event: event.start):
        covered += max(0, event.end - max(event.start, until))
        until = max(until, event.end)
    return covered
