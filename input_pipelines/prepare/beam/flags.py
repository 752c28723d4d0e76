"""Parses the flags of an Apache Beam pipeline, which a user writes as one text.

    split("--runner=DataflowRunner --project=ads --experiments='a b'")
    # ("--runner=DataflowRunner", "--project=ads", "--experiments=a b")

Checks the flags as far as possible without Beam. `runner.check` asks Beam for the rest. Imports
only the standard library.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence


class BeamFlagsError(ValueError):
    """Flags that Beam does not accept. Nothing was run."""


def split(text: str) -> tuple[str, ...]:
    """Splits a text into flags at spaces, with quotes as in a shell.

    Raises:
      BeamFlagsError: a part is not a flag, or --runner is missing. Beam would silently ignore the
        former, and run on this machine without the latter.
    """
    try:
        flags = tuple(shlex.split(text))
    except ValueError as error:
        raise BeamFlagsError(f"got {text!r}: {error}") from error
    for flag in flags:
        if not flag.startswith("--") or flag.startswith(("--=", "---")) or flag == "--":
            raise BeamFlagsError(f"{flag!r} is not a flag. Write it as --name=value or --name")
    if not value(flags, "runner"):
        raise BeamFlagsError(
            "--runner is missing. Name the runner of the pipeline, such as --runner=DirectRunner "
            "(this machine) or --runner=DataflowRunner"
        )
    return flags


def value(flags: Sequence[str], name: str) -> str:
    """The value of the last --name=value; empty if the flag is not given."""
    start = f"--{name}="
    return next((flag[len(start) :] for flag in reversed(flags) if flag.startswith(start)), "")


def runs_here(flags: Sequence[str]) -> bool:
    """Whether the pipeline runs on this machine, so that its workers can read local files."""
    runner = value(flags, "runner").rpartition(".")[2].lower().removesuffix("runner")
    return runner in ("direct", "switchingdirect", "bundlebaseddirect", "fnapi", "prism")
