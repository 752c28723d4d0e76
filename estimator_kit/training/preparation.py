"""What a run of a model needs before its mode does its work: its cluster, its model, its data.

    prepared = prepare(config)
    prepared.spec, prepared.model, prepared.view

Training, evaluation, export and prediction begin so. Nothing is written but the default data, where
they are asked for and missing.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
from typing import Optional

from estimator_kit import storage
from estimator_kit.config import cluster, cluster_rules
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.embeddings import table_memory
from estimator_kit.errors import ConfigError
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.models import find_model
from estimator_kit.training import determinism
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from input_pipelines.record_files import file_systems
from input_pipelines.synthetic import impression_log

_log = logging.getLogger("estimator_kit")


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What is prepared.

    Attributes:
      spec: the feature spec.
      model: the model over it; None for a prediction of --export_dir, which needs none.
      view: the cluster that this process is in, or None.
    """

    spec: FeatureSpec
    model: Optional[ModelFn]
    view: Optional[ClusterView]


def prepare(config: ExperimentConfig) -> Prepared:
    """Reads the spec, finds the cluster, makes the model, and the default data where asked for.

    Raises:
      SpecError, ConfigError: something in the config or spec cannot be used.
    """
    spec = parser.load(config.spec)
    view = cluster.view_of(config, os.environ)
    problems = cluster_rules.view_problems(config, view)
    if problems:
        raise ConfigError("\n".join(problems))
    _check_file_systems(config)
    if view is not None:
        print(view.text(), file=sys.stderr, flush=True)
    if config.deterministic:
        determinism.enable(config.seed)
    model = make_model(config, spec) if config.export_dir is None else None
    if model is not None and view is None:
        table_memory.check(spec, model.groups())
    # Of a cluster the chief alone writes data; the others wait for it.
    if config.generate_default_data is not None and (view is None or view.is_chief):
        try:
            impression_log.generate(config.generate_default_data, progress=_log_day)
        except ValueError as error:  # The folder holds something else.
            raise ConfigError(f"--generate_default_data: {error}") from error
    if model is None and config.mode != "predict":
        raise ConfigError(f"--export_dir is for --mode=predict, not for --mode={config.mode}")
    return Prepared(spec, model, view)


def make_model(config: ExperimentConfig, spec: FeatureSpec) -> ModelFn:
    """The model that a config names, over a spec; raises ConfigError where that does not go."""
    try:
        model = find_model(config.model)(spec, config.model_params)
    except TypeError as error:  # An abstract method that is not there, or another __init__.
        raise ConfigError(f"model {config.model!r} cannot be made: {error}") from error
    unused = [group for group in spec.groups if group not in model.groups()]
    if unused:
        _log.warning("model %s does not read the group %s", config.model, ", ".join(unused))
    return model


def _check_file_systems(config: ExperimentConfig) -> None:
    """That TensorFlow can reach every folder and file that flags name, beside the input files.

    And that the model directory can be written, where the mode writes there.
    """
    for flag in (
        "model_dir", "generate_default_data", "warm_start_from", "export_dir", "predict_output",
    ):  # fmt: skip
        path = getattr(config, flag)
        if path is not None:
            file_systems.check(path, flag=f"--{flag}")
    if config.model_dir is not None and config.mode != "predict":
        storage.check_writable(config.model_dir, flag="--model_dir")


def _log_day(day: impression_log.DayReport) -> None:
    if not day.kept:
        _log.info("generated %s: %d rows", day.name, day.rows)
