"""Trainings that tests start from. Each is made only once in a test run.

Modules that need TensorFlow are imported where they are used, because tests without TensorFlow also
load this file.
"""

from __future__ import annotations

import json
import os
import shutil

import pytest

import estimator_kit as ek
from estimator_kit.config.modes import command_of


@pytest.fixture
def config(small, tmp_path):
    """Makes the config of a small run; keyword arguments change it.

    The fixture `small` of a test module takes a model directory and returns such a maker.
    """
    return small(tmp_path / "model")


@pytest.fixture(scope="module")
def made(small, once, request):
    """Runs `config(exporters=("best", "final"))`: (model directory, result)."""
    from estimator_kit.result import read_result

    name = f"trained_in_{request.module.__name__.rpartition('.')[2]}"
    folder = once(name, lambda place: ek.run(small(place / "model")(exporters=("best", "final"))))
    return folder / "model", read_result(str(folder / "model"))


@pytest.fixture
def trained(made, config):
    """The result of the run of `made`. Its model directory is copied to the one of `config`."""
    shutil.copytree(made[0], config().model_dir)
    return made[1]


@pytest.fixture(scope="session")
def first_cycle(once):
    """A folder with days 1 to 3, and a retraining cycle on them that was promoted.

    All its paths are relative, so a copy of the folder works too. `first.json` has the result of
    the cycle and the id of its process.
    """

    def make(folder):
        from estimator_kit.retraining import cycle
        from tests.integration import retraining_data

        retraining_data.write_spec(folder)
        for day in (1, 2, 3):
            retraining_data.write_day(folder, day)
        with pytest.MonkeyPatch.context() as patched:
            patched.chdir(folder)
            result, text = cycle.run(command_of(retraining_data.config()))
        kept = {"exports": result.exports, "report": text, "pid": os.getpid()}
        (folder / "first.json").write_text(json.dumps(kept))

    return once("first_cycle", make)


@pytest.fixture
def promoted(first_cycle, tmp_path, monkeypatch):
    """A copy of `first_cycle`, as the working directory of the test."""
    folder = tmp_path / "retraining"
    shutil.copytree(first_cycle, folder)
    monkeypatch.chdir(folder)
    return folder
