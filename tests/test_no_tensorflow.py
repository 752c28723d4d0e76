"""What needs no TensorFlow is tested where there is none, and nowhere else.

This runs in an environment without TensorFlow. A test module that could be imported there and does
not have the mark `no_tensorflow` fails it, so that the mark is not forgotten.
"""

from __future__ import annotations

import importlib
import importlib.util

import pytest

from tests.conftest import ROOT, TENSORFLOW, needs_tensorflow

pytestmark = pytest.mark.no_tensorflow

# They can be imported, and need TensorFlow, or a package that only comes with it, when they run.
RUN_WITH_TENSORFLOW = {
    "estimator_kit/compat/test_cluster.py", "estimator_kit/compat/test_restart.py",
    "estimator_kit/compat/test_two_versions.py", "input_pipelines/tables/test_beam_pipeline.py",
    "input_pipelines/test_beam_runner.py", "integration/test_adult.py",
    "integration/test_beam.py", "integration/test_demo.py", "integration/test_quality.py",
    "integration/test_two_versions.py", "integration/test_wheel.py", "test_public_names.py",
}  # fmt: skip

MODULES = sorted(str(path.relative_to(ROOT / "tests")) for path in ROOT.glob("tests/**/test_*.py"))


@pytest.mark.skipif(TENSORFLOW, reason="TensorFlow is installed")
@pytest.mark.parametrize("module", MODULES)
def test_only_what_cannot_be_imported_has_no_mark(module):
    name = f"tests.{module[:-3].replace('/', '.')}"
    if module in RUN_WITH_TENSORFLOW or not needs_tensorflow(ROOT / "tests" / module):
        importlib.import_module(name)
        return
    with pytest.raises(Exception, match=r"tensorflow|TensorFlow"):
        importlib.import_module(name)
