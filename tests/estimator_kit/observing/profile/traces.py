"""Traces made by hand."""

from __future__ import annotations

from tensorflow.tsl.profiler.protobuf import xplane_pb2

MILLISECOND = 10**9  # Picoseconds.


def trace(**threads: list[tuple[str, int, int]]):
    """An XSpace of threads and their events: name, start and duration in milliseconds."""
    return with_plane(xplane_pb2.XSpace(), "/host:CPU", **threads)


def with_plane(space, plane_name, **lines: list[tuple[str, int, int]]):
    """The XSpace, with one more plane."""
    plane = space.planes.add(name=plane_name)
    numbers: dict[str, int] = {}
    for name, events in lines.items():
        line = plane.lines.add(name=name)
        for event, start, duration in events:
            number = numbers.setdefault(event, len(numbers) + 1)
            plane.event_metadata[number].name = event
            line.events.add(
                metadata_id=number, offset_ps=start * MILLISECOND,
                duration_ps=duration * MILLISECOND,
            )  # fmt: skip
    return space
