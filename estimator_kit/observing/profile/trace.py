"""Reads a trace of TensorFlow's profiler: the events of each thread and each device.

    space = read("runs/ads/plugins/profile/2026_11_23_04_05_06")
    for thread in threads(space):
        for event, own, outer in own_times(thread.events): ...

It only reads. What the events mean is for `input_work` and `costs`.
"""

from __future__ import annotations

import dataclasses
import os
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
        names = {key: found.name for key, found in plane.event_metadata.items()}
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
    for found in (*event.stats, *plane.event_metadata[event.metadata_id].stats):
        if plane.stat_metadata[found.metadata_id].name == _OP_OF_KERNEL:
            return found.str_value or plane.stat_metadata[found.ref_value].name
    return ""
