"""Shared by the benchmarks: measures ways of doing the same in turn, and prints their ratios.

The benchmarks print one JSON line for each measurement. A ratio above 1 means that ours is better.
The ways are measured in turn (A B A B ...), and each round has a ratio, so that other work on the
machine affects both sides. The line has the median of these ratios, and the least and the most:

    {"name": "...", "unit": "rows/s", "ours": 30100, "peer": 15000,
     "ratio": 2.01, "least": 1.94, "most": 2.07,
     "cpu": {"unit": "us a row", "ours": 47, "peer": 110, "ratio": 2.34, ...}}

`cpu` is the time of the processor, of all threads. It is less than the time of the clock times the
cores if threads wait, and other programs change it less. With `started`, each side is a
separate process, so none has the threads and the memory of another one.
"""

from __future__ import annotations

import contextlib
import functools
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

# Batches that warm up pipeline, caches and allocator before the clock starts.
WARM_UP = 20


class Measured(NamedTuple):
    """What one round measured: a value, and the microseconds of the processor for each row."""

    value: float
    cpu_us: float


Measure = Callable[[], Union[float, Measured]]


def compare(
    name: str,
    ours: Measure,
    peer: Measure,
    *,
    rounds: int,
    unit: str,
    less_is_better: bool = False,
) -> None:
    """Measures both `rounds` times in turn, after one round that is not counted, and prints."""
    measured = in_turn({"ours": ours, "peer": peer}, rounds)
    report(name, measured["ours"], measured["peer"], unit, less_is_better)


def in_turn(
    ways: Mapping[str, Measure], rounds: int, *, not_counted: int = 1
) -> dict[str, list[Any]]:
    """What each way measures in `rounds` rounds, after some that are not counted."""
    measured: dict[str, list[Any]] = {name: [] for name in ways}
    for round_ in range(not_counted + rounds):
        for name, measure in ways.items():
            value = measure()
            if round_ >= not_counted:
                measured[name].append(value)
    return measured


def report(
    name: str,
    ours: Sequence[Union[float, Measured]],
    peer: Sequence[Union[float, Measured]],
    unit: str,
    less_is_better: bool = False,
) -> None:
    """Prints one measurement: what the rounds measured of both sides."""
    line = {"name": name, **_compared(unit, _values(ours), _values(peer), less_is_better)}
    if isinstance(ours[0], Measured) and isinstance(peer[0], Measured):
        cpu = ([each.cpu_us for each in side] for side in (ours, peer))
        line["cpu"] = _compared("us a row", *cpu, less_is_better=True)
    print(json.dumps(line), flush=True)


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median, the least and the most, as a ratio is printed."""
    numbers = {"ratio": statistics.median(values), "least": min(values), "most": max(values)}
    return {name: round(value, 2) for name, value in numbers.items()}


def _values(side: Sequence[Union[float, Measured]]) -> list[float]:
    return [each.value if isinstance(each, Measured) else each for each in side]


def _compared(
    unit: str, ours: list[float], peer: list[float], less_is_better: bool
) -> dict[str, Any]:
    ratios = [b / a if less_is_better else a / b for a, b in zip(ours, peer)]
    medians = {"ours": statistics.median(ours), "peer": statistics.median(peer)}
    return {"unit": unit, **{name: _rounded(value) for name, value in medians.items()},
            **spread(ratios)}  # fmt: skip


def _rounded(value: float) -> float:
    return round(value) if value >= 100 else float(f"{value:.3g}")


@contextlib.contextmanager
def started(sides: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Measure]]:
    """Starts a process for each side, and returns a function for each that measures a round.

    Args:
      sides: the arguments of Python for each side. Its program uses `Turns`.
    """
    processes = {
        name: subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name, arguments in sides.items()
    }  # fmt: skip

    def measure(process: subprocess.Popen[str]) -> Measured:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("next\n")
        process.stdin.flush()
        for line in process.stdout:
            if line.startswith("["):  # Libraries print, too.
                return Measured(*json.loads(line))
        raise SystemExit(f"{process.args}: exit status {process.wait()}")

    try:
        yield {name: functools.partial(measure, process) for name, process in processes.items()}
    finally:
        for process in processes.values():
            process.communicate()  # A side ends when its standard input does.


def cpu_of(command: Sequence[str]) -> float:
    """Runs a program; the CPU seconds of its process and children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command}: exit status {done.returncode}\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rows_a_second(rows: int, *commands: Sequence[str]) -> Measured:
    """Rows a second of programs that run one after the other, with their starts."""
    start = time.perf_counter()
    cpu = sum(map(cpu_of, commands))
    return Measured(rows / (time.perf_counter() - start), cpu / rows * 1e6)


class Turns:
    """In the process of a side: counts steps, measures rounds of them, and waits between rounds.

    Call `step` after each step, until `over`. A round has `WARM_UP` steps before its clock starts,
    because buffers are full after a wait.
    """

    def __init__(self, steps: int, rows_a_step: int) -> None:
        self._steps, self._rows, self._done = steps, steps * rows_a_step, 0
        self._start: Optional[tuple[float, float]] = None
        self.over = not sys.stdin.readline()

    def step(self) -> None:
        self._done += 1
        if self._done == WARM_UP:
            self._start = (time.perf_counter(), time.process_time())
        elif self._done == WARM_UP + self._steps:
            assert self._start is not None
            seconds = time.perf_counter() - self._start[0]
            cpu = time.process_time() - self._start[1]
            print(json.dumps([self._rows / seconds, cpu / self._rows * 1e6]), flush=True)
            self._done, self.over = 0, not sys.stdin.readline()
