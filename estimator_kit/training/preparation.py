"""The common start of all modes that use a model: spec, cluster, model and default data.

It checks everything before anything is written. The one exception is the default data: it writes
them with --generate_default_data, where they are missing.

With `--deterministic`, a training gives the same checkpoint, bit for bit, each time. The order of
rows always depends only on (seed, epoch), and the initial values of variables depend only on the
seed. But threads add numbers in an order that differs from run to run. TensorFlow's op determinism
fixes that order, for the whole process and until it ends. Python's and NumPy's random generators
are seeded too, because a model may use them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import logging
import os
import random
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.checkpoints import model_outline, reading, run_record
from estimator_kit.config import cluster, user_errors
from estimator_kit.config.areas import AllSettings
from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.run import ModelChoice
from estimator_kit.config.cluster import view_problems
from estimator_kit.config.modes import OneModel, Trained, settings_of
from estimator_kit.embeddings import table_memory
from estimator_kit.errors import ConfigError
from estimator_kit.model import user_code
from estimator_kit.model.model_fn import OVERRIDABLE, ModelFn
from estimator_kit.models import find_model
from estimator_kit.training.run_config import make_estimator
from feature_specs.errors import nearest
from feature_specs.files import file_systems, staged
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from input_pipelines import eager
from input_pipelines.synthetic import impression_log


def write_default_data(data: Data) -> None:
    """Writes the days that are missing.

    Raises:
      ConfigError: the folder holds something else.
    """
    if data.generate_default_data is None:
        return
    try:
        impression_log.generate(data.generate_default_data, progress=_log_day)
    except ValueError as error:
        raise ConfigError(f"--generate_default_data: {error}") from error


def _log_day(day: impression_log.DayReport) -> None:
    if not day.kept:
        _log.info("generated %s: %d rows", day.name, day.rows)


def make_deterministic(seed: int) -> None:
    """Makes all later computations of this process reproducible."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    tf.random.set_seed(seed)
    tf.config.experimental.enable_op_determinism()


_log = logging.getLogger("estimator_kit")


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What a run works with.

    Attributes:
      spec: the feature spec of `--spec`.
      view: the cluster of this process, or None without a cluster.
      model: the model of `--model`, built for the spec.
    """

    spec: FeatureSpec
    view: Optional[cluster.ClusterView]
    model: ModelFn


@contextlib.contextmanager
def prepared(command: OneModel, spec: Optional[FeatureSpec] = None) -> Iterator[Prepared]:
    """What a run works with. Inside the block, errors name a checkpoint that cannot be read.

    Raises:
      SpecError, ConfigError: the run cannot start. Nothing was written.
    """
    spec = parser.load(command.run.spec) if spec is None else spec
    view = check_surroundings(command)
    model = make_model(command.choice, spec)
    if view is None:
        table_memory.check(spec, model.groups())
    generate_data(command.data, view)
    with reading.naming_damage(*_checkpoints_of(command.settings)):
        yield Prepared(spec, view, model)


def _checkpoints_of(config: AllSettings) -> list[Optional[str]]:
    """The folders of the checkpoints that the mode reads."""
    read = settings_of(config.mode)
    return [getattr(config, flag) for flag in ("model_dir", "warm_start_from") if flag in read]


def check_surroundings(command: OneModel) -> Optional[cluster.ClusterView]:
    """Checks cluster and file systems, and returns the cluster. Applies --deterministic."""
    view = cluster.view_of(command.settings, os.environ)
    problems = view_problems(command.settings, view)
    if problems:
        raise ConfigError("\n".join(problems))
    _check_file_systems(command.settings)
    if view is not None:
        print(view.text(), file=sys.stderr, flush=True)
    if command.program.deterministic:
        make_deterministic(command.choice.seed)
    return view


def _check_file_systems(config: AllSettings) -> None:
    """Checks that TensorFlow can reach every path in the flags, except the input files.

    Also checks that the model directory is writable, if the mode writes to it.
    """
    read = settings_of(config.mode)
    for flag in (
        "model_dir",
        "generate_default_data",
        "warm_start_from",
        "export_dir",
        "predict_output",
    ):
        path = getattr(config, flag) if flag in read else None
        if path is not None:
            file_systems.check(path, flag=f"--{flag}")
    if config.model_dir is not None and config.mode != "predict":
        staged.check_writable(config.model_dir, flag="--model_dir")


def generate_data(data: Data, view: Optional[cluster.ClusterView]) -> None:
    """Generates the default data with --generate_default_data, where they are missing.

    In a cluster the chief writes them, or the evaluator, which needs them from its start; only one
    process writes at a time. Workers wait for the chief.
    """
    if view is None or view.is_chief or view.task_type == cluster.EVALUATOR:
        write_default_data(data)


def make_model(choice: ModelChoice, spec: FeatureSpec) -> ModelFn:
    """Builds the model of a config for a spec. Raises ConfigError if that fails."""
    model = model_of(choice.model, find_model(choice.model), spec, choice.model_params)
    with user_code.explained(model, "groups"):
        read = model.groups()
        unknown = [group for group in read if group not in spec.groups]
        if isinstance(read, str) or unknown:
            raise ConfigError(
                f"expected names of groups of the spec, got {read!r}. Use some of: "
                f"{', '.join(spec.groups)}."
            )
    for name in vars(type(model)):
        near = nearest(name, OVERRIDABLE, least=0.85)
        if near and not hasattr(ModelFn, name) and not name.startswith("_"):
            _log.warning(
                "%s: the kit does not call this method%s", user_code.name_of(model, name), near
            )
    unused = [group for group in spec.groups if group not in read]
    if unused:
        _log.info("the model %s does not read the group %s", choice.model, ", ".join(unused))
    return model


def model_of(
    name: str, kind: type[ModelFn], spec: FeatureSpec, params: Mapping[str, Any]
) -> ModelFn:
    """Builds a model of a class.

    Args:
      name: the name of the class in the config, for messages.
      kind: the class.
      spec, params: the arguments of the class.

    Raises:
      ConfigError: the class cannot be built, or refuses the spec or the parameters.
    """
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    if missing:
        place = user_errors.place_of_class(kind)
        raise ConfigError(
            f"{place}the model {name!r} cannot be built: {kind.__name__} does not define "
            f"{', '.join(missing)}. Write this method."
        )
    with user_code.explained(kind, "__init__"), eager.kept():
        try:
            inspect.signature(kind).bind(spec, params)
        except TypeError as error:
            raise ConfigError(
                f"expected the arguments (spec, params), got {inspect.signature(kind)}. Pass both "
                "to super().__init__."
            ) from error
        model = kind(spec, params)
        if not hasattr(model, "combination"):  # The last attribute that ModelFn sets.
            raise ConfigError("it must call super().__init__(spec, params).")
    return model


def trained_estimator(command: Trained, spec: FeatureSpec, model: ModelFn) -> Any:
    """The Estimator of a model directory. Checks that its latest checkpoint fits the model."""
    checkpoint = reading.latest(command.run.model_dir)
    if checkpoint is None:
        raise ConfigError(
            f"--model_dir={command.run.model_dir} has no checkpoint. Train the model first, or "
            "check the path."
        )
    weights = model_outline.weights_of(model)
    run_record.check_spec_unchanged(command.run.model_dir, spec, weights.places)
    reading.check_fit(checkpoint, weights.shapes, ignore_extra=True)
    run_record.check_params(command.run.model_dir, type(model).__name__, model.params)
    return make_estimator(command, model)
