"""Every private name of TensorFlow that the modules of TPUEstimator import.

If one is missing, TPUEstimator raises an error when it is made, and the rest of `tf.estimator`
works (given_up.py). So a later TensorFlow without code for TPUs does not stop other programs.
TensorFlow 2.15.1 and 2.21.0 have all of these names. Tests compare the table with the source.
"""

from __future__ import annotations

from ..private_names import names

_TPU = "tensorflow.python.tpu"
_COLUMNS = "tensorflow.python.feature_column"

NAMES = names(
    ("tensorflow.core.framework.variable_pb2", "VariableDef", "copying a variable on a TPU"),
    (
        "tensorflow.core.protobuf.tpu.compilation_result_pb2",
        "CompilationResultProto",
        "errors of the TPU compiler",
    ),
    (
        "tensorflow.python.data.util.nest",
        "flatten flatten_up_to pack_sequence_as",
        "structures of input tensors",
    ),
    (
        "tensorflow.python.distribute.cluster_resolver.tpu_cluster_resolver",
        "is_running_in_gce",
        "finding the TPUs of a cloud",
    ),
    (
        "tensorflow.python.distribute.distribute_lib",
        "_DefaultReplicaThreadMode",
        "summaries of one TPU core of many",
    ),
    (
        f"{_COLUMNS}.feature_column",
        "_EmbeddingColumn _SharedEmbeddingColumn",
        "columns of TPU embeddings",
    ),
    (f"{_COLUMNS}.feature_column_lib", "EmbeddingColumn", "columns of TPU embeddings"),
    (
        f"{_COLUMNS}.utils",
        "sequence_length_from_sparse_tensor",
        "sequence columns of TPU embeddings",
    ),
    ("tensorflow.python.framework.function", "Defun", "the input queue of a TPU"),
    (
        "tensorflow.python.framework.ops",
        "get_to_proto_function register_proto_function",
        "exporting variables for TPUs",
    ),
    (
        "tensorflow.python.ops.control_flow_ops",
        "ControlFlowContext XLAControlFlowContext",
        "finding tensors of a model_fn that a host call may not use",
    ),
    (
        "tensorflow.python.ops.control_flow_util",
        "ENABLE_CONTROL_FLOW_V2",
        "the training loop on a TPU",
    ),
    (
        "tensorflow.python.ops.ref_variable",
        "_from_proto_fn _to_proto_fn",
        "exporting variables for TPUs",
    ),
    (
        "tensorflow.python.ops.summary_ops_v2",
        "_summary_state legacy_raw_flush summary_writer_initializer_op",
        "summaries of host calls",
    ),
    ("tensorflow.python.platform.tf_logging", "warn", "warnings of TPUEstimator"),
    (f"{_TPU}.device_assignment", "device_assignment", "placing a model on TPU cores"),
    (
        f"{_TPU}.feature_column",
        "_TPUEmbeddingColumn _TPUSharedEmbeddingColumn _TPU_FC_TO_SCOPE "
        "get_sequence_length_feature_key_name_from_feature_key_name",
        "columns of TPU embeddings",
    ),
    (
        f"{_TPU}.feature_column_v2",
        "EmbeddingDevice _TENSOR_CORE_MASK_KEY_SUFFIX _TPUDeviceSpecificEmbeddingColumnV2 "
        "_TPUEmbeddingColumnV2 _TPUSharedDeviceSpecificEmbeddingColumnV2 "
        "_TPUSharedEmbeddingColumnV2 pad_sparse_embedding_lookup_indices",
        "columns of TPU embeddings",
    ),
    (f"{_TPU}.functional", "TPUPartitionedCall", "prediction on a TPU from a SavedModel"),
    (
        f"{_TPU}.ops.tpu_ops",
        "outfeed_dequeue_tuple outfeed_enqueue_tuple tpu_ordinal_selector",
        "the output queue of a TPU",
    ),
    (f"{_TPU}.preempted_hook", "CloudTPUPreemptedHook", "TPUs that a cloud takes back"),
    (
        f"{_TPU}.tpu",
        "_TPUInferenceContext prune_unconnected_ops_from_xla split_compile_and_shard",
        "compiling a model for TPUs",
    ),
    (f"{_TPU}.tpu_feed", "InfeedQueue _PartitionedInfeedQueue", "the input queue of a TPU"),
    (f"{_TPU}.tpu_function", "on_device_training_loop", "the training loop on a TPU"),
    (f"{_TPU}.tpu_replication", "_TPU_REPLICATE_ATTR", "exporting for TPUs"),
    (
        f"{_TPU}.tpu_system_metadata",
        "_query_tpu_system_metadata master_job",
        "finding the TPUs of a system",
    ),
    (f"{_TPU}.training_loop", "repeat while_loop", "the training loop on a TPU"),
    ("tensorflow.python.util.tf_inspect", "getfullargspec", "the arguments of a host call"),
)
