"""The distribution estimator-kit-client: its modules work without the kit and without TensorFlow.

tests/integration/test_wheel.py does the same with the built wheel.
"""

from __future__ import annotations

import re
import shutil

import pytest

from tests.conftest import ROOT
from tests.estimator_kit.client import alone

pytestmark = pytest.mark.no_tensorflow

FOLDER = ROOT / "estimator_kit" / "client"
PROJECT = (FOLDER / "pyproject.toml").read_text(encoding="utf-8")


def test_its_modules_alone_ask_with_rows(tmp_path):
    package = tmp_path / "made" / "estimator_kit_client"
    package.mkdir(parents=True)
    for path in FOLDER.glob("*.py"):
        shutil.copy(path, package)
    (dependencies,) = re.findall(r"^dependencies = \[(.*)\]$", PROJECT, re.M)
    names = re.findall(r'"([\w-]+)>=[\d.]+"', dependencies)
    assert names == ["grpcio", "numpy", "protobuf"]
    alone.check(package.parent, tmp_path, names)


def test_all_distributions_have_one_version():
    folders = (ROOT, FOLDER, ROOT / "estimator_kit" / "compat")
    versions = [
        re.findall(r'^version = "([\d.]+)"', (folder / "pyproject.toml").read_text(), re.M)
        for folder in folders
    ]
    assert versions[0] and versions == [versions[0]] * 3
