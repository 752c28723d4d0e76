"""Reports the names that `tf.estimator` needs and the installed TensorFlow does not have.

Use it when a new TensorFlow appears:

    python tools/tensorflow_report.py

It prints the versions, whether `compat.install()` works, the names of compat/private_names.py and
compat/tpu/private_names.py that are missing, and every other name of TensorFlow that the source of
tensorflow-estimator mentions and that is missing. The exit status is 0 if nothing is missing.

It changes only its own process. It finds names without running the source, so it does not find
names behind `getattr` or attributes of objects.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

if __name__ == "__main__":
    # Importing that package would install it, and may fail. An empty package makes its modules
    # importable.
    _bare = ModuleType("estimator_kit.compat")
    _root = Path(__file__).resolve().parent.parent
    sys.path.insert(0, str(_root))
    _bare.__path__ = [str(_root / "estimator_kit" / "compat")]
    sys.modules["estimator_kit.compat"] = _bare

from estimator_kit.compat import installer, legacy_keras, private_names, versions
from estimator_kit.compat.tpu import private_names as tpu_names
from estimator_kit.errors import UnsupportedTensorFlowError

# Parts of tensorflow-estimator that its API does not load.
_NOT_LOADED = ("testing_utils", "/timeseries/")


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
    text, lost = _source_names(_estimator_files())
    print(f"\nnames in the source of tensorflow-estimator: {text}")
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
    needed = private_names.OURS + private_names.ESTIMATORS + tpu_names.NAMES
    return _summary(len(needed), private_names.missing(needed))


def _source_names(files: list[Path]) -> tuple[str, bool]:
    """The text to print, and whether a name is missing that the kit does not supply."""
    mentioned = names(files)
    missing: dict[str, set[str]] = {}
    for name, where in mentioned.items():
        prefix = first_missing(name)
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


def names(files: Iterable[Path]) -> dict[str, set[str]]:
    """Dotted names below `tensorflow`, each with the names of the files that use it."""
    files_of: dict[str, set[str]] = {}
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        aliases = _aliases(tree)
        mentioned = set(aliases.values())
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                dotted = _dotted(node)
                if dotted and (base := aliases.get(dotted[0])):
                    mentioned.add(".".join([base, *dotted[1:]]))
        for name in mentioned:
            files_of.setdefault(name, set()).add(file.name)
    return files_of


def first_missing(name: str) -> Optional[str]:
    """The shortest prefix of a dotted name that does not exist, or None if all of it exists.

    Attributes of a class or a function are not checked: only an object has
    `Saver.last_checkpoints`.
    """
    parts = name.split(".")
    value: Any = importlib.import_module(parts[0])
    for count in range(2, len(parts) + 1):
        prefix = ".".join(parts[:count])
        try:
            value = getattr(value, parts[count - 1])
        except (AttributeError, ImportError):
            # Only these packages have modules that nothing has imported yet. Importing a public
            # module would make a second copy of TensorFlow's API.
            if parts[1] not in ("python", "core", "tools"):
                return prefix
            try:
                value = importlib.import_module(prefix)
            except ImportError:
                return prefix
        if not _is_module(value):
            return None
    return None


def _is_module(value: Any) -> bool:
    # A lazy loader of TensorFlow is a module too.
    return isinstance(value, type(ast))


def _aliases(tree: ast.AST) -> dict[str, str]:
    """Local name -> the TensorFlow name that it stands for."""
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "tensorflow":
                    if alias.asname:
                        aliases[alias.asname] = alias.name
                    else:
                        aliases["tensorflow"] = "tensorflow"
        elif isinstance(node, ast.ImportFrom) and _is_tensorflow(node):
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return aliases


def _is_tensorflow(node: ast.ImportFrom) -> bool:
    return not node.level and (node.module or "").split(".")[0] == "tensorflow"


def _dotted(node: ast.expr) -> Optional[list[str]]:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else None


if __name__ == "__main__":
    sys.exit(main())
