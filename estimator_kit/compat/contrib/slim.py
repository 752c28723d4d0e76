"""tf.contrib.slim: the package tf_slim, which continues its code, and the networks of slim.nets.

The networks are all that tf.contrib.slim.nets had: alexnet, inception v1 to v3, overfeat, resnet v1
and v2, and vgg.
"""

from __future__ import annotations

from typing import Any

from . import _slim, layers
from . import framework as _framework

_SLIM = _slim.load()

# Module of tf_slim -> its path in tf.contrib.slim.
_MODULES = {
    "data.data_decoder": "python.slim.data.data_decoder",
    "data.data_provider": "python.slim.data.data_provider",
    "data.dataset": "python.slim.data.dataset",
    "data.dataset_data_provider": "python.slim.data.dataset_data_provider",
    "data.parallel_reader": "python.slim.data.parallel_reader",
    "data.prefetch_queue": "python.slim.data.prefetch_queue",
    "data.tfexample_decoder": "python.slim.data.tfexample_decoder",
    "evaluation": "python.slim.evaluation",
    "learning": "python.slim.learning",
    "losses": "losses",
    "metrics": "metrics",
    "model_analyzer": "python.slim.model_analyzer",
    "queues": "python.slim.queues",
    "summaries": "python.slim.summaries",
}

_OF_SLIM = {path.rpartition(".")[2] for path in _MODULES.values()}

_NETS = (
    "alexnet inception inception_v1 inception_v2 inception_v3 overfeat resnet_utils resnet_v1 "
    "resnet_v2 vgg"
).split()

__all__ = sorted(
    {
        *layers.__all__,
        *_framework.OF_ARG_SCOPE,
        *_framework.OF_VARIABLES,
        *_OF_SLIM,
        "arg_scope_func_key",
        "nets",
    }
)

REMEDIES = layers.REMEDIES

OLD_PATHS = {
    "nets": "tf_slim.nets",
    "python.slim.data": "tf_slim.data",
    "python.slim.nets": "tf_slim.nets",
    **{path: f"tf_slim.{name}" for name, path in _MODULES.items()},
    **{f"nets.{name}": f"tf_slim.nets.{name}" for name in _NETS},
    **{f"python.slim.nets.{name}": f"tf_slim.nets.{name}" for name in _NETS},
}


def __getattr__(name: str) -> Any:
    if name == "nets":
        return _slim.load("tf_slim.nets")
    # summaries of tf.contrib.layers is another module.
    if name not in _OF_SLIM and hasattr(layers, name):
        return getattr(layers, name)
    return getattr(_SLIM, name)
