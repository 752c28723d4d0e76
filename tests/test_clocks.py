"""No duration is taken from the clock of the system, which may be set while a program runs.

`time.monotonic` and `time.perf_counter` measure durations. The clock of the system is for dates,
and for times that other processes, other machines or people read.
"""

from __future__ import annotations

import ast
import re

import pytest

from tests.conftest import ROOT
from tests.test_layering import tree_of

pytestmark = pytest.mark.no_tensorflow

FOLDERS = ("estimator_kit", "input_pipelines", "feature_specs", "tools", "benchmarks", "examples")

# Modules that read the clock of the system, and what for.
DATES = {
    "estimator_kit/commands/monitor.py": "which periods are over",
    "estimator_kit/commands/services.py": "when a run ended, for Prometheus",
    "estimator_kit/exporters/saved_model.py": "the number of a version",
    "estimator_kit/observing/console.py": "the date of a line of the log",
    "estimator_kit/observing/tensorboard/summaries.py": "the date of an event",
    "estimator_kit/observing/tracking.py": "the date of a metric",
    "estimator_kit/retraining/cycle.py": "the day of a cycle, when it ended",
    "estimator_kit/retraining/promotion.py": "when a version was published",
    "estimator_kit/serving/log_files.py": "the name of a log",
    "estimator_kit/serving/request_log.py": "when a request was answered",
    "estimator_kit/training/hooks/stop.py": "the date of an event",
    "feature_specs/files/caches.py": "compared with the time of a file",
    "feature_specs/files/owners.py": "a heartbeat that other machines read",
    "feature_specs/files/versions.py": "the age of a folder without a lock",
    "feature_specs/files/copies.py": "compared with the time of a file",
    "feature_specs/files/leases.py": "a heartbeat",
    "input_pipelines/row_cache/folder.py": "compared with the time at which a file was changed",
}

# The only ones that subtract: the time of a file is of the clock of the system, too.
SUBTRACT = {
    "feature_specs/files/caches.py",
    "feature_specs/files/copies.py",
    "input_pipelines/row_cache/folder.py",
}

# Modules without such a text are not parsed.
CLOCK = re.compile(
    r"\.(time|time_ns|[ac]time|gmtime|localtime|strftime|now|utcnow|today)\b"
    r"|from time import|import time as|SecondOrStepTimer"
)

OF_TIME = {"time", "time_ns", "ctime", "asctime", "gmtime", "localtime", "strftime"}
OF_DATETIME = {"now", "utcnow", "today"}


def modules():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            # Most modules read no clock.
            if "build" not in path.relative_to(ROOT).parts and CLOCK.search(
                path.read_text("utf-8")
            ):
                yield path.relative_to(ROOT).as_posix(), tree_of(path)


def reads(node: ast.AST) -> bool:
    """Whether a node is the clock of the system, called or passed on."""
    if not isinstance(node, ast.Attribute) or node.attr not in OF_TIME | OF_DATETIME:
        return False
    owner = ast.unparse(node.value)
    if owner == "time":
        return node.attr in OF_TIME
    return owner.endswith(("datetime", "date")) and node.attr in OF_DATETIME


def test_the_clock_of_the_system_is_read_only_for_dates():
    found, hidden = set(), set()
    for name, tree in modules():
        for node in ast.walk(tree):
            if reads(node):
                found.add(name)
            elif isinstance(node, ast.ImportFrom) and node.module == "time":
                hidden.update((name, each.name) for each in node.names if each.name in OF_TIME)
            elif isinstance(node, ast.Import):
                hidden.update((name, e.asname) for e in node.names if e.name == "time" and e.asname)
    assert not hidden, "write `time.time`, so that this test sees it"
    assert found == {*DATES}


def test_nothing_is_subtracted_from_the_clock_of_the_system():
    found = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
        if any(map(reads, ast.walk(node)))
    }
    assert found == SUBTRACT


def test_timers_of_tensorflow_are_replaced():
    """They read the clock of the system. `AtMultiples` replaces what it takes from this class."""
    users = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "SecondOrStepTimer"
    }
    # The second is a hook of TensorFlow 2.15 for programs that do not use the kit.
    assert users == {
        "estimator_kit/training/hooks/stop.py",
        "estimator_kit/compat/input_checkpoints.py",
    }
