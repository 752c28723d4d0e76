"""The report, run as a command."""

import subprocess
import sys

import pytest

from estimator_kit.compat import private_names, versions
from estimator_kit.compat.tpu import private_names as tpu_names
from tests.estimator_kit.compat.support import LIMIT_S, ROOT, environment

HERE = versions.read()
COUNT = len(private_names.OURS) + len(private_names.ESTIMATORS) + len(tpu_names.NAMES)
later = pytest.mark.skipif(HERE.has_own_estimator, reason="on 2.15 no private name is used")

# Takes two names away from TensorFlow in every Python process that finds this file.
SITECUSTOMIZE = """
import sys
if "tensorflow" not in sys.modules and any("report" in a for a in getattr(sys, "orig_argv", ())):
    from tensorflow.python.distribute import distribute_coordinator
    from tensorflow.python.framework import ops
    del distribute_coordinator.run_distribute_coordinator, ops.uid
"""


def run(*command, python_path=()):
    variables = {"PYTHONPATH": ":".join([str(p) for p in python_path] + [str(ROOT)])}
    return subprocess.run(
        [sys.executable, *command],
        env=environment(variables),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        cwd=ROOT,
    )


@pytest.mark.nightly
def test_where_all_is_well():
    done = run("tools/tensorflow_report.py")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith(
        f"TensorFlow {HERE.tensorflow}, tensorflow-estimator 2.15.0, tf_keras {HERE.tf_keras}, "
    )
    assert "supported: TensorFlow 2.15 to 2.21\n" in done.stdout
    if not HERE.has_own_estimator:
        assert f"private names: all {COUNT} are there\n" in done.stdout
    assert "\ninstallation: works\n" in done.stdout


@pytest.mark.ci
@later
@pytest.mark.skipif(sys.version_info < (3, 10), reason="sys.orig_argv came with Python 3.10")
def test_where_names_are_missing(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SITECUSTOMIZE)
    done = run("tools/tensorflow_report.py", python_path=[tmp_path])
    assert done.returncode == 1, done.stderr[-3000:]
    coordinator = "tensorflow.python.distribute.distribute_coordinator.run_distribute_coordinator"
    assert (
        f"private names: 2 missing of {COUNT}\n"
        f"  - {coordinator} is missing: distribution strategies over several tasks\n"
        "  - tensorflow.python.framework.ops.uid is missing: graphs of heads and canned models\n"
    ) in done.stdout
    uid = "tensorflow.python.framework.ops.uid"
    assert f"  - {uid} is missing: sharded_mutable_dense_hashtable.py\n" in done.stdout
    assert f"installation: tf.estimator cannot work on TensorFlow {HERE.tensorflow}:" in done.stdout
