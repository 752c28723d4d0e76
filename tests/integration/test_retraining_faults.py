"""Retraining that is killed at any point, started twice, or read while it promotes."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.config.modes import command_of
from estimator_kit.retraining import cycle, cycle_files
from estimator_kit.retraining.promotion import Serving
from estimator_kit.retraining.training_stage import Trained
from tests.conftest import ROOT
from tests.integration.retraining_data import config, fields, write_day

pytestmark = pytest.mark.ci

POINTS = 20
LIMIT = 300


def program(*arguments):
    """The command line that runs Python code with the checkout on its path."""
    return {
        "args": [sys.executable, *map(str, arguments)],
        "env": {**os.environ, "PYTHONPATH": str(ROOT)},
    }


@pytest.fixture
def ready(promoted):
    """A folder with one promoted cycle, a new day, and a flagfile for the next cycle."""
    write_day(promoted, 4)
    lines = []
    for name, value in fields(as_of="2026-01-04").items():
        text = ",".join(value) if isinstance(value, tuple) else value
        lines.append(f"--{name}={text}")
    (promoted / "retrain.flags").write_text("\n".join(lines) + "\n")
    return promoted


def start(number):
    return subprocess.run(
        **program("-m", "tests.integration.killed_retraining", number, "model", "retrain.flags"),
        capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip


def end_state():
    """The state that must be the same, however often a cycle was killed."""
    trained = cycle_files.find("model", "2").output(Trained)
    skipped = {"facts", "eval", "_LOCK"}
    found = {
        "outcomes": [found.outcome for found in cycle_files.cycles("model")],
        "serving": sorted(os.listdir("model/serving")),
        "versions": [v.cycle for v in Serving("model/serving", "").versions()],
        "step": trained.global_step,
        "start": trained.start.model_dump(),
        "words": pathlib.Path("model/cycles/0002/spec/words/city.txt").read_text(),
        "files": sorted(
            path.name
            for path in pathlib.Path("model/cycles/0002").iterdir()
            if path.name not in skipped and not path.name.startswith(".tmp")
        ),
        "loss": trained.metrics["loss"],
    }
    return json.loads(json.dumps(found))


@pytest.fixture
def undisturbed(once, ready):
    """The end state of an undisturbed run, and the number of its changes on disk."""

    def make(folder):
        shutil.copytree(ready, folder / "there")
        with pytest.MonkeyPatch.context() as patched:
            patched.chdir(folder / "there")
            done = start(0)
            assert done.returncode == 0, done.stderr
            kept = {"state": end_state(), "changes": int(done.stdout.split()[-1])}
        (folder / "undisturbed.json").write_text(json.dumps(kept))

    kept = json.loads((once("undisturbed_cycle", make) / "undisturbed.json").read_text())
    return kept["state"], kept["changes"]


def whole_versions():
    """The versions. Checks that each of them loads."""
    found = Serving("model/serving", "").versions()
    for version in found:
        assert "serving_default" in tf.saved_model.load(version.path).signatures
    return [version.number for version in found]


# Continuous integration runs some of them; all of them run nightly.
@pytest.mark.parametrize(
    "point", [i if i == 13 else pytest.param(i, marks=pytest.mark.nightly) for i in range(POINTS)]
)
def test_killed_at_any_place_the_next_start_ends_as_if_nothing_had_been(ready, undisturbed, point):
    expected, changes = undisturbed
    number = 1 + (2 * point + 1) * changes // (2 * POINTS)
    killed = start(number)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert whole_versions()[:1] == [1]
    with contextlib.suppress(ek.NothingToDo):  # It was killed after its last stage.
        cycle.run(command_of(config(as_of="2026-01-04")))
    found = end_state()
    assert found.pop("loss") == pytest.approx(expected["loss"], rel=1e-3)
    assert found == {key: value for key, value in expected.items() if key != "loss"}
    assert whole_versions() == [1, 2]


def test_sigterm_is_answered_with_143_and_the_next_start_goes_on(ready):
    arguments = ["--flagfile=retrain.flags", "--epochs=100000", "--log_every_secs=0.01"]
    with subprocess.Popen(
        **program(ROOT / "run.py", *arguments), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if " train: step " in line:
                break
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(LIMIT) == 143
    assert (ready / "model/cycles/0002/train/checkpoint").exists()
    assert whole_versions() == [1]


def test_of_two_commands_at_once_one_works_and_the_other_names_it(ready):
    command = program(ROOT / "run.py", "--flagfile=retrain.flags")
    both = [
        subprocess.Popen(**command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        texts = [process.communicate(timeout=LIMIT)[1] for process in both]
    finally:
        for process in both:
            process.kill()
    codes = [process.returncode for process in both]
    assert sorted(codes) == [0, 75], texts
    other = both[codes.index(0)].pid
    assert f"is locked by {getpass.getuser()} on " in texts[codes.index(75)]
    assert f"process {other}. Only one start works" in texts[codes.index(75)]
    assert whole_versions() == [1, 2]


@pytest.mark.nightly
def test_a_reader_that_loads_models_in_a_loop_never_fails(ready):
    """50 promotions and rollbacks of a real SavedModel, while a reader loads it in a loop."""
    serving = Serving(str(ready / "model/serving"), str(ready / "model"))
    export = shutil.copytree(serving.live.path, ready / "export", dirs_exist_ok=True)
    through, loaded, problems = threading.Event(), threading.Semaphore(0), []
    numbers = []

    def read():
        while not through.is_set():
            try:
                names = [int(n) for n in os.listdir(serving.folder) if n.isdigit()]
                path = os.path.join(serving.folder, str(max(names)))
                assert tf.saved_model.load(path).signatures["serving_default"]
                numbers.append(max(names))
            except Exception as error:
                problems.append(repr(error))
                through.set()
            loaded.release()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for i in range(50):
            old = serving.versions()[0]
            source = old.path if i % 5 == 4 else str(export)
            serving.publish(source, cycle=None, verify=lambda path: None)
            for version in serving.versions()[:-2]:
                serving.remove(version)
            # The reader finishes one load before the next promotion.
            while loaded.acquire(blocking=False):
                pass
            assert loaded.acquire(timeout=LIMIT) and not problems, problems
    finally:
        through.set()
        reader.join()
    assert problems == [] and numbers == sorted(numbers)
    assert serving.live.number == 51


# Retraining starts when the window is full, so a week has five nights.
@pytest.mark.nightly
def test_a_simulated_week_ends_as_it_should(tmp_path):
    nights = 5
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/simulate_retraining.py"), f"--work_dir={tmp_path}/week",
         f"--days={6 + nights}", "--rows_a_day=1500"],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| 2026")]
    assert len(rows) == nights
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    assert [cell[1] for cell in cells][1] == "99"  # Day 8 is missing.
    assert pathlib.Path(tmp_path / "week/retraining.prom").exists()
