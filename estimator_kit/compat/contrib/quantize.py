"""tf.contrib.quantize: only its errors, which say what to use instead.

Programs import the module also where they do not quantize.
"""

from __future__ import annotations

__all__: list[str] = []

_REMEDY = (
    "TensorFlow 2 cannot rewrite a graph for quantized training. Train without it, and quantize "
    "the SavedModel with tf.lite.TFLiteConverter; or train a Keras model with "
    "tensorflow-model-optimization."
)

REMEDIES = {
    "create_eval_graph": _REMEDY,
    "create_training_graph": _REMEDY,
    "experimental_create_eval_graph": _REMEDY,
    "experimental_create_training_graph": _REMEDY,
}
