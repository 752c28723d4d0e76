"""tf.contrib.estimator: heads, hooks and changes of Estimators.

What became public later comes from tensorflow-estimator; heads are its canned heads, which are
objects with `create_estimator_spec` and `create_loss`.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator.canned import head as _head

from . import _sources
from ._estimator_extenders import clip_gradients_by_norm as clip_gradients_by_norm
from ._estimator_extenders import forward_features as forward_features
from ._estimator_extenders import replicate_model_fn as replicate_model_fn
from ._estimator_extenders import tower_optimizer
from ._estimator_heads import binary_classification_head as binary_classification_head
from ._estimator_heads import logistic_regression_head as logistic_regression_head
from ._estimator_heads import multi_class_head as multi_class_head
from ._estimator_heads import poisson_regression_head as poisson_regression_head
from ._estimator_heads import regression_head as regression_head
from ._estimator_multi_head import multi_head as multi_head
from ._estimator_multi_label import multi_label_head as multi_label_head

__all__ = """
    BaselineEstimator DNNEstimator DNNLinearCombinedEstimator Head InMemoryEvaluatorHook
    LinearEstimator SavedModelEstimator TowerOptimizer add_metrics binary_classification_head
    build_raw_supervised_input_receiver_fn build_supervised_input_receiver_fn_from_input_fn
    call_logit_fn clip_gradients_by_norm dnn_logit_fn_builder export_all_saved_models
    export_saved_model_for_mode forward_features linear_logit_fn_builder logistic_regression_head
    make_early_stopping_hook make_stop_at_checkpoint_step_hook multi_class_head multi_head
    multi_label_head poisson_regression_head regression_head replicate_model_fn stop_if_higher_hook
    stop_if_lower_hook stop_if_no_decrease_hook stop_if_no_increase_hook
""".split()

OLD_PATHS = tuple(
    f"python.estimator.{name}"
    for name in """
        dnn dnn_linear_combined early_stopping export extenders head hooks linear logit_fns
        multi_head replicate_model_fn saved_model_estimator
    """.split()
)

_TREES = "Train trees with YDF (pip install ydf), XGBoost or LightGBM."
_RNN = (
    "Use {0} of tensorflow_estimator.python.estimator.canned.rnn, whose argument for num_units is "
    "units, or write a model_fn with tf.nn.dynamic_rnn."
)

REMEDIES = {
    "DNNClassifierWithLayerAnnotations": "Use tf.estimator.DNNClassifier.",
    "DNNRegressorWithLayerAnnotations": "Use tf.estimator.DNNRegressor.",
    "RNNClassifier": _RNN.format("RNNClassifier"),
    "RNNEstimator": _RNN.format("RNNEstimator"),
    "boosted_trees_classifier_train_in_memory": _TREES,
    "boosted_trees_regressor_train_in_memory": _TREES,
}

_ESTIMATOR = "tensorflow_estimator.python.estimator"

__getattr__ = _sources.lookup(
    __name__,
    [
        f"{_ESTIMATOR}.api._v1.estimator.experimental",
        f"{_ESTIMATOR}.api._v1.estimator",
        f"{_ESTIMATOR}.canned.saved_model_estimator",
        f"{_ESTIMATOR}.export.export",
    ],
)

Head = _head._Head
TowerOptimizer = tower_optimizer


def export_all_saved_models(
    estimator: Any,
    export_dir_base: str,
    input_receiver_fn_map: Any,
    assets_extra: Any = None,
    as_text: bool = False,
    checkpoint_path: Optional[str] = None,
) -> bytes:
    """Exports one SavedModel for each mode of `input_receiver_fn_map`; returns its folder."""
    return estimator.experimental_export_all_saved_models(  # type: ignore[no-any-return]
        export_dir_base, input_receiver_fn_map, assets_extra, as_text, checkpoint_path
    )


def export_saved_model_for_mode(
    estimator: Any,
    export_dir_base: str,
    input_receiver_fn: Any,
    assets_extra: Any = None,
    as_text: bool = False,
    checkpoint_path: Optional[str] = None,
    mode: Any = tf.estimator.ModeKeys.PREDICT,
) -> bytes:
    """Exports a SavedModel for one mode; returns its folder."""
    return export_all_saved_models(
        estimator,
        export_dir_base,
        {mode: input_receiver_fn},
        assets_extra,
        as_text,
        checkpoint_path,
    )
