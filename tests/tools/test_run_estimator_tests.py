"""tools/run_estimator_tests.py, on a checkout made up here."""

from __future__ import annotations

import subprocess
import sys

import pytest

from estimator_kit.compat import versions
from tests.conftest import ROOT

TESTS = """
import sys
import tensorflow as tf
from absl.testing import parameterized

class Outcomes(tf.test.TestCase, parameterized.TestCase):
    def test_passes(self):
        self.assertTrue(tf.estimator.Estimator)
    def test_with_a_name_that_python_3_12_removed(self):
        self.assertEquals(2, 2)
    def test_fails(self):
        self.assertEqual(1, 2)
    def test_raises(self):
        raise KeyError("gone")
    def test_is_skipped(self):
        self.skipTest("not here")
    @parameterized.parameters(1, 2)
    def test_of_a_number(self, number):
        self.assertLess(number, 2)
    def test_differs(self):
        self.assertNotIn("different", sys.executable)
"""


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "checkout" / "python"
    folder.mkdir(parents=True)
    (folder / "outcomes_test.py").write_text(TESTS)
    (folder / "broken_test.py").write_text("import no_such_module\n")
    (folder / "killed_test.py").write_text("import os\nos._exit(9)\n")
    (folder / "other.py").write_text("raise AssertionError('no test file')\n")
    return folder.parent


@pytest.mark.nightly
def test_counts_differences_and_exit_status(checkout, tmp_path):
    # A second Python that is the first one under another name.
    other = tmp_path / "different"
    other.write_text(
        f"#!/bin/sh\nscript=$1; shift\nexec {sys.executable} -c 'import runpy, sys; "
        'sys.executable = "different"; sys.argv = sys.argv[1:]; '
        'runpy.run_path(sys.argv[0], run_name="__main__")\' "$script" "$@"\n'
    )
    other.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "tools/run_estimator_tests.py", str(checkout), "--python", sys.executable,
         "--python", str(other)],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    name = f"TensorFlow {versions.read().tensorflow}"
    assert done.stdout == (
        "python/outcomes_test.py::Outcomes.test_differs\n"
        f"    {name}: passed\n"
        f"    {name}: failed: AssertionError: 'different' unexpectedly found in 'different'\n"
        "\n"
        f"{name}: 4 passed, 5 failed, 2 skipped\n"
        f"{name}: 3 passed, 6 failed, 2 skipped\n"
    )
    assert "python/broken_test.py: {'failed': 1}" in done.stderr
    assert "python/killed_test.py: {'failed': 1}" in done.stderr
    assert "other.py" not in done.stderr


def test_an_empty_checkout_is_an_error(tmp_path):
    done = subprocess.run(
        [sys.executable, "tools/run_estimator_tests.py", str(tmp_path), "--python", sys.executable],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "expected a checkout with *_test.py files, found none" in done.stderr
