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
import functools
import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Optional

from . import added_modules

_PYTHON = "tensorflow.python"
_V1 = "tf.compat.v1."

# (old module, new module, names): below tensorflow.python; new ones also below _V1. `new=old` is a
# name that changed.
NAMES: tuple[tuple[str, str, str], ...] = (
    ("data.ops.dataset_ops", "data.ops.options", "Options"),
    ("feature_column.feature_column_v2", "feature_column.feature_column_v2_types", "FeatureColumn"),
    ("framework.ops", "framework.indexed_slices", "IndexedSlices"),
    ("framework.ops", "framework.stack", "default_session"),
    ("framework.ops", "framework.tensor", "Tensor disable_tensor_equality enable_tensor_equality"),
    ("framework.ops", "framework.tensor_conversion", "convert_to_tensor_v2"),
    (
        "framework.ops",
        "framework.tensor_conversion_registry",
        "register_tensor_conversion_function",
    ),
    (  # TensorFlow looks for them in a module that tf_keras does not have.
        "layers.normalization",
        f"{_V1}layers",
        "BatchNormalization BatchNormalization=BatchNorm batch_normalization "
        "batch_normalization=batch_norm",
    ),
    ("ops.array_ops", "ops.array_ops_stack", "stack unstack"),
    ("ops.control_flow_ops", "ops.cond", "cond cond_for_tf_v2 cond_v2"),
    ("ops.control_flow_ops", "ops.control_flow_assert", "Assert"),
    ("ops.control_flow_ops", "ops.control_flow_case", "case case_v2"),
    ("ops.control_flow_ops", "ops.control_flow_switch_case", "switch_case"),
    ("ops.control_flow_ops", "ops.while_loop", "while_loop while_loop_v2"),
    ("ops.nn_impl", "ops.nn_impl_distribute", "compute_average_loss scale_regularization_loss"),
    ("ops.random_ops", "ops.random_crop_ops", "random_crop"),
    ("ops.variable_scope", "ops.variable_v1", "VariableV1=variable default_variable_creator"),
    ("ops.variables", "ops.ref_variable", "RefVariable"),
    ("ops.variables", "ops.variable_v1", "VariableV1 is_variable_initialized"),
    (
        "saved_model.utils_impl",
        "saved_model.path_helpers",
        "get_assets_dir get_or_create_assets_dir get_or_create_variables_dir get_variables_dir "
        "get_variables_path",
    ),
    ("tpu.tpu", "tpu.tpu_replication", "TPUReplicateContext outside_compilation"),
    ("util.nest", "util.nest", "is_nested=is_sequence"),
)

_KERAS_MODULES = (
    "applications datasets datasets.imdb datasets.mnist preprocessing preprocessing.image "
    "preprocessing.sequence preprocessing.text"
).split()

# Old module -> new module, below tensorflow.python or _V1. A package comes before its modules.
MODULES: dict[str, str] = {
    "distribute.distribution_strategy_context": "distribute.distribute_lib",
    "training.distribute": "distribute.distribute_lib",
    "training.distribution_strategy_context": "distribute.distribute_lib",
    "training.tracking": "trackable",
    "training.tracking.base": "trackable.base",
    "training.tracking.data_structures": "trackable.data_structures",
    "training.tracking.graph_view": "checkpoint.graph_view",
    "training.tracking.tracking": "trackable.autotrackable",
    "training.tracking.util": "checkpoint.checkpoint",
    "training.training_ops": "ops.gen_training_ops",
    **{f"keras.{name}": f"{_V1}keras.{name}" for name in _KERAS_MODULES},
}


def install(undo: contextlib.ExitStack) -> None:
    """Adds the names and modules that are missing; `undo` removes them."""
    for old, name, new, found in _moves():
        holder, source = _module(old), _module(new)
        if holder is not None and name not in vars(holder) and hasattr(source, found):
            setattr(holder, name, getattr(source, found))
            undo.callback(delattr, holder, name)
    # All are looked for first: a package that is added would find its modules, as second copies.
    missing = [old for old in MODULES if _module(old) is None]
    for old in missing:
        module = _module(MODULES[old])
        if module is not None:
            added_modules.add(f"{_PYTHON}.{old}", module, undo)


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
    try:
        if name.startswith(_V1):
            v1 = importlib.import_module("tensorflow.compat.v1")
            return functools.reduce(getattr, name[len(_V1) :].split("."), v1)
        return importlib.import_module(f"{_PYTHON}.{name}")
    except (AttributeError, ModuleNotFoundError):
        return None
