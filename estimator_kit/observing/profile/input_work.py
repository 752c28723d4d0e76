"""How long training steps wait for input, and which stage of the input is busiest.

    result = analyze(space, steps=100, seconds=0.8)
    print(text(result))

It computes the working time of each stage from a trace, without the time in which the stage waited
for another one.
"""

from __future__ import annotations

from typing import Any, Optional

from estimator_kit.observing.profile.trace import PICOSECONDS, WAIT, own_times, threads
from estimator_kit.result import InputProfile

READING, SHUFFLING, PARSING = "reading files", "shuffling and batching", "parsing and transforming"

_ADVICE = {
    READING: "write the data to more files, without GZIP, use a faster disk, or read with several "
    "machines (--data_service)",
    SHUFFLING: "raise --batch_size, or store the rows in random order "
    "(--mode=convert --convert_order=shuffled) and read with --noshuffle",
    PARSING: "use more cores, raise --batch_size, list features that the model does not need under "
    "`ignored` in the spec, cache transformed rows for later epochs and runs (--input_cache_dir), "
    "or parse on several machines (--data_service)",
}
_MODEL = "the model takes longer than its input: a faster input would save at most {:.0%} of a step"


def analyze(space: Any, *, steps: int, seconds: float, trace: Optional[str] = None) -> InputProfile:
    """Computes the waiting time and the work of the input from a trace.

    Args:
      space: an XSpace of the profiler.
      steps: how many steps the trace covers.
      seconds: how long these steps took.
      trace: the folder of the trace.
    """
    waited, busy = 0.0, {READING: 0.0, SHUFFLING: 0.0, PARSING: 0.0}
    for thread in threads(space):
        for event, own, around in own_times(thread.events):
            if event.name == WAIT:
                waited += event.duration * PICOSECONDS
            stage = _stage(event.name, around) if thread.of_input else None
            if stage is not None:
                busy[stage] += own * PICOSECONDS
    share = min(1.0, waited / seconds) if seconds else 0.0
    busiest = max(busy, key=lambda stage: busy[stage]) if any(busy.values()) else None
    advice = _MODEL.format(share) if share < 0.5 or busiest is None else _ADVICE[busiest]
    return InputProfile(
        steps=steps,
        seconds_a_step=seconds / steps if steps else 0.0,
        share_waiting=share,
        busy_seconds=busy,
        busiest=busiest,
        advice=advice,
        trace=trace,
    )


def text(result: InputProfile) -> str:
    """The lines that are printed."""
    total = sum(result.busy_seconds.values())
    lines = [
        f"input of {result.steps} steps: a step takes {1000 * result.seconds_a_step:.2f} ms "
        f"and waits for a batch {result.share_waiting or 0:.0%} of that time"
    ]
    for stage, seconds in sorted(result.busy_seconds.items(), key=lambda item: -item[1]):
        lines.append(f"  {stage:<26} {seconds / total if total else 0:>4.0%} of the input's work")
    return "\n".join([*lines, f"  {result.advice}"])


def _stage(name: str, around: list[str]) -> Optional[str]:
    """The stage that does the work of an event. None if the event waits or only starts others."""
    if name.startswith("Iterator::"):
        last = name.rpartition("::")[2]
        if "TFRecord" in last:
            return READING
        if "Interleave" in name:  # Cuts one file into blocks, and alternates between files.
            return READING if last.startswith("Batch") else None
        return SHUFFLING if last.startswith(("Rebatch", "Shuffle", "Batch")) else None
    _, colon, op = name.rpartition(":")
    if not colon or name.endswith("::") or "::" in name:
        return None
    if any("TFRecord" in outer or "Interleave" in outer for outer in around):
        return READING
    return SHUFFLING if "Shuffle" in op else PARSING
