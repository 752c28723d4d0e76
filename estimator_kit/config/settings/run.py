"""The mode, spec, model and folder of a run."""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Literal, Optional

import pydantic
from pydantic_core import PydanticCustomError

from estimator_kit.config.modes import Mode
from estimator_kit.config.settings.base import Settings, setting
from feature_specs.entry import PositiveFloat

_NAME_OR_CLASS = (
    "the name of a model, such as 'wide_deep' or 'package.module:ClassName', or a subclass of "
    "estimator_kit.ModelFn"
)
_TOP_OF_MODULE = "a class at the top level of a module, not inside a function or another class"


class RunSettings(Settings):
    """The mode, spec, model and folder of a run."""

    heading: ClassVar[str] = "The run"

    mode: Mode = setting(
        "train_and_evaluate",
        "What to do; --help lists the modes. The mode may also be the first word after the "
        "program.",
        changes="nothing",
    )
    spec: str = setting(
        "",
        "The feature spec, a YAML or JSON file. feature_specs/catalog has examples.",
        changes="",
        named=True,
    )
    model: str = setting(
        "wide_deep",
        "linear, dnn, wide_deep, fm, deepfm, dcn, xdeepfm, autoint (these cross features); "
        "din, dien, gru, lstm, transformer (sequences); gru4rec, sasrec (the next item); "
        "shared_bottom, mmoe, cgc, ple (several objectives); esmm, aitm (objectives that follow "
        "each other, such as click and purchase); two_tower (retrieval); or your own ModelFn "
        "as package.module:ClassName.",
        changes="weights training outputs",
        named=True,
    )
    model_params: dict[str, Any] = setting(
        {},
        "A parameter of the model as name=value, with the value in YAML: "
        "--model_params=hidden_units=[128,64] --model_params=learning_rate=0.02. Repeat the "
        "flag for more parameters. If a name is given twice, the later value counts. An empty "
        "--model_params= drops all parameters before it. For an unknown name, the error lists "
        "the known ones.",
        changes="",
        named=True,
    )
    model_dir: Optional[str] = setting(
        None,
        "The folder of the run: checkpoints, exports, TensorBoard events and result.json. If "
        "you start again with the same folder, training continues from the last checkpoint. "
        "--mode=inspect also takes the path of a checkpoint; an empty --model_dir= shows the model "
        "of --spec, --model and --model_params.",
        changes="nothing",
    )
    generate_default_data: Optional[str] = setting(
        None,
        "A folder for the default data, a synthetic advertising log (200,000 rows in 8 days). "
        "If the data do not exist there, the program generates them first.",
        changes="nothing",
    )
    log_format: Literal["text", "json"] = setting(
        "text",
        "json: write each line as one JSON object with time, level and message, and the numbers of "
        "progress and evaluations under their names.",
        changes="nothing",
    )
    log_every_secs: PositiveFloat = setting(
        10.0,
        "Seconds between two lines of progress, if the output is not a terminal.",
        changes="nothing",
    )
    exit_code_style: Literal["kit", "kubernetes"] = setting(
        "kit",
        "kubernetes: exit with status 0 instead of 99 (nothing to do), which a Kubernetes Job "
        "would treat as a failure.",
        changes="nothing",
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
