"""`.ci/run` checks every Python that the project promises, each with all it can run on."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.no_tensorflow


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_promised_python_has_the_oldest_and_the_newest_tensorflow_that_it_runs():
    promised = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text("pyproject.toml"))
    runs = re.findall(r'^  (2\.\d+)\) versions="(.*)" ;;', text("tools/find_python.sh"), re.M)
    ends = {"2.15", "2.21"}
    possible = {(tf, python) for tf, pythons in runs for python in pythons.split() if tf in ends}
    assert {python for _, python in possible} == set(promised)
    checked = re.findall(r'"(2\.\d+) (3\.\d+)"', text("tools/check_pythons.sh"))
    assert set(checked) == possible and len(checked) == len(possible)


def test_the_readme_promises_these_pythons():
    promised = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', text("pyproject.toml"))
    first, last = re.search(r"Python 3\.(\d+) to 3\.(\d+)", text("README.md")).groups()
    assert [int(minor) for minor in promised] == list(range(int(first), int(last) + 1))


def test_ci_fails_at_its_start_if_a_python_is_missing_and_waits_for_the_check():
    lines = text(".ci/run").splitlines()
    find = lines.index("./tools/check_pythons.sh find")
    start = lines.index("in_background ./tools/check_pythons.sh")
    assert find < start
    assert any(line.endswith(" background_ends") for line in lines[start:])
