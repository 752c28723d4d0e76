"""Parameters of models that would give other results with several devices or tasks are refused."""

from __future__ import annotations

import types

import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.distributed import all_reduce, collective, sessions
from estimator_kit.errors import ConfigError
from estimator_kit.models.normalization import batch_norm
from tests.estimator_kit.model.test_model_fn import Constant


@pytest.fixture
def model(document):
    spec = feature_specs.parse(document)
    return lambda **params: Constant(spec, params)


def config(**fields):
    return types.SimpleNamespace(
        **{**{name: field.default for name, field in ExperimentConfig.model_fields.items()},
           **fields}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"accumulate": 2},
         "the model parameter accumulate does not work with --strategy=mirrored: it would apply to "
         "the gradients of each device separately. Remove it."),
        ({"clip_norm": 1.0},
         "the model parameter clip_norm does not work with --strategy=mirrored: it would apply to "
         "the gradients of each device separately. Remove it."),
        ({"combine": "gradnorm"},
         "the model parameter combine=gradnorm does not work with --strategy=mirrored: each device "
         "would compare the gradients of its batch, and learn other weights. Use uncertainty, "
         "or remove it."),
        ({"combine": {"pcgrad": {"seed": 3}}},
         "the model parameter combine={'pcgrad': {'seed': 3}} does not work with "
         "--strategy=mirrored: each device would compare the gradients of its batch, and learn "
         "other weights. Use uncertainty, or remove it."),
    ],
)  # fmt: skip
def test_what_several_devices_do_not_support(model, params, message):
    with pytest.raises(ConfigError) as error:
        all_reduce.check_model(config(strategy="mirrored"), model(**params))
    assert str(error.value) == message


def test_what_several_devices_support(model):
    for params in ({}, {"combine": "uncertainty"}, {"optimizer": "ftrl"}):
        all_reduce.check_model(config(strategy="mirrored"), model(**params))


def test_averages_of_pieces_of_tables_are_refused(model, monkeypatch):
    team = types.SimpleNamespace(ends_together=False)
    monkeypatch.setattr(sessions.Team, "of", lambda *arguments: team)
    averaged = model(moving_average=0.9)
    sessions.check_model(config(), averaged, None)
    with pytest.raises(ConfigError) as error:
        sessions.check_model(config(partition_mib=64.0), averaged, None)
    assert str(error.value) == (
        "the model parameter moving_average does not work with --partition_mib: the averages of "
        "pieces would not be saved as whole tables. Remove one of them."
    )


def test_averages_that_each_task_has_are_refused():
    """With the averages of batch normalization, the first checkpoint would never be saved."""
    with tf.Graph().as_default():
        tf.compat.v1.get_variable("kernel", [2])
        collective._NoAverages().begin()
        batch_norm(tf.ones([3, 2]), "norm", training=True)
        with pytest.raises(ConfigError) as error:
            collective._NoAverages().begin()
    assert str(error.value) == (
        "the variable norm/moving_mean is an average of the batches of each task, as of batch "
        "normalization, which cannot be saved with --strategy=multi_worker_mirrored. Use "
        "layer_norm, or another --strategy."
    )
