"""What to use instead of the modules of tf.contrib that this package does not have."""

from __future__ import annotations

_TREES = "Train trees with YDF (pip install ydf), XGBoost or LightGBM."
_PROBABILITY = "Use TensorFlow Probability (pip install tensorflow-probability) instead."
_IO = "Use tensorflow-io (pip install tensorflow-io) instead."
_STRATEGY = "Use tf.distribute instead, through RunConfig(train_distribute=...)."
_CLOUD = "Read and write gs:// paths with tensorflow-io-gcs-filesystem instead."
_PRUNING = "Use tensorflow-model-optimization with Keras instead."
_GONE = "TensorFlow 2 has nothing in its place. Remove the import, or run TensorFlow 1.15."

FOR_MODULES: dict[str, str] = {
    "all_reduce": _STRATEGY,
    "autograph": "Use tf.autograph instead.",
    "batching": "Use tf.nondifferentiable_batch_function, or the batching of TensorFlow Serving.",
    "bayesflow": _PROBABILITY,
    "bigtable": "Use google-cloud-bigtable with tf.data.Dataset.from_generator instead.",
    "boosted_trees": _TREES,
    "checkpoint": "Use tf.train.Checkpoint instead.",
    "cloud": _CLOUD,
    "cmake": _GONE,
    "coder": "Use TensorFlow Compression (pip install tensorflow-compression) instead.",
    "constrained_optimization": "Use TensorFlow Constrained Optimization (pip install "
    "tensorflow-constrained-optimization) instead.",
    "copy_graph": "Use tf.import_graph_def(other_graph.as_graph_def()) instead.",
    "cudnn_rnn": "Use tf.contrib.rnn.LSTMBlockFusedCell, or tf.keras.layers.LSTM.",
    "decision_trees": _TREES,
    "deprecated": "Use tf.summary.scalar, tf.summary.histogram, tf.summary.merge_all instead.",
    "distributions": _PROBABILITY,
    "factorization": "Use tf.estimator.experimental.KMeans for k-means, and the package implicit "
    "for matrix factorization (WALS).",
    "distribution_strategy_context": "Use tf.distribute.get_replica_context.",
    "ffmpeg": _IO,
    "fused_conv": "Use tf.nn.conv2d, tf.nn.bias_add and an activation instead.",
    "gan": "Use TensorFlow GAN (pip install tensorflow-gan) instead.",
    "graph_editor": "Edit a tf.GraphDef, and import it by tf.import_graph_def with input_map.",
    "grid_rnn": _GONE,
    "hadoop": "Use tf.data.TFRecordDataset on files converted to TFRecord instead.",
    "hvx": _GONE,
    "ignite": _IO,
    "input_pipeline": "Use tf.data instead.",
    "integrate": _PROBABILITY,
    "kafka": _IO,
    "kernel_methods": "Use tf.keras.layers.experimental.RandomFourierFeatures instead.",
    "kinesis": _IO,
    "labeled_tensor": _GONE,
    "legacy_seq2seq": "Use tf.contrib.seq2seq, or tf.keras.layers.RNN instead.",
    "lite": "Use tf.lite instead.",
    "libsvm": "Use sklearn.datasets.load_svmlight_file with tf.data instead.",
    "linalg": "Use tf.linalg.LinearOperatorDiag and its siblings in tf.linalg instead.",
    "linear_optimizer": "Use tf.train.FtrlOptimizer instead.",
    "memory_stats": "Use tf.config.experimental.get_memory_info instead.",
    "meta_graph_transform": _GONE,
    "mixed_precision": "Use tf.train.experimental.enable_mixed_precision_graph_rewrite instead.",
    "model_pruning": _PRUNING,
    "mpi_collectives": "Use Horovod (pip install horovod) instead.",
    "nccl": "Use tf.distribute.MirroredStrategy instead.",
    "nearest_neighbor": "Use faiss (pip install faiss-cpu) instead.",
    "optimizer_v2": "Use the optimizers of tf.train instead.",
    "periodic_resample": _GONE,
    "proto": "Use tf.io.decode_proto and tf.io.encode_proto instead.",
    "quantization": "Use tf.quantization instead.",
    "rate": _GONE,
    "receptive_field": "Use the package receptivefield instead.",
    "recurrent": "Use tf.nn.dynamic_rnn instead.",
    "reduce_slice_ops": "Use tf.math.segment_sum and its siblings instead.",
    "remote_fused_graph": _GONE,
    "resampler": "Interpolate with tf.gather_nd instead.",
    "rpc": "Use grpcio through tf.py_func instead.",
    "saved_model": "Use tf.keras.models.save_model and tf.keras.models.load_model with eager "
    "execution, or tf.saved_model.",
    "sdca": "Use tf.train.FtrlOptimizer instead.",
    "session_bundle": "Use tf.saved_model instead.",
    "signal": "Use tf.signal instead.",
    "solvers": "Use tf.linalg.experimental.conjugate_gradient instead.",
    "sparsemax": "Write it with tf.nn.top_k and tf.cumsum instead.",
    "specs": _GONE,
    "staging": "Use tf.data.Dataset.prefetch instead.",
    "stat_summarizer": "Use tf.profiler instead.",
    "tensor_forest": _TREES,
    "tensorrt": "Use tf.compat.v2.experimental.tensorrt.Converter on a SavedModel instead.",
    "testing": "Use tf.test instead.",
    "text": "Use TensorFlow Text (pip install tensorflow-text) instead.",
    "tfprof": "Use tf.profiler instead, as tf.profiler.profile.",
    "timeseries": "Forecast with statsmodels, or with a model of tf.keras.",
    "verbs": _STRATEGY,
}
