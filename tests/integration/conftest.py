"""Trainings that tests begin from, each made once in a run of the tests.

What needs TensorFlow is imported where it is used: tests that need none come here, too.
"""

from __future__ import annotations

import json
import os
import shutil

import pytest

import estimator_kit as ek


@pytest.fixture
def config(small, tmp_path):
    """Makes the config of a small run; keyword arguments change it.

    `small`, of the module, is a function from a model directory to such a maker.
    """
    return small(tmp_path / "model")


@pytest.fixture(scope="module")
def made(small, once, request):
    """What `config(exporters=("best", "final"))` makes: (model directory, result)."""
    from estimator_kit.result_file import read_result

    name = f"trained_in_{request.module.__name__.rpartition('.')[2]}"
    folder = once(name, lambda place: ek.run(small(place / "model")(exporters=("best", "final"))))
    found = read_result(str(folder / "model"))
    found.pop("export_path")
    return folder / "model", ek.RunResult(**found)


@pytest.fixture
def trained(made, config):
    """The result of that run, a copy of whose model directory is that of `config`."""
    shutil.copytree(made[0], config().model_dir)
    return made[1]


@pytest.fixture(scope="session")
def first_cycle(once):
    """A folder with days 1 to 3, and a cycle of retraining on them, which was promoted.

    Its paths are relative, so that a copy of it is as good. `first.json` has what the cycle
    returned, and the process that it ran in.
    """

    def make(folder):
        from estimator_kit.retraining import cycle
        from tests.integration import retraining_data

        retraining_data.write_spec(folder)
        for day in (1, 2, 3):
            retraining_data.write_day(folder, day)
        with pytest.MonkeyPatch.context() as patched:
            patched.chdir(folder)
            result, text = cycle.run(retraining_data.config())
        kept = {"exports": result.exports, "report": text, "pid": os.getpid()}
        (folder / "first.json").write_text(json.dumps(kept))

    return once("first_cycle", make)


@pytest.fixture
def promoted(first_cycle, tmp_path, monkeypatch):
    """A copy of it in which the test runs."""
    folder = tmp_path / "retraining"
    shutil.copytree(first_cycle, folder)
    monkeypatch.chdir(folder)
    return folder
