"""A trace of TensorFlow's profiler: its events, and where the time of training steps goes.

    space = read("runs/ads/plugins/profile/2026_11_23_04_05_06")
    result = analyze(space, steps=101, seconds=0.8)
    print(text(result))

The three shares of `analyze` divide the time of the steps. A moment in which a device works belongs
to the devices, and otherwise a moment in which the step waits for a batch belongs to the input. The
rest belongs to the host: ops on the CPU, and Python between them. The shares of the ops divide the
time of all ops, summed over threads and streams; ops of the input are left out (see
`training.hooks.profile`). TensorFlow does not trace ops that it takes for cheap.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

PICOSECONDS = 1e-12

# The event of a step's thread that waits until the input has a batch.
WAIT = "IteratorGetNextOp::DoCompute"

_DEVICE = "/device:"
# The statistic of a device's event that names the op, as name:type.
_OP_OF_KERNEL = "tf_op"
# Lines of a device that TensorFlow computes from its other lines.
_DERIVED = ("Steps", "XLA Modules", "XLA Ops", "TensorFlow Name Scope", "TensorFlow Ops")


class Event(NamedTuple):
    """Something that happened, from `start` on, in picoseconds."""

    name: str
    start: int
    duration: int

    @property
    def end(self) -> int:
        return self.start + self.duration


@dataclasses.dataclass(frozen=True)
class Thread:
    """The events of a thread of this machine, or of a stream of a device.

    Attributes:
      device: the device, such as `GPU:0`; empty for a thread.
      name: the name of the thread or stream.
      events: on a device, an event has the name of the op that started it, if that is known.
    """

    device: str
    name: str
    events: Sequence[Event]

    @property
    def of_input(self) -> bool:
        """Whether it makes batches."""
        return self.name.startswith("tf_data")


def read(folder: str) -> Any:
    """The XSpace of all traces in a folder."""
    space = xplane_pb2.XSpace()
    for name in sorted(tf.io.gfile.listdir(folder)):
        if name.endswith(".xplane.pb"):
            with tf.io.gfile.GFile(os.path.join(folder, name), "rb") as file:
                space.MergeFromString(file.read())
    return space


def threads(space: Any) -> Iterator[Thread]:
    """The threads and streams of an XSpace."""
    for plane in space.planes:
        is_device = plane.name.startswith(_DEVICE)
        names = {key: metadata.name for key, metadata in plane.event_metadata.items()}
        for line in plane.lines:
            if is_device and line.name in _DERIVED:
                continue
            base = line.timestamp_ns * 1000
            events = [
                Event(
                    (_op(plane, event) if is_device else "") or names[event.metadata_id],
                    base + event.offset_ps,
                    event.duration_ps,
                )
                for event in line.events
            ]
            yield Thread(plane.name.removeprefix(_DEVICE) if is_device else "", line.name, events)


def own_times(events: Iterable[Event]) -> Iterator[tuple[Event, int, list[str]]]:
    """Each event of a thread with its own time and the names of the events around it.

    Its own time, in picoseconds, leaves out the events inside it. The names start with the
    outermost event.
    """
    order = sorted(events, key=lambda event: (event.start, -event.duration))
    own = [event.duration for event in order]
    around: list[list[str]] = []
    open_now: list[int] = []
    for i, event in enumerate(order):
        while open_now and order[open_now[-1]].end <= event.start:
            open_now.pop()
        if open_now:
            own[open_now[-1]] -= event.duration
        around.append([order[outer].name for outer in open_now])
        open_now.append(i)
    yield from zip(order, own, around)


def _op(plane: Any, event: Any) -> str:
    """The op that started a kernel of a device, as name:type; empty if the trace has none."""
    for stat in (*event.stats, *plane.event_metadata[event.metadata_id].stats):
        if plane.stat_metadata[stat.metadata_id].name == _OP_OF_KERNEL:
            result: str = stat.str_value or plane.stat_metadata[stat.ref_value].name
            return result
    return ""


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
    parts = _OP.fullmatch(name)
    return (place, parts[2], parts[1]) if parts is not None else (place, "kernel", name)


def _shares(waiting: Iterable[Event], working: Iterable[Event], seconds: float) -> dict[str, float]:
    working = list(working)
    device = _covered(working)
    either = _covered([*working, *waiting])
    total = seconds / PICOSECONDS
    if not total:
        return {"input": 0.0, "host": 0.0, "device": 0.0}
    device_share = min(1.0, device / total)
    input_share = min(1.0 - device_share, (either - device) / total)
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
