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

_PYTHON = "tensorflow.python"

# (old module, new module, names), all below tensorflow.python.
NAMES: tuple[tuple[str, str, str], ...] = (
    ("framework.ops", "framework.tensor", "Tensor"),
    ("framework.ops", "framework.indexed_slices", "IndexedSlices"),
    ("ops.control_flow_ops", "ops.cond", "cond cond_v2"),
    ("ops.control_flow_ops", "ops.while_loop", "while_loop"),
    ("ops.control_flow_ops", "ops.control_flow_case", "case"),
)

# Old module -> new module, both below tensorflow.python.
MODULES: dict[str, str] = {
    "training.training_ops": "ops.gen_training_ops",
}


def install(undo: contextlib.ExitStack) -> None:
    """Adds the names and modules that are missing; `undo` removes them."""
    for old, new, names in NAMES:
        holder = importlib.import_module(f"{_PYTHON}.{old}")
        source = importlib.import_module(f"{_PYTHON}.{new}")
        for name in names.split():
            if not hasattr(holder, name):
                setattr(holder, name, getattr(source, name))
                undo.callback(delattr, holder, name)
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
