"""The built-in models, and the lookup of a model class by its name."""

from __future__ import annotations

import importlib

from estimator_kit.errors import ConfigError
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.models.aitm import AITMModel
from estimator_kit.models.autoint import AutoIntModel
from estimator_kit.models.dcn import DCNModel
from estimator_kit.models.deepfm import DeepFMModel
from estimator_kit.models.din import DINModel
from estimator_kit.models.dnn import DNNModel
from estimator_kit.models.esmm import ESMMModel
from estimator_kit.models.fm import FMModel
from estimator_kit.models.linear import LinearModel
from estimator_kit.models.mmoe import MMoEModel
from estimator_kit.models.ple import CGCModel, PLEModel
from estimator_kit.models.recurrent import GRUModel, LSTMModel
from estimator_kit.models.shared_bottom import SharedBottomModel
from estimator_kit.models.transformer import TransformerModel
from estimator_kit.models.two_tower import TwoTowerModel
from estimator_kit.models.wide_deep import WideDeepModel
from estimator_kit.models.xdeepfm import XDeepFMModel
from feature_specs.errors import did_you_mean

MODELS: dict[str, type[ModelFn]] = {
    "aitm": AITMModel,
    "autoint": AutoIntModel,
    "cgc": CGCModel,
    "dcn": DCNModel,
    "deepfm": DeepFMModel,
    "din": DINModel,
    "dnn": DNNModel,
    "esmm": ESMMModel,
    "fm": FMModel,
    "gru": GRUModel,
    "linear": LinearModel,
    "lstm": LSTMModel,
    "mmoe": MMoEModel,
    "ple": PLEModel,
    "shared_bottom": SharedBottomModel,
    "transformer": TransformerModel,
    "two_tower": TwoTowerModel,
    "wide_deep": WideDeepModel,
    "xdeepfm": XDeepFMModel,
}


def find_model(name: str) -> type[ModelFn]:
    """The class of a built-in model (`dnn`) or of a user's model (`my_pkg.my_module:MyModel`).

    Raises:
      ConfigError: the class does not exist, cannot be imported, or is not a `ModelFn`.
    """
    if ":" not in name:
        if name not in MODELS:
            raise ConfigError(
                f"unknown model {name!r}{did_you_mean(name, MODELS)} "
                "Write your own model as package.module:ClassName."
            )
        return MODELS[name]
    module_name, _, class_name = name.partition(":")
    if not module_name or not class_name or module_name.startswith("."):
        raise ConfigError(
            f"model {name!r}: expected package.module:ClassName, as in my_models.tower:Tower"
        )
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"model {name!r}: cannot import {module_name!r}: {error}. "
            "Install its package, or put its folder on PYTHONPATH."
        ) from error
    model = getattr(module, class_name, None)
    if model is None:
        classes = [n for n, c in vars(module).items() if _is_model(c)]
        hint = did_you_mean(class_name, classes)
        if module_name == "__main__":
            hint = ". Other processes cannot import a class of a script. Move it to a module."
        raise ConfigError(f"model {name!r}: {module_name!r} has no {class_name!r}{hint}")
    if not _is_model(model):
        raise ConfigError(
            f"model {name!r} is not a subclass of estimator_kit.ModelFn. Make it one."
        )
    return model


def _is_model(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, ModelFn)
