"""Reports the names that `tf.estimator` needs and the installed TensorFlow does not have.

Use it when a new TensorFlow appears, or when `import estimator_kit.compat` fails:

    python -m estimator_kit.tensorflow_report

It prints the versions, whether `compat.install()` works, the private names of
compat/private_names.py that are missing, and every other name of TensorFlow that the source of
tensorflow-estimator mentions and that is missing. The exit status is 0 if nothing is missing.

It is a command, and not a module to import. It is outside the package `compat`, because importing
that package installs it. It changes only its own process.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

if __name__ == "__main__":
    # Importing that package would install it, and may fail. An empty package makes its modules
    # importable.
    _bare = ModuleType("estimator_kit.compat")
    _bare.__path__ = [str(Path(__file__).resolve().parent / "compat")]
    sys.modules["estimator_kit.compat"] = _bare

from estimator_kit.compat import installer, legacy_keras, private_names, source_scan, versions
from estimator_kit.errors import UnsupportedTensorFlowError

# Parts of tensorflow-estimator that its API does not load, and the part that the kit gives up.
_NOT_LOADED = ("testing_utils", "/timeseries/")
_GIVEN_UP = "/tpu/"


def main() -> int:
    """Prints the report; returns the exit status."""
    try:
        installed = versions.read()
        if installed.tensorflow is None:
            installed = installer.read_by_importing()
        outcome = _installation()
    except UnsupportedTensorFlowError as error:
        print(error)
        return 1
    print(_heading(installed))
    print(f"\ninstallation: {outcome or 'works'}")
    if installed.tensorflow_estimator is None:
        return 1
    if not installed.has_own_estimator and installed.tf_keras is not None:
        os.environ.setdefault(legacy_keras.VARIABLE, "1")  # A failed installation removed it.

    print(f"\nprivate names: {_private_names(installed)}")
    files = _estimator_files()
    given_up = [file for file in files if _GIVEN_UP in file.as_posix()]
    loaded, lost = _source_names([file for file in files if file not in given_up])
    print(f"\nnames in the source of tensorflow-estimator: {loaded}")
    print(f"\nnames in its TPU part, which is given up after 2.15: {_source_names(given_up)[0]}")
    return 1 if outcome or lost else 0


def _installation() -> str:
    """Why `tf.estimator` cannot be installed, or an empty text."""
    try:
        installer.install()
    except UnsupportedTensorFlowError as error:
        return str(error)
    return ""


def _heading(installed: versions.Installed) -> str:
    return (
        f"TensorFlow {installed.tensorflow}, "
        f"tensorflow-estimator {installed.tensorflow_estimator}, tf_keras {installed.tf_keras}, "
        f"protobuf {installed.protobuf}, Python {platform.python_version()}\n"
        f"supported: TensorFlow {versions.SUPPORTED}"
    )


def _private_names(installed: versions.Installed) -> str:
    if installed.has_own_estimator:
        return "none is needed on this TensorFlow, which has its own tf.estimator"
    missing = private_names.missing()
    count = len(private_names.OURS) + len(private_names.ESTIMATORS)
    return _summary(count, missing)


def _source_names(files: list[Path]) -> tuple[str, bool]:
    """The text to print, and whether a name is missing that the kit does not supply."""
    mentioned = source_scan.names(files)
    missing: dict[str, set[str]] = {}
    for name, where in mentioned.items():
        prefix = source_scan.first_missing(name)
        if prefix:
            missing.setdefault(prefix, set()).update(where)
    lines = [
        f"{prefix} is missing: {', '.join(sorted(where))}"
        + (" (supplied at installation)" if prefix in private_names.SUPPLIED else "")
        for prefix, where in sorted(missing.items())
    ]
    return _summary(len(mentioned), lines), not private_names.SUPPLIED.issuperset(missing)


def _summary(count: int, missing: list[str]) -> str:
    if not missing:
        return f"all {count} are there"
    return "\n".join([f"{len(missing)} missing of {count}", *(f"  - {line}" for line in missing)])


def _estimator_files() -> list[Path]:
    # Importing the package may fail, so find_spec is used.
    spec: Any = importlib.util.find_spec("tensorflow_estimator")
    root = Path(spec.origin).parent / "python" / "estimator"
    return sorted(_python_files(root))


def _python_files(root: Path) -> Iterator[Path]:
    for file in root.rglob("*.py"):
        if not any(part in file.as_posix() for part in _NOT_LOADED):
            yield file


if __name__ == "__main__":
    sys.exit(main())
