"""Messages name extras that exist, in the form that works in every shell."""

from __future__ import annotations

import ast
import re

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.no_tensorflow

FLOORS = ("feature_specs", "input_pipelines", "estimator_kit")


def extras():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    part = text.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    return set(re.findall(r"^(\w+) = ", part, re.M))


def texts():
    """(path, text) of each string in the code. Neighboring strings are one."""
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            if "estimator-kit[" not in source and "extra " not in source:
                continue
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield str(path.relative_to(ROOT)), node.value


def test_each_command_that_installs_an_extra_works():
    """Without quotes, a Z shell takes the brackets for a pattern: `no matches found`."""
    known, named = extras(), set()
    for path, text in texts():
        wanted = len(re.findall(r"estimator-kit\[", text))
        found = re.findall(r"pip install 'estimator-kit\[(\w+)\]'", text)
        assert len(found) == wanted and set(found) <= known, (path, text)
        named.update(found)
    assert {"analyze", "tables", "report", "mlflow"} <= named


def test_each_extra_that_a_text_names_exists():
    known = extras()
    for path, text in texts():
        for name in re.findall(r"\bextra ['`](\w+)['`]", text):
            assert name in known, (path, name)
