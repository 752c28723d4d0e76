"""The built-in models, and the lookup of a model class by its name."""

from __future__ import annotations

from estimator_kit.config import choices
from estimator_kit.errors import ConfigError
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.models.aitm import AITMModel
from estimator_kit.models.dcn import DCNModel
from estimator_kit.models.din import DIENModel, DINModel
from estimator_kit.models.dnn import DNNModel, LinearModel, WideDeepModel
from estimator_kit.models.fm import DeepFMModel, FMModel
from estimator_kit.models.multi_task import CGCModel, MMoEModel, PLEModel, SharedBottomModel
from estimator_kit.models.next_item_model import GRU4RecModel, SASRecModel
from estimator_kit.models.sequence_model import GRUModel, LSTMModel
from estimator_kit.models.task_sequence import ESMMModel
from estimator_kit.models.transformer import TransformerModel
from estimator_kit.models.two_tower import TwoTowerModel
from estimator_kit.models.xdeepfm import AutoIntModel, XDeepFMModel
from feature_specs.errors import did_you_mean
from input_pipelines import eager

MODELS: dict[str, type[ModelFn]] = {
    "aitm": AITMModel,
    "autoint": AutoIntModel,
    "cgc": CGCModel,
    "dcn": DCNModel,
    "deepfm": DeepFMModel,
    "dien": DIENModel,
    "din": DINModel,
    "dnn": DNNModel,
    "esmm": ESMMModel,
    "fm": FMModel,
    "gru": GRUModel,
    "gru4rec": GRU4RecModel,
    "linear": LinearModel,
    "lstm": LSTMModel,
    "mmoe": MMoEModel,
    "ple": PLEModel,
    "sasrec": SASRecModel,
    "shared_bottom": SharedBottomModel,
    "transformer": TransformerModel,
    "two_tower": TwoTowerModel,
    "wide_deep": WideDeepModel,
    "xdeepfm": XDeepFMModel,
}

# What `--search=auto` tries, in this order, if the spec has the groups that the model needs.
SEARCHED = ("wide_deep", "dnn", "deepfm", "autoint", "dcn", "linear", "sasrec", "gru4rec")


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
    with eager.kept():  # Old modules begin with `tf.disable_v2_behavior()`.
        return choices.find(
            "model",
            name,
            ModelFn,  # type: ignore[type-abstract]
            base_name="estimator_kit.ModelFn",
            example="my_models.tower:Tower",
        )
