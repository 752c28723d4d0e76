"""Checks that a model accepts its parameters and the spec, and has the metrics that flags name."""

from __future__ import annotations

from estimator_kit.checkpoints import model_outline
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.embeddings import table_memory
from estimator_kit.model.computing import Computing
from estimator_kit.training import plan, preparation
from feature_specs.spec import FeatureSpec


def check(config: ExperimentConfig, spec: FeatureSpec) -> None:
    """Builds the graphs of the model that `config` names; trains nothing.

    Raises:
      ConfigError: the model does not accept its parameters or the spec, its tables do not fit into
        memory, or it has no metric with the name that a flag asks for.
    """
    model = preparation.make_model(config, spec)
    model.computing = Computing.of(config)
    if config.strategy is None and not config.worker_hosts:
        table_memory.check(spec, model.groups())
    outline = model_outline.outline(model)
    plan.check_metrics(config.model_copy(update={"mode": "train_and_evaluate"}), outline)
