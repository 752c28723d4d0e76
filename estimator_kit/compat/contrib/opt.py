"""tf.contrib.opt: optimizers of TensorFlow 1 with the update rules and slot names of 1.15."""

from __future__ import annotations

from ._adam import LazyAdamOptimizer, NadamOptimizer
from ._moving_average import MovingAverageOptimizer
from ._weight_decay import (
    AdamWOptimizer,
    DecoupledWeightDecayExtension,
    MomentumWOptimizer,
    extend_with_decoupled_weight_decay,
)

__all__ = [
    "AdamWOptimizer",
    "DecoupledWeightDecayExtension",
    "LazyAdamOptimizer",
    "MomentumWOptimizer",
    "MovingAverageOptimizer",
    "NadamOptimizer",
    "extend_with_decoupled_weight_decay",
]

OLD_PATHS = (
    "python.training.lazy_adam_optimizer",
    "python.training.moving_average_optimizer",
    "python.training.nadam_optimizer",
    "python.training.weight_decay_optimizers",
)

_ADAM = "Use tf.train.AdamOptimizer instead; it trains differently."
_ASYNCHRONOUS = (
    "Train with a parameter server through RunConfig(train_distribute=...), or with one worker."
)
_MOMENTUM = "Use tf.train.MomentumOptimizer instead; it trains differently."

REMEDIES = {
    "AGNCustomGetter": _ASYNCHRONOUS,
    "AGNOptimizer": _ASYNCHRONOUS,
    "AdaMaxOptimizer": _ADAM,
    "AdamGSOptimizer": _ADAM,
    "AddSignOptimizer": _MOMENTUM,
    "DropStaleGradientOptimizer": _ASYNCHRONOUS,
    "ElasticAverageCustomGetter": _ASYNCHRONOUS,
    "ElasticAverageOptimizer": _ASYNCHRONOUS,
    "ExternalOptimizerInterface": "Use scipy.optimize or tfp.optimizer instead.",
    "GGTOptimizer": "Use tf.train.AdagradOptimizer instead; it trains differently.",
    "LARSOptimizer": _MOMENTUM,
    "LazyAdamGSOptimizer": "Use tf.contrib.opt.LazyAdamOptimizer instead.",
    "ModelAverageCustomGetter": _ASYNCHRONOUS,
    "ModelAverageOptimizer": _ASYNCHRONOUS,
    "MultitaskOptimizerWrapper": "Leave it out: it only skips gradients that are all zero.",
    "PowerSignOptimizer": _MOMENTUM,
    "RegAdagradOptimizer": "Use tf.train.AdagradOptimizer instead.",
    "ScipyOptimizerInterface": "Use scipy.optimize or tfp.optimizer.lbfgs_minimize instead.",
    "ShampooOptimizer": _ADAM,
    "VariableClippingOptimizer": "Give the variable a constraint: "
    "tf.get_variable(..., constraint=...).",
    "clip_gradients_by_global_norm": "Use tf.clip_by_global_norm instead.",
}
