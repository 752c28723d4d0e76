"""A small training that tests of a module begin from, made once for all of them."""

from __future__ import annotations

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
def made(small, tmp_path_factory):
    """What `config(exporters=("best", "final"))` makes: (model directory, result)."""
    folder = tmp_path_factory.mktemp("made") / "model"
    return folder, ek.run(small(folder)(exporters=("best", "final")))


@pytest.fixture
def trained(made, config):
    """The result of that run, a copy of whose model directory is that of `config`."""
    shutil.copytree(made[0], config().model_dir)
    return made[1]
