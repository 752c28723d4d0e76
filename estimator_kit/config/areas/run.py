"""The spec, folder and model of a run, or an export. Imports no TensorFlow."""

from __future__ import annotations

import sys
from typing import Annotated, Any, ClassVar, Optional

import pydantic
from pydantic import Field
from pydantic_core import PydanticCustomError

from estimator_kit.config.areas.base import LARGEST, InStore, Settings, setting

_NAME_OR_CLASS = (
    "the name of a model, such as 'wide_deep' or 'package.module:ClassName', or a subclass of "
    "estimator_kit.ModelFn"
)
_TOP_OF_MODULE = "a class at the top level of a module, not inside a function or another class"


class Run(Settings):
    """The spec and folder of a run."""

    heading: ClassVar[str] = "The run"

    spec: str = setting(
        "",
        "The feature spec, a YAML or JSON file. feature_specs/catalog has examples.",
        changes="",
        named=True,
        in_store=InStore.READ,
    )
    model_dir: Optional[str] = setting(
        None,
        "The folder of the run: checkpoints, exports, TensorBoard events and result.json. If "
        "you start again with the same folder, training continues from the last checkpoint. "
        "--mode=inspect also takes the path of a checkpoint; an empty --model_dir= shows the model "
        "of --spec, --model and --model_params.",
        changes="nothing",
        in_store=InStore.FOLDER,
    )


class ModelChoice(Settings):
    """The model, its parameters, and its initial values."""

    heading: ClassVar[str] = "The model"

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
    seed: Annotated[int, Field(ge=-LARGEST - 1, le=LARGEST)] = setting(
        1,
        "Decides the order of rows and the initial values of variables.",
        changes="records rows training",
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


class FromExport(Settings):
    """An export instead of the latest checkpoint."""

    heading: ClassVar[str] = "An export"

    export_dir: Optional[str] = setting(
        None,
        "--mode=predict and --mode=evaluate: the export (a SavedModel) to use instead of the "
        "latest checkpoint, or a folder of versions, whose newest version is used. You do not need "
        "--spec if the export keeps its feature spec. --mode=transform and --mode=inspect: the "
        "export to transform or to show.",
        changes="",
        named=True,
        in_store=InStore.READ,
    )
