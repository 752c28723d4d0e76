"""Whether a machine computes fast in 16 bits: a warning, because --mixed_precision works anywhere.

for sentence in doubts("bfloat16"): ...
"""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

# Instructions of a CPU that multiply in 16 bits, by type, as Linux names them.
_INSTRUCTIONS = {
    "bfloat16": ("amx_bf16", "avx512_bf16"),
    "float16": ("amx_fp16", "avx512_fp16"),
}


def doubts(precision: str, *, gpus: int, flags: frozenset[str]) -> Iterator[str]:
    """Why `precision` is not faster on a machine, if so.

    Args:
      precision: `bfloat16` or `float16`.
      gpus: how many GPUs the machine has.
      flags: the instructions that its CPU has.
    """
    needed = _INSTRUCTIONS[precision]
    if not gpus and not flags.intersection(needed):
        yield (
            f"--mixed_precision={precision}: this machine has no GPU, and its CPU has no "
            f"instructions for {precision} ({', '.join(needed)}). Training will probably be slower "
            "than without the flag."
        )


def of_this_machine(precision: str) -> Iterator[str]:
    """`doubts` for this machine."""
    gpus = len(tf.config.list_physical_devices("GPU"))
    return doubts(precision, gpus=gpus, flags=cpu_flags())


def cpu_flags(path: str = "/proc/cpuinfo") -> frozenset[str]:
    """The instructions of the CPU; empty where the system does not list them."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                name, colon, flags = line.partition(":")
                if colon and name.strip() in ("flags", "Features"):
                    return frozenset(flags.split())
    except OSError:
        pass
    return frozenset()
