"""Private names of TensorFlow that have moved, at the places where old libraries look for them.

tf_slim 1.1.0, for example, needs `tensorflow.python.framework.ops.Tensor`, which is in the module
`tensor` since TensorFlow 2.14. `NAMES` lists each name with its new module, and `MODULES` each
module that is gone with the module that has its names now.

It only adds names that do not exist, and never replaces one. `tf.estimator` needs none of them. So
a name that a future TensorFlow moves once more does not stop the installation: it stays missing,
and `unknown` lists it.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Optional, cast

_PYTHON = "tensorflow.python"
_V1_LAYERS = "tf.compat.v1.layers"

# (old module, new module, names): modules below tensorflow.python, except _V1_LAYERS. `new=old` is
# a name that changed.
NAMES: tuple[tuple[str, str, str], ...] = (
    ("framework.ops", "framework.indexed_slices", "IndexedSlices"),
    ("framework.ops", "framework.tensor", "Tensor"),
    (
        "framework.ops",
        "framework.tensor_conversion_registry",
        "register_tensor_conversion_function",
    ),
    (  # TensorFlow looks for them in a module that tf_keras does not have.
        "layers.normalization",
        _V1_LAYERS,
        "BatchNormalization BatchNormalization=BatchNorm batch_normalization "
        "batch_normalization=batch_norm",
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


def install(undo: contextlib.ExitStack) -> None:
    """Adds the names and modules that are missing; `undo` removes them."""
    for old, name, new, found in _moves():
        holder, source = _module(old), _module(new)
        if holder is not None and name not in vars(holder) and hasattr(source, found):
            setattr(holder, name, getattr(source, found))
            undo.callback(delattr, holder, name)
    for old, new in MODULES.items():
        path = f"{_PYTHON}.{old}"
        module = _module(new)
        if _module(old) is None and module is not None:
            package, _, name = path.rpartition(".")
            sys.modules[path] = module
            undo.callback(sys.modules.pop, path, None)
            holder = sys.modules[package]
            setattr(holder, name, module)
            undo.callback(delattr, holder, name)


def unknown() -> list[str]:
    """The names and modules whose new place this TensorFlow does not have."""
    names = [f"{new}.{found}" for _, _, new, found in _moves() if not hasattr(_module(new), found)]
    return names + [new for new in MODULES.values() if _module(new) is None]


def _moves() -> Iterator[tuple[str, str, str, str]]:
    """(old module, name there, new module, name there)"""
    for old, new, names in NAMES:
        for name in names.split():
            found, _, before = name.rpartition("=")
            yield old, before, new, found or before


def _module(name: str) -> Optional[ModuleType]:
    if name == _V1_LAYERS:
        return cast(ModuleType, importlib.import_module("tensorflow.compat.v1").layers)
    try:
        return importlib.import_module(f"{_PYTHON}.{name}")
    except ModuleNotFoundError:
        return None
