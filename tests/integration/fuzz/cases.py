"""One case: drawn from its seed and number, run, and judged.

A program must end with a status of `exit_codes.MEANING` that does not mean a bug. It must show no
traceback, must not change its input, and must write only into its folder. Anything else is a
problem.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import random
import shutil
import sys
from collections.abc import Iterator
from typing import Any, Optional

from estimator_kit import exit_codes, main
from tests.integration.fuzz import checkpoints, flags, records, specs, tables, tf_configs
from tests.integration.fuzz.place import Drawn, Place

KINDS = {
    "flags": flags.draw, "specs": specs.draw, "records": records.draw, "tables": tables.draw,
    "TF_CONFIG": tf_configs.draw, "checkpoints": checkpoints.draw,
}  # fmt: skip

_TRACEBACK = "Traceback (most recent call last)"


def kind_of(number: int) -> str:
    return list(KINDS)[number % len(KINDS)]


def draw(seed: str, number: int, base: pathlib.Path, work: pathlib.Path) -> tuple[Drawn, Place]:
    """A case, its files in a new folder below `work`."""
    place = Place(base, work / "case")
    shutil.copytree(base / "data", place.folder)
    return KINDS[kind_of(number)](random.Random(f"{seed}/{number}"), place), place


def run(seed: str, number: int, base: pathlib.Path, work: pathlib.Path) -> dict[str, Any]:
    """The result of a case: its `status`, its `problem` or None, and a description."""
    drawn, place = draw(seed, number, base, work)
    kept = digests(place.folder)
    report: dict[str, Any] = {
        "kind": kind_of(number),
        "what": drawn.what,
        "tf_config": drawn.tf_config,
    }
    for arguments in filter(None, (drawn.arguments, drawn.then)):
        status, printed = _run(arguments, place.folder, work, drawn.tf_config)
        problem = _problem(status, printed) or _changed(kept, place.folder) or _beside(work)
        report.update(arguments=list(arguments), status=status, problem=problem)
        if status != 0 or problem is not None:
            break
    return report


def _run(
    arguments: Any, folder: pathlib.Path, work: pathlib.Path, tf_config: Optional[str]
) -> tuple[Any, str]:
    """The exit status or the error of `main`, and the text on standard error."""
    log = work / "stderr.txt"
    with _in(folder, tf_config), _printed_to(log, work / "stdout.txt"):
        try:
            status: Any = main.main(["run.py", *arguments])
        except BaseException as error:  # For example SystemExit, which no caller of main expects.
            status = f"{type(error).__name__}: {error}"
    return status, log.read_text(encoding="utf-8", errors="replace")


@contextlib.contextmanager
def _in(folder: pathlib.Path, tf_config: Optional[str]) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    if tf_config is not None:
        os.environ["TF_CONFIG"] = tf_config
    try:
        yield
    finally:
        os.environ.pop("TF_CONFIG", None)
        os.chdir(before)


@contextlib.contextmanager
def _printed_to(errors: pathlib.Path, output: pathlib.Path) -> Iterator[None]:
    """What Python and C++ print goes into files; what Python still holds of it, too."""
    for number, path in ((1, output), (2, errors)):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(handle, number)
        os.close(handle)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()


def _problem(status: Any, printed: str) -> Optional[str]:
    if not isinstance(status, int) or status not in exit_codes.MEANING or status == exit_codes.BUG:
        return f"exit status {status}\n{printed[-6000:]}"
    if _TRACEBACK in printed:
        return f"exit status {status}, and a traceback\n{printed[-6000:]}"
    return None


def digests(folder: pathlib.Path) -> dict[str, str]:
    """The SHA-256 of each file that a run reads and never writes."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    names = [path.relative_to(folder) for path in files]
    return {
        str(name): hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in zip(names, files)
        if not {"model", "serving"}.intersection(name.parts)
    }


def _changed(kept: dict[str, str], folder: pathlib.Path) -> Optional[str]:
    now = digests(folder)
    changed = [name for name, digest in kept.items() if now.get(name) != digest]
    return f"changed its input: {', '.join(changed)}" if changed else None


def _beside(work: pathlib.Path) -> Optional[str]:
    more = {path.name for path in work.iterdir()} - {"case", "stderr.txt", "stdout.txt"}
    return f"wrote outside its folder: {', '.join(sorted(more))}" if more else None
