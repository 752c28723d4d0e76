"""What a run is: its mode, spec, model and folder."""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Literal, Optional

import pydantic
from pydantic_core import PydanticCustomError

from estimator_kit.config.modes import Mode
from estimator_kit.config.settings.base import Settings, setting
from feature_specs.entry import PositiveFloat

_NAME_OR_CLASS = (
    "the name of a model, as 'wide_deep' or 'package.module:ClassName', or a subclass of "
    "estimator_kit.ModelFn"
)
_TOP_OF_MODULE = (
    "a class at the top of a module, where its name finds it again; one inside a function or "
    "another class cannot be found"
)


class RunSettings(Settings):
    """What a run is: its mode, spec, model and folder."""

    heading: ClassVar[str] = "The run"

    mode: Mode = setting(
        "train_and_evaluate",
        "What to do; --help lists the modes. It may also be the first word after the program.",
    )
    spec: str = setting(
        "",
        "The feature spec, a YAML or JSON file. feature_specs/catalog holds examples.",
    )
    model: str = setting(
        "wide_deep",
        "linear, dnn, wide_deep, fm, deepfm, dcn, xdeepfm, autoint (features crossed); din, "
        "gru, lstm, transformer (sequences); shared_bottom, mmoe, cgc, ple (several "
        "objectives); esmm, aitm (objectives that are steps one after the other); two_tower "
        "(retrieval); or a ModelFn of your own as package.module:ClassName.",
    )
    model_params: dict[str, Any] = setting(
        {},
        "A parameter of the model as name=value, the value in YAML: "
        "--model_params=hidden_units=[128,64] --model_params=learning_rate=0.02. May be "
        "repeated; the later of two for one name counts, and an empty one (--model_params=) "
        "drops those before it. An unknown name is an error that lists those there are.",
    )
    model_dir: Optional[str] = setting(
        None,
        "The run's folder: checkpoints, exports, events for TensorBoard, result.json. Started "
        "again with the same one, training goes on from the last checkpoint.",
    )
    generate_default_data: Optional[str] = setting(
        None,
        "A folder for the embedded default data, a synthetic advertising log (200,000 rows in 8 "
        "days); it is generated there first when it is not there yet.",
    )
    log_every_secs: PositiveFloat = setting(
        10.0,
        "Seconds between lines of progress where there is no terminal.",
    )
    exit_code_style: Literal["kit", "kubernetes"] = setting(
        "kit",
        "kubernetes: exit 0 in the place of 99 (nothing to do), which a Job takes for a failure.",
    )

    @pydantic.field_validator("model", mode="before")
    @classmethod
    def _name_of_class(cls, model: Any) -> Any:
        if isinstance(model, type):
            name = model.__qualname__
            if getattr(sys.modules.get(model.__module__), name, None) is not model:
                raise PydanticCustomError("model", _TOP_OF_MODULE)
            return f"{model.__module__}:{name}"
        if not isinstance(model, str):
            raise PydanticCustomError("model", _NAME_OR_CLASS)
        return model
