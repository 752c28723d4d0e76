"""Runs batches of cases in child processes. If a case ends its process, the next one continues.

reports = batches.run("1", range(0, 200), base, work)
"""

from __future__ import annotations

import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from tests.conftest import ROOT
from tests.integration.fuzz import cases, child

# The number of cases of one process. It is limited, because TensorFlow keeps memory of each graph.
_BATCH = 100

# How many seconds a child may print nothing. It normally ends itself before that.
_SILENCE = child.HANGS + 120


def run(
    seed: str, numbers: Sequence[int], base: pathlib.Path, work: pathlib.Path
) -> Iterator[dict[str, Any]]:
    """The result of each case, in order; see `cases.run`."""
    left = list(numbers)
    while left:
        batch = left[:_BATCH]
        begun: Optional[int] = None
        process = _start(seed, batch, base, work)
        with process:
            for line in _lines(process):
                said = json.loads(line)
                begun = said.get("begins")
                if begun is None:
                    left.remove(said["ended"])
                    yield said
            code = process.wait()
        if begun is not None:
            left.remove(begun)
            yield _killed(seed, begun, code, base, work)
        elif batch[-1] in left:
            printed = _tail(work, "child")
            raise AssertionError(f"a child ended with {code} between two cases\n{printed}")


def _start(seed: str, batch: Sequence[int], base: pathlib.Path, work: pathlib.Path) -> Any:
    work.parent.mkdir(parents=True, exist_ok=True)
    variables = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    numbers = ",".join(map(str, batch))
    with (work.parent / f"{work.name}.child").open("w") as log:
        return subprocess.Popen(
            [sys.executable, child.__file__, seed, numbers, str(base), str(work)],
            cwd=ROOT, env={**variables, "TF_CPP_MIN_LOG_LEVEL": "3"}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip


def _lines(process: Any) -> Iterator[str]:
    while True:
        ready, _, _ = select.select([process.stdout], [], [], _SILENCE)
        line = process.stdout.readline() if ready else ""
        if not ready:
            process.kill()
        if not line:
            return
        yield line


def _killed(
    seed: str, number: int, code: int, base: pathlib.Path, work: pathlib.Path
) -> dict[str, Any]:
    """The report of a case that ended its process."""
    errors = work / "stderr.txt"
    printed = errors.read_text(errors="replace")[-2000:] if errors.exists() else ""
    stacks = _tail(work, "stacks")
    how = f"signal {-code}" if code < 0 else f"exit status {code}"
    how = "hung" if "Timeout (" in stacks else how
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    drawn, _ = cases.draw(seed, number, base, work)
    return {
        "ended": number,
        "kind": cases.kind_of(number),
        "what": drawn.what,
        "tf_config": drawn.tf_config,
        "arguments": [*drawn.arguments, *(("then", *drawn.then) if drawn.then else ())],
        "status": how,
        "problem": f"the process ended: {how}\n{printed}\n{stacks}",
    }


def _tail(work: pathlib.Path, what: str) -> str:
    path = work.parent / f"{work.name}.{what}"
    return path.read_text(errors="replace")[-6000:] if path.exists() else ""


def table(reports: Sequence[dict[str, Any]]) -> str:
    """For each kind of input, the number of cases and of each exit status."""
    by_kind: dict[str, Counter[Any]] = defaultdict(Counter)
    for report in reports:
        by_kind[report["kind"]][report["status"]] += 1
    lines = ["kind         cases  exit statuses"]
    for kind, statuses in by_kind.items():
        counts = [f"{status}: {count}" for status, count in sorted(statuses.items(), key=str)]
        lines.append(f"{kind:<12} {sum(statuses.values()):>5}  {'  '.join(counts)}")
    return "\n".join(lines)


def sentence(report: dict[str, Any], seed: str) -> str:
    """Describes a failed case, and how to run it alone."""
    config = f"\nTF_CONFIG={report['tf_config']!r}" if report["tf_config"] is not None else ""
    return (
        f"seed {seed}, case {report['ended']} ({report['kind']}): {report['what'][:1000]}{config}\n"
        f"run.py {' '.join(map(repr, report['arguments']))}\n{report['problem']}\n"
        f"by itself: FUZZ_SEED={seed} FUZZ_CASE={report['ended']} python -m pytest "
        "tests/integration/test_fuzz.py"
    )
