"""`python -m estimator_kit.compat`: programs run unchanged, as `python PROGRAM.py` runs them."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from estimator_kit.compat import versions
from tests.estimator_kit.compat.support import LIMIT_S, ROOT, environment, run_code

# A program for TensorFlow 1. Nothing may stand before its first statement.
TENSORFLOW_1 = '''\
#!/usr/bin/env python
"""An old program."""
from __future__ import absolute_import, print_function

import json
import sys

import collections

import helper  # in the program's folder
import numpy as np
import tensorflow as tf
from tensorflow.contrib import cluster_resolver
from tensorflow.python.framework import ops

flags = tf.flags
flags.DEFINE_integer("units", 1, "A flag of the program.")


def main(argv):
    dense = tf.layers.dense(tf.placeholder(tf.float32, [None, 3]), flags.FLAGS.units)
    import tensorflow.compat.v1 as v1
    import tensorflow.compat.v1.contrib.lookup as lookup
    from tensorflow.contrib.cluster_resolver.python.training import TPUClusterResolver

    print(json.dumps({
        "argv": argv, "sys": sys.argv, "path": sys.path[0], "name": __name__, "file": __file__,
        "shape": str(dense.shape), "width": dense.shape[1].value, "eager": tf.executing_eagerly(),
        "optimizer": tf.train.AdamOptimizer.__name__, "helper": helper.NAME,
        "v1": v1.contrib.cluster_resolver is cluster_resolver is tf.contrib.cluster_resolver,
        "resolver": TPUClusterResolver is cluster_resolver.TPUClusterResolver,
        "lookup": lookup is tf.contrib.lookup,
        "estimator": tf.estimator.Estimator is v1.estimator.Estimator,
        "inputs": callable(tf.estimator.inputs.numpy_input_fn),
        "tensor": ops.Tensor is tf.Tensor, "keras": tf.keras.Model.__module__.split(".")[0],
        "variable": type(tf.Variable(1.0)).__name__,
        "removed": [collections.Iterable.__name__, np.int.__name__, tf.__version__ >= "1.13"],
    }))
    try:
        tf.no_such_name
    except AttributeError as error:
        print(error)
    for name in ("boosted_trees", "no_such_module"):
        try:
            getattr(tf.contrib, name)
        except AttributeError as error:
            print(error)
    try:
        import tensorflow.contrib.boosted_trees
    except ImportError as error:
        print(error)
    tf.logging.error("that was all")
    sys.exit(3)


if __name__ == "__main__":
    tf.app.run()
'''


def launch(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "estimator_kit.compat", *arguments],
        env=environment({"PYTHONPATH": str(ROOT)}),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def test_a_program_for_tensorflow_1(tmp_path):
    (tmp_path / "old").mkdir()
    program = tmp_path / "old" / "program.py"
    program.write_text(TENSORFLOW_1)
    (tmp_path / "old" / "helper.py").write_text("NAME = 'helper'\n")
    done = launch(tmp_path, "--tf1", "old/program.py", "--units=2", "--", "-m", "--tf1")
    assert done.returncode == 3, done.stderr[-3000:]
    assert "that was all" in done.stderr
    assert "non-resource variables" not in done.stderr
    first, missing, *rest = done.stdout.splitlines()
    assert missing == "module 'tensorflow' has no attribute 'no_such_name'"
    seen = json.loads(first)
    assert seen.pop("keras") in ("tf_keras", "keras")
    assert seen == {
        "argv": ["old/program.py", "--", "-m", "--tf1"],  # tf.app.run removes its own flags.
        "sys": ["old/program.py", "--units=2", "--", "-m", "--tf1"],
        "path": str(tmp_path / "old"),
        "name": "__main__",
        "file": str(program),
        "shape": "(?, 2)",
        "width": 2,
        "eager": False,
        "optimizer": "AdamOptimizer",
        "helper": "helper",
        "v1": True,
        "resolver": True,
        "lookup": True,
        "estimator": True,
        "inputs": True,
        "tensor": True,
        "variable": "RefVariable",
        "removed": ["Iterable", "int", True],
    }
    trees = "No module named 'tensorflow.contrib.boosted_trees': "
    assert rest[0].startswith(trees + "Train trees with YDF")
    assert rest[1] == "No module named 'tensorflow.contrib.no_such_module'"
    assert rest[2] == rest[0]


@pytest.mark.ci
def test_an_import_in_the_program_does_the_same(tmp_path):
    out = run_code(
        """
        import estimator_kit.compat.tf1
        import tensorflow as tf
        print(tf.executing_eagerly(), hasattr(tf, "Session"), tf.contrib.__name__)
        tf.enable_eager_execution()
        print(tf.constant(3).numpy())
        """
    )
    assert out == "False True tensorflow.contrib\n3"


MODULE = """\
import sys
import tensorflow as tf
print(__name__, __package__, sys.argv[1:], tf.executing_eagerly(), hasattr(tf, "contrib"))
print(tf.estimator.Estimator.__name__)
try:
    tf.app
