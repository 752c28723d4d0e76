"""`ExperimentConfig`: everything that one run needs to know, checked where it is made.

Its fields are those of `settings`. `flags` makes one from the command line; a program makes one
itself. Imports no TensorFlow.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import pydantic

from estimator_kit.config.modes import MODES
from estimator_kit.config.rules.general import problems_of
from estimator_kit.config.settings import AllSettings
from estimator_kit.config.settings.base import Settings
from estimator_kit.errors import ConfigError
from feature_specs.errors import did_you_mean, nearest
from input_pipelines.prepare.convert.options import ConvertOptions


class ExperimentConfig(AllSettings):
    """One run. Fields are the flags of run.py by name, whose help says what each does.

    Settings may be written flat, or as areas of `estimator_kit.config.settings`, or both:

        ExperimentConfig(spec="spec.yaml", model_dir="run", train_files="a.tfrecord", max_steps=20)
        ExperimentConfig(TrainingSettings(max_steps=20), spec="spec.yaml", ...)

    `model` may be a subclass of `ModelFn`, which becomes its name, `package.module:ClassName`. One
    string for a field of several is a list of it alone; it is not divided at commas.

    Raises:
      ConfigError: a value is out of range, or fields do not go together.
    """

    def __init__(self, *areas: Settings, **values: Any):
        for area in areas:
            if not isinstance(area, Settings):
                raise ConfigError(
                    f"got {area!r}, expected settings by name, as mode='evaluate', or an area of "
                    "estimator_kit.config.settings"
                )
            given = area.model_dump(exclude_unset=True)
            doubled = sorted(set(given) & set(values))
            if doubled:
                raise ConfigError(f"--{doubled[0]} is given twice, in {type(area).__name__} too")
            values = {**given, **values}
        try:
            super().__init__(**values)
        except pydantic.ValidationError as error:
            problems = [_problem(item, type(self).model_fields) for item in error.errors()]
            raise ConfigError("\n".join(problems)) from error
        problems = problems_of(self)
        if problems:
            raise ConfigError("\n".join(problems))

    def convert_options(self) -> ConvertOptions:
        """How rows become shards."""
        return ConvertOptions(
            shard_mib=self.shard_mib,
            compression=self.shard_compression,
            order=self.convert_order,
            seed=self.seed,
            split_key=self.split_key,
            eval_fraction=self.eval_fraction or 0.0,
            step_columns=self.step_columns,
        )


C = TypeVar("C", bound=ExperimentConfig)


def complete(config: ExperimentConfig, kind: type[C]) -> C:
    """The same config as one of a kind of modes; it was checked when it was made."""
    made = kind.model_construct(_fields_set=set(config.model_fields_set), **dict(config))
    return cast(C, made)


def _problem(item: Any, fields: Any) -> str:
    name = ".".join(map(str, item["loc"][:1]))
    if item["type"] == "extra_forbidden":
        return f"unknown field {name!r}{did_you_mean(name, fields)}"
    if item["type"] == "missing":
        return f"--{name} is missing"
    expected = item["msg"].removeprefix("Input should be ")
    expected = "a list of strings" if item["type"] == "tuple_type" else expected
    hint = nearest(item["input"], MODES) if name == "mode" else ""
    return f"--{name}: got {item['input']!r}, expected {expected}{hint}"
