"""tf.contrib.framework: variables, arg_scope, checkpoints, nest and checks of tensors.

Variables and arg_scope are from tf_slim, which continues the code of tf.contrib.framework. The
other names are TensorFlow's own; _framework_names.py says where they are now.
"""

from __future__ import annotations

from typing import Any

from . import _framework_functions, _slim
from ._framework_names import find

OF_ARG_SCOPE = [
    "add_arg_scope",
    "arg_scope",
    "arg_scoped_arguments",
    "current_arg_scope",
    "has_arg_scope",
]

OF_VARIABLES = """
VariableDeviceChooser add_model_variable assert_global_step assert_or_get_global_step
assign_from_checkpoint assign_from_checkpoint_fn assign_from_values assign_from_values_fn
create_global_step filter_variables get_global_step get_local_variables get_model_variables
get_or_create_global_step get_trainable_variables get_unique_variable get_variable_full_name
get_variables get_variables_by_name get_variables_by_suffix get_variables_to_restore
global_variable local_variable model_variable variable
""".split()

_OF_TENSORFLOW = """
BoundedTensorSpec RecordInput TensorSpec argsort assert_same_float_dtype assert_scalar
convert_to_tensor_or_sparse_tensor convolutional_delta_orthogonal convolutional_orthogonal_1d
convolutional_orthogonal_2d convolutional_orthogonal_3d deprecated deprecated_arg_values
deprecated_args get_graph_from_inputs get_name_scope init_from_checkpoint is_tensor list_variables
load_checkpoint load_variable nest prepend_name_scope smart_case smart_cond smart_constant_value
sort strip_name_scope
""".split()

__all__ = [*_framework_functions.__all__, *OF_ARG_SCOPE, *OF_VARIABLES, *_OF_TENSORFLOW]

_WARM_START = "Use tf.estimator.WarmStartSettings with tf.estimator.VocabInfo instead."

REMEDIES = {
    "fuse_op": "Use tf.graph_util.extract_sub_graph and edit the GraphDef instead.",
    "load_and_remap_matrix_initializer": _WARM_START,
    "load_embedding_initializer": _WARM_START,
    "load_linear_multiclass_bias_initializer": _WARM_START,
    "load_variable_slot_initializer": _WARM_START,
    "zero_initializer": "Use tf.zeros_initializer instead.",
}

OLD_PATHS = {
    "python.framework": None,
    "python.framework.checkpoint_utils": None,
    "python.framework.tensor_util": None,
    "python.ops": None,
    "python.ops.arg_scope": "tf_slim.ops.arg_scope",
    "python.ops.ops": None,
    "python.ops.script_ops": None,
    "python.ops.sort_ops": None,
    "python.ops.variables": "tf_slim.ops.variables",
}


def __getattr__(name: str) -> Any:
    if name in _framework_functions.__all__:
        return getattr(_framework_functions, name)
    if name in OF_ARG_SCOPE:
        return getattr(_slim.load("tf_slim.ops.arg_scope"), name)
    if name in OF_VARIABLES:
        return getattr(_slim.load("tf_slim.ops.variables"), name)
    if name in _OF_TENSORFLOW:
        return find(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
