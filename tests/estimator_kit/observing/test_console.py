"""The lines of the program: text, JSON, and above the progress of a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import textwrap

import pytest

from estimator_kit.observing import console
from tests.conftest import ROOT

pytestmark = pytest.mark.no_tensorflow


def program(code: str, **kwargs) -> subprocess.CompletedProcess:
    code = textwrap.dedent(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, text=True, check=True, **kwargs
    )


SAY_ALL = """
    import logging, warnings
    from estimator_kit.observing import console
    from estimator_kit.observing.progress import Progress
    console.configure({form!r})
    log = logging.getLogger("estimator_kit")
    numbers = {{"step": 8, "metrics": {{"auc": float("nan")}}}}
    log.info("an [evaluation]", extra={{"numbers": numbers}})
    log.debug("not shown")
    logging.getLogger("tensorflow").warning("this is Deprecated")
    logging.getLogger("tensorflow").warning("this matters")
    with Progress("train", "step {{}}", total=2) as progress:
        progress.update(1, last=True, loss=0.5)
        log.info("above the bar")
    console.say("a table\\nof two lines")
    console.complain("error: a mistake")
"""


def test_lines_of_a_pipe_have_a_timestamp():
    done = program(SAY_ALL.format(form="text"), capture_output=True)
    assert done.stdout == "a table\nof two lines\n"
    *logged, mistake = done.stderr.splitlines()
    assert mistake == "error: a mistake"
    assert [line[20:] for line in logged] == [
        "an [evaluation]", "this matters", "train: step 1 of 2, loss 0.50000", "above the bar",
    ]  # fmt: skip
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", line[:20]) for line in logged)


def test_every_line_of_json_is_one_object():
    done = program(SAY_ALL.format(form="json"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for each in found:
        assert each.pop("time").endswith("+00:00")
    numbers = {"phase": "train", "done": 1, "total": 2, "loss": 0.5}
    said = {"level": "info", "message": "a table\nof two lines"}
    assert found == [
        {"level": "info", "message": "an [evaluation]", "step": 8, "metrics": {"auc": None}},
        {"level": "warning", "message": "this matters"},
        {"level": "info", "message": "train: step 1 of 2, loss 0.50000", **numbers},
        {"level": "info", "message": "above the bar"},
        said,
        {"level": "error", "message": "error: a mistake"},
    ]


def test_a_terminal_shows_a_bar_and_lines_without_timestamps():
    pytest.importorskip("rich")
    main, other = pty.openpty()
    try:
        program(SAY_ALL.format(form="text"), stdout=subprocess.DEVNULL, stderr=other)
        shown = os.read(main, 100_000).decode()
    finally:
        os.close(main)
        os.close(other)
    lines = shown.split("\r\n")
    assert lines[:2] == ["an [evaluation]", "this matters"]
    assert "above the bar\r\n" in shown
    assert "train" in shown and "step 1 of 2, loss 0.50000" in shown and "\x1b[" in shown
    assert shown.endswith("error: a mistake\r\n")


def test_notes_of_an_import_are_hidden_and_other_lines_are_not():
    code = """
        import os
        from estimator_kit.observing import console
        console.configure({form!r})
        with console.hidden_import_notes():
            for line in (
                b"WARNING: All log messages before absl::InitializeLog() is called are written\\n",
                b"I0000 00:00:1790 12 port.cc:153] oneDNN custom operations are on.\\n",
                b"I0000 00:00:1790 12 cudart_stub.cc:31] Could not find cuda drivers\\n",
                b"the disk is on fire\\n",
            ):
                os.write(2, line)
            {more}
        os.write(2, b"after the import\\n")
    """
    done = program(code.format(form="text", more=""), capture_output=True)
    assert done.stderr == "the disk is on fire\nafter the import\n"
    done = program(code.format(form="json", more=""), capture_output=True)
    line = json.loads(done.stderr.splitlines()[0])
    assert (line["level"], line["message"]) == ("warning", "the disk is on fire")
    with pytest.raises(subprocess.CalledProcessError) as aborted:
        program(code.format(form="text", more="os.abort()"), capture_output=True)
    assert "the disk is on fire" in aborted.value.stderr


def test_lines_of_another_process_get_the_name_of_its_task():
    code = """
        from estimator_kit.observing import console
        console.use({form!r})
        console.relay("ps:0", '{{"level": "info", "message": "it waits"}}', 7)
        console.relay("chief:0", "Aborted", 7)
    """
    done = program(code.format(form="text"), capture_output=True)
    assert done.stdout == '[ps:0   ] {"level": "info", "message": "it waits"}\n[chief:0] Aborted\n'
    done = program(code.format(form="json"), capture_output=True)
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == {"level": "info", "message": "it waits", "task": "ps:0"}
    assert (second["message"], second["task"]) == ("Aborted", "chief:0")


def test_no_display_without_a_program():
    assert console.display() is None
