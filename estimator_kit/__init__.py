"""Trains, exports, serves and retrains TensorFlow Estimator models from a declarative feature spec.

    import estimator_kit as ek

    class MyModel(ek.ModelFn): ...
    result = ek.run(ek.ExperimentConfig(spec="spec.yaml", model="my_pkg:MyModel", ...))

A name is loaded when it is first used, so importing the package and checking a spec need no
TensorFlow. The first name that needs TensorFlow imports `estimator_kit.compat` first, which
restores `tf.estimator` on TensorFlow versions after 2.15.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import feature_specs as _feature_specs
    from estimator_kit.commands import run as run
    from estimator_kit.config.experiment_config import ExperimentConfig as ExperimentConfig
    from estimator_kit.errors import CheckpointError as CheckpointError
    from estimator_kit.errors import ConfigError as ConfigError
    from estimator_kit.errors import LossError as LossError
    from estimator_kit.errors import NothingToDo as NothingToDo
    from estimator_kit.errors import Stopped as Stopped
    from estimator_kit.errors import UnsupportedTensorFlowError as UnsupportedTensorFlowError
    from estimator_kit.exporters.signatures import (
        serving_input_receiver_fn as serving_input_receiver_fn,
    )
    from estimator_kit.model.heads.steps import StepScores as StepScores
    from estimator_kit.model.keras.model_fn import KerasModelFn as KerasModelFn
    from estimator_kit.model.model_fn import ModelFn as ModelFn
    from estimator_kit.model.model_params import ModelParams as ModelParams
    from estimator_kit.model.model_params import parameter as parameter
    from estimator_kit.models.layers import dense_layer as dense_layer
    from estimator_kit.models.layers import dnn_logits as dnn_logits
    from estimator_kit.models.layers import hidden_layers as hidden_layers
    from estimator_kit.models.normalization import batch_norm as batch_norm
    from estimator_kit.models.normalization import layer_norm as layer_norm
    from estimator_kit.observing.tracking import Tracker as Tracker
    from estimator_kit.optimizers.choice import make_optimizer as make_optimizer
    from estimator_kit.optimizers.choice import minimize as minimize
    from estimator_kit.result import RunResult as RunResult
    from feature_specs import FeatureSpec as FeatureSpec
    from feature_specs import SpecError as SpecError
    from feature_specs.reference.columns import feature_columns as feature_columns
    from feature_specs.reference.columns import make_parse_example_spec as make_parse_example_spec
    from feature_specs.reference.columns import (
        make_parse_sequence_example_spec as make_parse_sequence_example_spec,
    )
    from feature_specs.reference.ops import decode_features as decode_features
    from input_pipelines.errors import DataError as DataError
    from input_pipelines.input_fns import eval_input_fn as eval_input_fn
    from input_pipelines.input_fns import predict_input_fn as predict_input_fn
    from input_pipelines.input_fns import train_input_fn as train_input_fn
    from input_pipelines.record_files.writing import write_examples as write_examples
    from input_pipelines.record_files.writing import (
        write_sequence_examples as write_sequence_examples,
    )

    load_spec = _feature_specs.load
    parse_spec = _feature_specs.parse

_HOMES = {
    "CheckpointError": "estimator_kit.errors",
    "ConfigError": "estimator_kit.errors",
    "DataError": "input_pipelines.errors",
    "ExperimentConfig": "estimator_kit.config.experiment_config",
    "FeatureSpec": "feature_specs",
    "KerasModelFn": "estimator_kit.model.keras.model_fn",
    "LossError": "estimator_kit.errors",
    "ModelFn": "estimator_kit.model.model_fn",
    "ModelParams": "estimator_kit.model.model_params",
    "NothingToDo": "estimator_kit.errors",
    "RunResult": "estimator_kit.result",
    "SpecError": "feature_specs",
    "StepScores": "estimator_kit.model.heads.steps",
    "Stopped": "estimator_kit.errors",
    "Tracker": "estimator_kit.observing.tracking",
    "UnsupportedTensorFlowError": "estimator_kit.errors",
    "batch_norm": "estimator_kit.models.normalization",
    "decode_features": "feature_specs.reference.ops",
    "dense_layer": "estimator_kit.models.layers",
    "dnn_logits": "estimator_kit.models.layers",
    "eval_input_fn": "input_pipelines.input_fns",
    "feature_columns": "feature_specs.reference.columns",
    "hidden_layers": "estimator_kit.models.layers",
    "layer_norm": "estimator_kit.models.normalization",
    "load_spec": "feature_specs:load",
    "make_optimizer": "estimator_kit.optimizers.choice",
    "make_parse_example_spec": "feature_specs.reference.columns",
    "make_parse_sequence_example_spec": "feature_specs.reference.columns",
    "minimize": "estimator_kit.optimizers.choice",
    "parameter": "estimator_kit.model.model_params",
    "parse_spec": "feature_specs:parse",
    "predict_input_fn": "input_pipelines.input_fns",
    "run": "estimator_kit.commands",
    "serving_input_receiver_fn": "estimator_kit.exporters.signatures",
    "train_input_fn": "input_pipelines.input_fns",
    "write_examples": "input_pipelines.record_files.writing",
    "write_sequence_examples": "input_pipelines.record_files.writing",
}

# Modules and packages that import no TensorFlow.
_WITHOUT_TENSORFLOW = {
    "estimator_kit.config.experiment_config",
    "estimator_kit.errors",
    "estimator_kit.result",
    "feature_specs",
    "input_pipelines.errors",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    if module not in _WITHOUT_TENSORFLOW:
        importlib.import_module("estimator_kit.compat")
    return getattr(importlib.import_module(module), attribute or name)


def __dir__() -> list[str]:
    return __all__