except AttributeError as error:
    print(error)
"""


LATE = """\
import atexit
import pickle
import threading


class Kept:
    pass


def at_the_end():
    import __main__
    print("end", pickle.loads(pickle.dumps(Kept())).__class__ is __main__.Kept)


atexit.register(at_the_end)
event = threading.Event()
thread = threading.Thread(target=lambda: (event.wait(), print("thread", Kept.__module__)))
thread.start()
import tensorflow as tf
try:
    tf.Session
except AttributeError:
    import traceback
    print(traceback.format_exc().splitlines()[-1][-40:])
event.set()
"""


@pytest.mark.ci
def test_threads_and_atexit_functions_find_the_program(tmp_path):
    (tmp_path / "late").write_text(LATE)
    done = launch(tmp_path, "./late")
    assert done.returncode == 0, done.stderr[-3000:]
    hint, *others = done.stdout.splitlines()
    if not versions.read().has_own_estimator:  # 2.15 is not changed.
        assert hint.endswith("upgrade its code with tf_upgrade_v2.")
    assert others == ["thread __main__", "end True"]
    assert [path.name for path in tmp_path.iterdir()] == ["late"]


def test_a_module_for_tensorflow_2(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "trainer.py").write_text(MODULE)
    done = launch(tmp_path, "-m", "package.trainer", "--help")
    assert done.returncode == 0, done.stderr[-3000:]
    first, second, third = done.stdout.splitlines()
    assert first == "__main__ package ['--help'] True False"
    assert second == "EstimatorV2"
    assert "has no attribute 'app'" in third


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected PROGRAM.py or -m MODULE, got neither"),
        (["--tf1"], "expected PROGRAM.py or -m MODULE, got neither"),
        (["-m"], "argument -m: expected one argument"),
        (["no/such.py"], "no/such.py: expected the file of a program; it does not exist"),
        (["no_such_program"], "no_such_program: expected the file of a program; it does not exist"),
        (["sh", "a.py"], "sh: expected a Python program, got /"),
        (["--tf2", "a.py"], "unrecognized arguments: --tf2"),
    ],
)
def test_wrong_arguments(arguments, message, capsys):
    from estimator_kit.compat import __main__ as launcher

    with pytest.raises(SystemExit) as stop:
        launcher.main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_the_help_teaches(capsys):
    from estimator_kit.compat import __main__ as launcher

    with pytest.raises(SystemExit) as stop:
        launcher.main(["--help"])
    assert not stop.value.code
    text = capsys.readouterr().out
    assert "python -m estimator_kit.compat --tf1 run_classifier.py --do_train=true" in text
    assert "with tf.contrib" in " ".join(text.split())


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_a_program_can_be_a_folder_or_a_zip_file(form, tmp_path, monkeypatch, capsys):
    (tmp_path / "dd").mkdir()  # As a program on the PATH.
    (tmp_path / "dd" / "__main__.py").write_text("import sys\nprint(sys.argv, __name__)\n")
    monkeypatch.chdir(tmp_path)
    program = "dd"
    if form == "zip":
        program = pathlib.Path(shutil.make_archive("app", "zip", "dd")).name
    monkeypatch.setattr(sys, "path", ["first", *sys.path])
    monkeypatch.setattr(sys, "argv", ["launcher"])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    from estimator_kit.compat import __main__ as launcher

    launcher.main([program, "a"])
    assert capsys.readouterr().out == f"['{program}', 'a'] __main__\n"


def test_an_installed_program_is_found(tmp_path, monkeypatch, capsys):
    program = tmp_path / "old-trainer"
    program.write_text("#!/usr/bin/python\nimport sys\nprint(sys.argv, sys.path[0], __name__)\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", ["first", *sys.path])
    monkeypatch.setattr(sys, "argv", ["launcher"])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    from estimator_kit.compat import __main__ as launcher

    launcher.main(["old-trainer", "--steps=1"])
    assert capsys.readouterr().out == f"['{program}', '--steps=1'] {tmp_path} __main__\n"
