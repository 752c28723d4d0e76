"""Runs tensorflow-estimator's own tests on several TensorFlows and compares the outcomes.

    python tools/run_estimator_tests.py CHECKOUT --python .venv/tf2.15-py3.11/bin/python \\
        --python .venv/tf2.21-py3.13/bin/python

CHECKOUT is a checkout of tensorflow-estimator's source at its tag v2.15.0, for its *_test.py files
(later ones import names that the package does not have), or a folder or file of it. What they test
is the package of each Python. Each file runs in a separate process, with
`import estimator_kit.compat` first. Prints the number of tests that passed on each Python and every
test whose outcome differs, with the error; docs/guides/longevity.md has a reason for each. The exit
status is 1 when a test that passed on the first Python did not on another, or a file crashed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# Names that Python 3.12 took from unittest; the tests are older.
_OLD_NAMES = {
    "assert_": "assertTrue",
    "assertAlmostEquals": "assertAlmostEqual",
    "assertEquals": "assertEqual",
    "assertNotEquals": "assertNotEqual",
    "assertRaisesRegexp": "assertRaisesRegex",
    "assertRegexpMatches": "assertRegex",
}

# Outcome and, unless passed, the reason: {"file::Class.test": ["failed", "AssertionError: ..."]}.
Outcomes = dict[str, list[str]]


class _Recorder(unittest.TestResult):
    """Keeps the outcome of each test under its name."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: Outcomes = {}

    def startTest(self, test: Any) -> None:  # noqa: N802
        super().startTest(test)
        self.outcomes[_name(test)] = ["passed", ""]

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self.outcomes[_name(test)] = ["skipped", reason]

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._failed(test, err)

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        self._failed(test, err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._failed(test, err)

    def _failed(self, test: Any, err: Any) -> None:
        self.outcomes[_name(test)] = ["failed", _one_line(err[1])]


def _name(test: Any) -> str:
    return f"{type(test).__name__}.{getattr(test, '_testMethodName', str(test))}"


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip()}"[:300].replace("\n", " ")


def run_one_file(path: Path, output: Path) -> None:
    """Runs the tests of a file in this process and writes their outcomes as JSON."""
    import tensorflow as tf
    from absl import flags

    import estimator_kit.compat  # noqa: F401

    flags.FLAGS(sys.argv[:1])
    if path.stem.endswith("_v1") or "\n  tf.disable_v2_behavior()" in path.read_text():
        tf.compat.v1.disable_v2_behavior()  # As upstream runs them; otherwise they skip or fail.
    for old, new in _OLD_NAMES.items():
        if not hasattr(unittest.TestCase, old):
            setattr(unittest.TestCase, old, getattr(unittest.TestCase, new))
    recorder = _Recorder()
    try:
        spec: Any = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    except Exception as error:
        outcomes = {"(import)": ["failed", _one_line(error)]}
    else:
        unittest.defaultTestLoader.loadTestsFromModule(module).run(recorder)
        outcomes = recorder.outcomes
    output.write_text(json.dumps({"tensorflow": tf.__version__, "outcomes": outcomes}))


def run_in_process(python: str, path: Path, limit: float) -> tuple[str, Outcomes]:
    """The TensorFlow version and the outcomes of one file; a crash or a hang is an outcome too."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "outcomes.json")
        own = str(Path(__file__).resolve())
        command = [python, own, str(path), "--write_outcomes", str(output)]
        try:
            done = subprocess.run(
                command,
                env={**environment, "TEST_TMPDIR": folder},
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            return "", {"(file)": ["failed", f"not done after {limit:.0f} s"]}
        if not output.exists():
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            return "", {"(file)": ["failed", f"exit status {done.returncode}: {last}"[:300]]}
        result = json.loads(output.read_text())
    return result["tensorflow"], result["outcomes"]


def compare(names: list[str], results: list[Outcomes]) -> list[str]:
    """Lines on each test whose outcome is not the same everywhere."""
    lines = []
    for test in sorted(set().union(*results)):
        outcomes = [result.get(test, ["missing", ""]) for result in results]
        if len({outcome for outcome, _ in outcomes}) > 1:
            lines.append(test)
            lines += [
                f"    {name}: {outcome}{': ' if reason else ''}{reason}"
                for name, (outcome, reason) in zip(names, outcomes)
            ]
    return lines


def lost(results: list[Outcomes]) -> int:
    """How many files crashed, and tests that passed in the first result and not in another."""
    crashed = sum(result[test][0] == "failed" for result in results for test in result
                  if test.endswith("::(file)"))  # fmt: skip
    first = [test for test, (outcome, _) in results[0].items() if outcome == "passed"]
    return crashed + sum(
        any(result.get(test, [""])[0] != "passed" for result in results[1:]) for test in first
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="the checkout, or one test file of it")
    parser.add_argument("--python", action="append", default=[], help="repeat: one an environment")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="files at once")
    parser.add_argument("--limit", type=float, default=1800, help="seconds a file may take")
    parser.add_argument("--write_outcomes", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write_outcomes:
        run_one_file(arguments.checkout, arguments.write_outcomes)
        return 0

    checkout = arguments.checkout.resolve()
    files = [checkout] if checkout.is_file() else sorted(checkout.rglob("*_test*.py"))
    files = [file for file in files if "_testing_utils" not in file.name]
    if not files:
        parser.error(f"{arguments.checkout}: expected a checkout with *_test.py files, found none")
    if not arguments.python:
        parser.error("--python: expected the Python of at least one environment")

    # Made absolute, not resolved: a virtual environment's Python is a link.
    pythons = [os.path.abspath(p) if os.sep in p else p for p in arguments.python]
    results: list[Outcomes] = [{} for _ in pythons]
    versions = [""] * len(results)
    tasks = [(place, file) for file in files for place in range(len(results))]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        runs = pool.map(
            lambda task: run_in_process(pythons[task[0]], task[1], arguments.limit), tasks
        )
        for (place, file), (version, outcomes) in zip(tasks, runs):
            versions[place] = version or versions[place]
            name = str(file.relative_to(checkout)) if file != checkout else file.name
            results[place].update({f"{name}::{test}": o for test, o in outcomes.items()})
            counts = Counter(outcome for outcome, _ in outcomes.values())
            print(f"{version or '?':8} {name}: {dict(counts)}", file=sys.stderr, flush=True)

    names = [f"TensorFlow {version or '?'}" for version in versions]
    for line in compare(names, results):
        print(line)
    print()
    for name, result in zip(names, results):
        counts = Counter(outcome for outcome, _ in result.values())
        print(f"{name}: " + ", ".join(f"{counts[o]} {o}" for o in ("passed", "failed", "skipped")))
    return 1 if lost(results) else 0


if __name__ == "__main__":
    sys.exit(main())
