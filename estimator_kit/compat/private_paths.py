"""Private names of TensorFlow that have moved, at the places where old libraries look for them.

tf_slim 1.1.0, for example, needs `tensorflow.python.framework.ops.Tensor`, which is in the module
`tensor` since TensorFlow 2.14. `NAMES` lists each name with its new module, and `MODULES` each
module that is gone with the module that has its names now.

It only adds names that do not exist, and never replaces one.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

_PYTHON = "tensorflow.python"

# (old module, new module, names), all below tensorflow.python. `new=old` is a name that changed.
NAMES: tuple[tuple[str, str, str], ...] = (
    ("framework.ops", "framework.indexed_slices", "IndexedSlices"),
    ("framework.ops", "framework.tensor", "Tensor"),
    (
        "framework.ops",
        "framework.tensor_conversion_registry",
        "register_tensor_conversion_function",
    ),
    ("ops.array_ops", "ops.array_ops_stack", "stack unstack"),
    ("ops.control_flow_ops", "ops.cond", "cond cond_v2"),
    ("ops.control_flow_ops", "ops.control_flow_assert", "Assert"),
    ("ops.control_flow_ops", "ops.control_flow_case", "case"),
    ("ops.control_flow_ops", "ops.while_loop", "while_loop"),
    ("ops.variable_scope", "ops.variable_v1", "VariableV1=variable"),
    ("util.nest", "util.nest", "is_nested=is_sequence"),
)

# Old module -> new module, both below tensorflow.python.
MODULES: dict[str, str] = {
    "training.training_ops": "ops.gen_training_ops",
}


# Their module looks for them below tf_keras, where they are not.
_BATCH_NORMALIZATION = {
    "BatchNormalization": "BatchNormalization",
    "BatchNorm": "BatchNormalization",
    "batch_normalization": "batch_normalization",
    "batch_norm": "batch_normalization",
}


def install(undo: contextlib.ExitStack) -> None:
    """Adds the names and modules that are missing; `undo` removes them."""
    for old, new, names in NAMES:
        holder = importlib.import_module(f"{_PYTHON}.{old}")
        source = importlib.import_module(f"{_PYTHON}.{new}")
        for name in names.split():
            found, _, name = name.rpartition("=")
            _add(holder, name, getattr(source, found or name), undo)
    holder = importlib.import_module(f"{_PYTHON}.layers.normalization")
    layers = importlib.import_module("tensorflow.compat.v1").layers
    for name, found in _BATCH_NORMALIZATION.items():
        _add(holder, name, getattr(layers, found), undo)
    for old, new in MODULES.items():
        path = f"{_PYTHON}.{old}"
        if path not in sys.modules and importlib.util.find_spec(path) is None:
            package, _, name = path.rpartition(".")
            module = importlib.import_module(f"{_PYTHON}.{new}")
            sys.modules[path] = module
            undo.callback(sys.modules.pop, path, None)
            holder = importlib.import_module(package)
            setattr(holder, name, module)
            undo.callback(delattr, holder, name)


def _add(holder: ModuleType, name: str, value: Any, undo: contextlib.ExitStack) -> None:
    if name not in vars(holder):
        setattr(holder, name, value)
        undo.callback(delattr, holder, name)
