"""The flags of an Apache Beam pipeline as a user writes them, in one text.

    split("--runner=DataflowRunner --project=ads --experiments='a b'")
    # ("--runner=DataflowRunner", "--project=ads", "--experiments=a b")

Says what can be said without Beam, which `runner.check` asks for the rest. Imports nothing
heavy.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence


class BeamFlagsError(ValueError):
    """Flags that Beam cannot be given; nothing was run."""


def split(text: str) -> tuple[str, ...]:
    """The flags of a text, which are separated by blanks; quotes are those of a shell.

    Raises:
      BeamFlagsError: something is no flag, or --runner is missing. Beam itself would pass over the
        first without a word, and take the second for a run on this machine.
    """
    try:
        flags = tuple(shlex.split(text))
    except ValueError as error:
        raise BeamFlagsError(f"got {text!r}: {error}") from error
    for flag in flags:
        if not flag.startswith("--") or flag.startswith(("--=", "---")) or flag == "--":
            raise BeamFlagsError(f"{flag!r} is no flag; a flag of Beam is --name=value or --name")
    if not value(flags, "runner"):
        raise BeamFlagsError(
            "--runner is missing; say where the pipeline runs, as in --runner=DirectRunner (this "
            "machine) or --runner=DataflowRunner"
        )
    return flags


def value(flags: Sequence[str], name: str) -> str:
    """The value of --name=value, the last one where there are several; empty when there is none."""
    start = f"--{name}="
    return next((flag[len(start) :] for flag in reversed(flags) if flag.startswith(start)), "")


def runs_here(flags: Sequence[str]) -> bool:
    """Whether the pipeline runs on this machine, so that its workers see what is here."""
    runner = value(flags, "runner").rpartition(".")[2].lower().removesuffix("runner")
    return runner in ("direct", "switchingdirect", "bundlebaseddirect", "fnapi", "prism")
