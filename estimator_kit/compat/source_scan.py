"""Finds the TensorFlow names that Python sources use.

Without running anything, `names` finds every `module.attribute` below `tensorflow` that a file
reaches through its imports:

    from tensorflow.python.ops import lookup_ops     # tensorflow.python.ops.lookup_ops
    lookup_ops.index_table_from_tensor(...)          # ... .index_table_from_tensor
    tf.compat.v1.train.Saver                         # tensorflow.compat.v1.train.Saver

It does not find names behind `getattr` or attributes of objects.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Optional


def names(files: Iterable[Path]) -> dict[str, set[str]]:
    """Dotted names below `tensorflow`, each with the names of the files that use it."""
    found: dict[str, set[str]] = {}
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
            found.setdefault(name, set()).add(file.name)
    return found


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
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "tensorflow":
                    if alias.asname:
                        found[alias.asname] = alias.name
                    else:
                        found["tensorflow"] = "tensorflow"
        elif isinstance(node, ast.ImportFrom) and _is_tensorflow(node):
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _is_tensorflow(node: ast.ImportFrom) -> bool:
    return not node.level and (node.module or "").split(".")[0] == "tensorflow"


def _dotted(node: ast.expr) -> Optional[list[str]]:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else None
