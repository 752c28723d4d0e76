"""Modules that are marked `no_tensorflow` run in an environment without TensorFlow.

A module that can be imported there and does not have the mark fails the test below, so that nobody
forgets the mark.
"""

from __future__ import annotations

import importlib
import re

import pytest

from estimator_kit.errors import UnsupportedTensorFlowError
from tests.conftest import ROOT, TENSORFLOW, needs_tensorflow

pytestmark = pytest.mark.no_tensorflow

# They can be imported without TensorFlow, but their tests need it, or a package that needs it.
RUN_WITH_TENSORFLOW = {
    "estimator_kit/compat/test_cluster.py", "estimator_kit/compat/test_restart.py",
    "estimator_kit/compat/test_two_versions.py", "tools/test_run_old_programs.py",
    "estimator_kit/commands/validation/test_models.py", "estimator_kit/tuning/test_fork_server.py",
    "input_pipelines/prepare/tables/test_beam_pipeline.py",
    "input_pipelines/prepare/test_beam_runner.py", "integration/test_adult.py",
    "integration/test_beam.py", "integration/test_demo.py", "integration/test_fuzz.py",
    "integration/test_next_item_example.py",
    "integration/test_quality.py", "integration/test_saved_parts.py",
    "integration/test_tutorials.py",
    "integration/test_two_versions.py", "integration/test_wheel.py", "test_public_names.py",
}  # fmt: skip

MODULES = sorted(str(path.relative_to(ROOT / "tests")) for path in ROOT.glob("tests/**/test_*.py"))


def test_the_mark_is_of_whole_modules():
    for module in MODULES:
        text = (ROOT / "tests" / module).read_text(encoding="utf-8")
        marked = not needs_tensorflow(ROOT / "tests" / module)
        assert len(re.findall(r"^.*mark\.no_tensorflow", text, re.M)) == marked, module
        if marked:  # All of it runs in `make test`.
            assert not re.search(r"^[^#]*mark\.(ci|nightly)", text, re.M), module
    assert set(MODULES) >= RUN_WITH_TENSORFLOW


@pytest.mark.skipif(TENSORFLOW, reason="TensorFlow is installed")
@pytest.mark.parametrize("module", MODULES)
def test_only_what_cannot_be_imported_has_no_mark(module):
    name = f"tests.{module[:-3].replace('/', '.')}"
    if module in RUN_WITH_TENSORFLOW or not needs_tensorflow(ROOT / "tests" / module):
        importlib.import_module(name)
        return
    # Of TensorFlow, or of a package that the environment without it does not have.
    with pytest.raises((ImportError, UnsupportedTensorFlowError)):
        importlib.import_module(name)
