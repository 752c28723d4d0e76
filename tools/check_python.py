"""Does the kit work with this Python and this TensorFlow?

    python tools/check_python.py

Imports every module of the three packages, then trains a small model on made data, evaluates it,
exports it, and asks the export a question in a separate program. It needs what a user installs (the
extras `report`, `serving` and `contrib`) and no package of the tests. `.ci/run` runs it on each
Python of the README, because Pythons differ in what they refuse when a module is imported.

It measures no quality, and writes only to a temporary folder.
"""

from __future__ import annotations

import importlib
import json
import pathlib
import pkgutil
import platform
import subprocess
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ("feature_specs", "input_pipelines", "estimator_kit")

_ASK = """
import sys
import tensorflow as tf

model = tf.saved_model.load(sys.argv[1])
records = next(iter(tf.data.TFRecordDataset(sys.argv[2]).batch(8)))
answer = model.signatures["serving_default"](records)["click/logistic"].numpy()
assert answer.shape == (8, 1) and ((answer > 0) & (answer < 1)).all(), answer
"""


def modules() -> list[str]:
    """The names of all modules of the kit, without programs and without `compat.tf1`."""
    names = []
    for package in PACKAGES:
        folder = str(ROOT / package)
        names += [package, *(m.name for m in pkgutil.walk_packages([folder], f"{package}."))]
    return sorted(name for name in names if not name.endswith((".__main__", ".compat.tf1")))


def import_all() -> list[str]:
    """Imports every module. Returns the names of those that fail, and prints why."""
    failed = []
    for name in modules():
        try:
            importlib.import_module(name)
        except Exception:
            failed.append(name)
            print(f"cannot import {name}:", file=sys.stderr)
            traceback.print_exc()
    return failed


def small_run(folder: pathlib.Path) -> None:
    """Trains, evaluates and exports the example's model, and asks the export.

    Raises:
      AssertionError: the program did not end with 0, or the metrics or the export are missing.
      subprocess.CalledProcessError: a program with only TensorFlow cannot load or ask the export.
    """
    from estimator_kit import main
    from input_pipelines.synthetic import impression_log

    data, model_dir = folder / "ads", folder / "model"
    impression_log.generate(str(data), rows=2000)
    status = main.main([
        "run.py", "train_and_evaluate", f"--spec={ROOT}/feature_specs/catalog/ads.yaml",
        f"--train_files={data}/dt=2026-01-0[1-7]/*.tfrecord",
        f"--eval_files={data}/dt=2026-01-08/*.tfrecord", "--model=wide_deep", "--epochs=1",
        f"--model_dir={model_dir}", "--exporters=final",
    ])  # fmt: skip
    assert status == 0, status
    result = json.loads((model_dir / "result.json").read_text(encoding="utf-8"))
    assert 0 < result["metrics"]["auc/click"] < 1, result["metrics"]

    records = min(data.glob("dt=2026-01-08/*.tfrecord"))
    ask = [sys.executable, "-c", _ASK, result["export_path"], str(records)]
    subprocess.run(ask, check=True, timeout=300)


def check() -> int:
    """The exit status: 0, or 1 if a module cannot be imported."""
    failed = import_all()
    if failed:
        print(f"{len(failed)} of {len(modules())} modules cannot be imported", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        small_run(pathlib.Path(folder))
    import tensorflow as tf

    versions = f"Python {platform.python_version()}, TensorFlow {tf.__version__}"
    print(f"{versions}: imported {len(modules())} modules; trained, evaluated, exported and asked")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(check())
