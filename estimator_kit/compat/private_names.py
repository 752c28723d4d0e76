"""Every private name of TensorFlow and tf_keras that `tf.estimator` needs after 2.15.

`OURS` lists the names that this package uses itself. `ESTIMATORS` lists the names that the modules
behind tensorflow-estimator's public API import; tests compare it with their source. Those that only
TPUEstimator needs are in tpu/private_names.py. Public names (`tf.train.Saver`, ...) are not listed;
tools/tensorflow_report.py reads them from the source.

`missing` checks that names exist. It imports modules of TensorFlow, and changes nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import NamedTuple, Optional


class PrivateName(NamedTuple):
    """A name that TensorFlow may remove without notice.

    Attributes:
      module: the module to import.
      attribute: the name in the module.
      why: what needs it.
    """

    module: str
    attribute: str
    why: str


def missing(listed: Optional[Iterable[PrivateName]] = None) -> list[str]:
    """One sentence for each name (None: of all names) that cannot be imported, in order."""
    problems = (_problem(name) for name in (OURS + ESTIMATORS if listed is None else listed))
    return [problem for problem in problems if problem]


def _problem(name: PrivateName) -> Optional[str]:
    full = f"{name.module}.{name.attribute}"
    try:
        exists = hasattr(importlib.import_module(name.module), name.attribute)
    except ModuleNotFoundError as error:
        if error.name and f"{name.module}.".startswith(f"{error.name}."):
            exists = False
        else:
            return f"{full} cannot be imported ({error}): {name.why}"
    except Exception as error:  # A new Python or NumPy can break a module in any way.
        return f"{full} cannot be imported ({type(error).__name__}: {error}): {name.why}"
    return None if exists else f"{full} is missing: {name.why}"


def names(*groups: tuple[str, str, str]) -> tuple[PrivateName, ...]:
    """The names of groups of a module, its names with spaces between them, and what needs them."""
    return tuple(
        PrivateName(module, attribute, why)
        for module, attributes, why in groups
        for attribute in attributes.split()
    )


_EXPORT = "tensorflow.python.util.tf_export"
_DISTRIBUTE = "tensorflow.python.distribute"

OURS = names(
    (_EXPORT, "API_ATTRS API_ATTRS_V1 _Attributes", "entry 'estimator' for the export decorator"),
    ("tensorflow.python.util.lazy_loader", "KerasLazyLoader", "loading legacy Keras in one thread"),
    (
        f"{_DISTRIBUTE}.distribute_coordinator",
        "run_distribute_coordinator CoordinatorMode",
        "distribution strategies over several tasks",
    ),
    (
        f"{_DISTRIBUTE}.distribute_coordinator_context",
        "get_current_worker_context",
        "the task of a distribution strategy",
    ),
    (f"{_DISTRIBUTE}.multi_worker_util", "normalize_cluster_spec", "driving a remote cluster"),
)

_KERAS = "tf_keras.api._v2.keras"
_MODEL_UTILS = "tensorflow.python.saved_model.model_utils"
_TRAINING = "tensorflow.python.training"

ESTIMATORS = names(
    ("tensorflow.core.framework.summary_pb2", "Summary", "summaries of evaluation metrics"),
    (
        "tensorflow.core.protobuf.rewriter_config_pb2",
        "RewriterConfig",
        "session configuration of a cluster",
    ),
    (
        "tensorflow.python.checkpoint.checkpoint",
        "Checkpoint frozen_saver",
        "reading checkpoints of either format, model_to_estimator",
    ),
    (
        "tensorflow.python.checkpoint.checkpoint_management",
        "latest_checkpoint",
        "finding the checkpoint to go on from",
    ),
    (
        "tensorflow.python.checkpoint.graph_view",
        "ObjectGraphView",
        "reading checkpoints of either format",
    ),
    (
        "tensorflow.python.checkpoint.saveable_compat",
        "legacy_saveable_name",
        "checkpoints of LinearSDCA",
    ),
    ("tensorflow.python.eager.context", "graph_mode", "train, evaluate and predict in a graph"),
    ("tensorflow.python.eager.monitoring", "BoolGauge StringGauge", "usage counters"),
    (
        "tensorflow.python.feature_column.feature_column",
        "InputLayer _DenseColumn _LazyBuilder _LinearModel _NumericColumn",
        "canned models on v1 feature columns",
    ),
    (
        "tensorflow.python.feature_column.feature_column_lib",
        "CategoricalColumn NumericColumn concatenate_context_input deserialize_feature_columns "
        "is_feature_column_v2 serialize_feature_columns",
        "canned models",
    ),
    (
        "tensorflow.python.feature_column.feature_column_v2",
        "CategoricalColumn NumericColumn _create_weighted_sum _normalize_feature_columns "
        "_sanitize_column_name_for_variable_scope _verify_static_batch_size_equality",
        "canned linear models",
    ),
    (
        "tensorflow.python.feature_column.serialization",
        "deserialize_feature_columns serialize_feature_columns",
        "canned RNN models",
    ),
    (
        "tensorflow.python.framework.ops",
        "GraphKeys add_to_collection colocate_with convert_to_tensor get_collection "
        "internal_convert_to_tensor name_scope uid",
        "graphs of heads and canned models",
    ),
    (
        "tensorflow.python.ops.clustering_ops",
        "CLUSTERS_VAR_NAME COSINE_DISTANCE KMEANS_PLUS_PLUS_INIT KMeans RANDOM_INIT "
        "SQUARED_EUCLIDEAN_DISTANCE",
        "KMeansClustering",
    ),
    ("tensorflow.python.ops.control_flow_ops", "with_dependencies", "training ops of Estimator"),
    (
        "tensorflow.python.ops.gen_lookup_ops",
        "lookup_table_export_v2 lookup_table_find_v2 lookup_table_import_v2 "
        "lookup_table_insert_v2 lookup_table_size_v2 mutable_dense_hash_table_v2",
        "LinearSDCA",
    ),
    ("tensorflow.python.ops.gen_sdca_ops", "sdca_optimizer_v2", "LinearSDCA"),
    (
        "tensorflow.python.ops.lookup_ops",
        "LookupInterface index_table_from_tensor index_to_string_table_from_tensor",
        "label vocabularies of heads",
    ),
    (
        "tensorflow.python.ops.nn",
        "log_poisson_loss sigmoid_cross_entropy_with_logits",
        "losses of regression heads",
    ),
    ("tensorflow.python.ops.string_ops", "as_string", "class names in predictions"),
    ("tensorflow.python.ops.variable_scope", "_pure_variable_scope", "canned linear models"),
    ("tensorflow.python.ops.variables", "PartitionedVariable", "partitioned variables"),
    ("tensorflow.python.platform.gfile", "ListDirectory", "deleting old exports"),
    ("tensorflow.python.profiler.trace", "Trace", "tracing train_and_evaluate"),
    (
        _MODEL_UTILS,
        "EXPORT_TAG_MAP SIGNATURE_KEY_MAP build_all_signature_defs export_outputs_for_mode "
        "get_export_outputs get_temp_export_dir get_timestamped_export_dir",
        "export_saved_model",
    ),
    (
        f"{_MODEL_UTILS}.export_output",
        "ClassificationOutput EvalOutput ExportOutput PredictOutput RegressionOutput TrainOutput "
        "_SupervisedOutput",
        "export signatures",
    ),
    (
        f"{_MODEL_UTILS}.export_utils",
        "SINGLE_FEATURE_DEFAULT_NAME SINGLE_LABEL_DEFAULT_NAME SINGLE_RECEIVER_DEFAULT_NAME "
        "build_all_signature_defs get_temp_export_dir get_timestamped_export_dir",
        "serving input receivers",
    ),
    (f"{_MODEL_UTILS}.mode_keys", "EstimatorModeKeys", "ModeKeys"),
    (
        "tensorflow.python.saved_model.path_helpers",
        "get_variables_dir get_variables_path",
        "warm start from a SavedModel",
    ),
    ("tensorflow.python.summary.summary", "scalar", "loss summaries"),
    ("tensorflow.python.tpu.tensor_tracer", "TensorTracer", "EstimatorSpec"),
    (
        f"{_TRAINING}.basic_session_run_hooks",
        "CheckpointSaverHook CheckpointSaverListener FeedFnHook FinalOpsHook GlobalStepWaiterHook "
        "LoggingTensorHook NanLossDuringTrainingError NanTensorHook ProfilerHook SecondOrStepTimer "
        "StepCounterHook StopAtStepHook SummarySaverHook _MultiStepStopAtStepHook",
        "the hooks of tf.estimator",
    ),
    (f"{_TRAINING}.device_setter", "STANDARD_PS_OPS", "placing variables on parameter servers"),
    (
        f"{_TRAINING}.evaluation",
        "_MultiStepStopAfterNEvalsHook _StopAfterNEvalsHook _evaluate_once "
        "_get_or_create_eval_step",
        "Estimator.evaluate",
    ),
    (f"{_TRAINING}.saver", "BaseSaverBuilder", "checkpoints of LinearSDCA"),
    (f"{_TRAINING}.server_lib", "Server", "the servers of a cluster"),
    (
        f"{_TRAINING}.session_run_hook",
        "SessionRunArgs SessionRunContext SessionRunHook SessionRunValues",
        "hooks",
    ),
    (
        f"{_TRAINING}.training",
        "MonitoredTrainingSession get_or_create_steps_per_run_variable",
        "Estimator.train",
    ),
    (
        f"{_TRAINING}.training_util",
        "GLOBAL_STEP_READ_KEY _get_or_create_global_step_read",
        "the global step",
    ),
    ("tensorflow.python.util.all_util", "remove_undocumented", "LinearSDCA"),
    ("tensorflow.python.util.deprecation", "deprecated hide_attribute_from_api", "the API"),
    ("tensorflow.python.util.function_utils", "fn_args", "reading a model_fn's arguments"),
    ("tensorflow.python.util.module_wrapper", "TFModuleWrapper", "the API"),
    ("tensorflow.python.util.tf_contextlib", "contextmanager", "Estimator"),
    (_EXPORT, "api_export", "the API"),
    ("tensorflow.tools.docs.doc_controls", "inheritable_header", "EstimatorV2"),
    (f"{_KERAS}.__internal__.losses", "compute_weighted_loss", "losses of heads"),
    (
        f"{_KERAS}.__internal__.optimizers",
        "convert_to_legacy_optimizer",
        "optimizers of canned models",
    ),
    (
        f"{_KERAS}.__internal__.backend",
        "initialize_variables track_variable",
        "model_to_estimator",
    ),
    (
        f"{_KERAS}.__internal__.models",
        "clone_and_build_model in_place_subclassed_model_state_restoration",
        "model_to_estimator",
    ),
)

# The names that tensorflow-estimator uses and that this package supplies.
SUPPLIED = frozenset(
    {
        f"{_DISTRIBUTE}.estimator_training",
        f"{_EXPORT}.ESTIMATOR_API_NAME",
        "tensorflow.python.tpu.session_support",
        "tensorflow.python.tpu.tpu_embedding",
        "tensorflow.python.tpu.tpu_embedding_gradient",
        "tensorflow.compat.v1.tpu.experimental.AdagradParameters",
        "tensorflow.compat.v1.tpu.experimental.AdamParameters",
        "tensorflow.compat.v1.tpu.experimental.FtrlParameters",
        "tensorflow.compat.v1.tpu.experimental.StochasticGradientDescentParameters",
    }
)
