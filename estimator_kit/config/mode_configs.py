"""Configs of modes that need a setting: in these configs, the setting is never None.

`rules` refuse a config that lacks a setting of its mode, so `experiment_config.complete` only tells
the type checker.
"""

from __future__ import annotations

from estimator_kit.config.experiment_config import ExperimentConfig


class ModelDirConfig(ExperimentConfig):
    model_dir: str


class TuneConfig(ModelDirConfig):
    search: str


class RetrainConfig(ModelDirConfig):
    window_days: int


class RollbackConfig(ModelDirConfig):
    to: int


class ReproduceConfig(ModelDirConfig):
    cycle: str


class ConvertConfig(ExperimentConfig):
    convert_dir: str


class SchemaConfig(ExperimentConfig):
    schema_file: str


class TransformConfig(ExperimentConfig):
    export_dir: str
    transform_dir: str
