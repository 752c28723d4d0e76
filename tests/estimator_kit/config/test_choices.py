"""A class in a module of the user: an error of its import names the line, and what to do."""

from __future__ import annotations

import re
import sys

import pytest

from estimator_kit.config import choices
from estimator_kit.errors import ConfigError

pytestmark = pytest.mark.no_tensorflow


class Base:
    pass


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """The error of a module with a text, and perhaps of a second module."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def find(text, other=""):
        (tmp_path / "mine_a.py").write_text(text)
        (tmp_path / "mine_b.py").write_text(other)
        try:
            with pytest.raises(ConfigError) as error:
                choices.find("model", "mine_a:A", Base, base_name="Base", example="a:A")
        finally:
            for name in ("mine_a", "mine_b"):
                sys.modules.pop(name, None)
        return str(error.value).replace(str(tmp_path), "")

    return find


CANNOT = "model 'mine_a:A': cannot import 'mine_a': "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = 1 + 'a'\n",
         rf"/mine_a\.py:2: {CANNOT}TypeError: unsupported operand .*\."),
        ("import no_such_package\n",
         rf"/mine_a\.py:1: {CANNOT}No module named 'no_such_package'\. Install its package, or put "
         r"its folder on PYTHONPATH\."),
        ("from os import no_such_name\n",
         rf"/mine_a\.py:1: {CANNOT}ImportError: cannot import name 'no_such_name' from 'os' .*\."),
        ("x = 1\n\ndef f(:\n", rf"/mine_a\.py:3: {CANNOT}SyntaxError: .*\."),
        ("from absl import flags\nflags.DEFINE_integer('mine_units', 3, '')\n"
         "units = flags.FLAGS.mine_units\n",
         rf"/mine_a\.py:3: {CANNOT}the absl flag --mine_units is read, but the kit does not parse "
         r"flags that a model's module defines\. Make it a field of the class Params, .*"),
    ],
)  # fmt: skip
def test_an_error_of_an_import_names_its_line(refused, text, message):
    found = refused(text)
    assert re.fullmatch(message, found), found


@pytest.mark.parametrize(
    "uses", ["from mine_a import A\n", "import mine_a\n\n\nclass B(mine_a.A):\n    pass\n"]
)
def test_a_circular_import_names_both_modules(refused, uses):
    line = 4 if "class" in uses else 1
    message = refused("import os\n\nimport mine_b\n\nclass A:\n    pass\n", uses)
    assert re.fullmatch(
        rf"/mine_b\.py:{line}: {CANNOT}a circular import by /mine_a\.py:3, then "
        rf"/mine_b\.py:{line}: .*'mine_a'.*circular import.*\. Move what both modules need into a "
        r"third module, or import it inside the function that uses it\.",
        message,
    ), message
