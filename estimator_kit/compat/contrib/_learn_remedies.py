"""What to use instead of the names of tf.contrib.learn that are not here."""

from __future__ import annotations

_ESTIMATOR = (
    "Use tf.estimator.{0}: train instead of fit, and columns of tf.feature_column. An input_fn "
    "returns the same features and labels."
)
_DATASETS = "Use tf.keras.datasets, for example tf.keras.datasets.mnist.load_data()."
_DATA = "Use tf.data, for example tf.data.experimental.make_batched_features_dataset."
_NUMPY = "Use tf.estimator.inputs.numpy_input_fn or tf.estimator.inputs.pandas_input_fn."
_HEAD = "Use the function of tf.contrib.estimator, such as binary_classification_head."
_LOOP = "Use tf.train.MonitoredTrainingSession, or a tf.estimator.Estimator."

REMEDIES = {
    **{
        name: _ESTIMATOR.format(name)
        for name in """
            DNNClassifier DNNEstimator DNNLinearCombinedClassifier DNNLinearCombinedEstimator
            DNNLinearCombinedRegressor DNNRegressor Estimator LinearClassifier LinearEstimator
            LinearRegressor
        """.split()
    },
    **dict.fromkeys(("BaseEstimator", "Evaluable", "SKCompat", "Trainable"),
                    _ESTIMATOR.format("Estimator")),
    **dict.fromkeys(("DynamicRnnEstimator", "LogisticRegressor", "SVM"),
                    "Write a model_fn for tf.estimator.Estimator."),
    **dict.fromkeys(("KMeansClustering", "kmeans"), "Use tf.estimator.experimental.KMeans."),
    "dnn": _ESTIMATOR.format("DNNClassifier"),
    "dnn_linear_combined": _ESTIMATOR.format("DNNLinearCombinedClassifier"),
    "gc": "Delete old exports with tf.gfile, or use tf.estimator.BestExporter.",
    "linear": _ESTIMATOR.format("LinearClassifier"),
    "MetricSpec": "Use tf.estimator.add_metrics, with a function of features, labels, predictions.",
    "ModelFnOps": "Return a tf.estimator.EstimatorSpec from the model_fn.",
    "PredictionKey": "Use the keys of the predictions: classes, probabilities, logits.",
    "ProblemType": "Leave it out: tf.estimator has no problem types.",
    "preprocessing": "Use tf.keras.layers.TextVectorization, or a table of tf.contrib.lookup.",
    **dict.fromkeys(("datasets", "load_dataset", "maybe_download", "read_data_sets"), _DATASETS),
    **dict.fromkeys(
        """
        io read_batch_examples read_batch_features read_batch_record_features
        read_keyed_batch_examples read_keyed_batch_examples_shared_queue read_keyed_batch_features
        read_keyed_batch_features_shared_queue
        """.split(),
        _DATA,
    ),
    **dict.fromkeys(
        """
        data_feeder dask_io learn_io extract_dask_data extract_dask_labels extract_pandas_data
        extract_pandas_labels extract_pandas_matrix pandas_io
        infer_real_valued_columns_from_input infer_real_valued_columns_from_input_fn
        """.split(),
        _NUMPY,
    ),
    **dict.fromkeys(
        """
        binary_svm_head head multi_class_head multi_head multi_label_head poisson_regression_head
        regression_head
        """.split(),
        _HEAD,
    ),
    **dict.fromkeys("evaluate graph_actions infer run_feeds run_n train tune".split(), _LOOP),
    "ValidationMonitor": "Use tf.estimator.train_and_evaluate, or InMemoryEvaluatorHook of "
    "tf.contrib.estimator.",
    "models": "Write a model_fn with tf.layers.",
    "no_op_train_fn": "Use `lambda loss: tf.no_op()`.",
    "ops": "Use tf.nn.",
}  # fmt: skip
