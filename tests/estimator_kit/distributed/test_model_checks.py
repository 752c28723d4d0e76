"""Parameters of models that would give other results with several devices or tasks are refused."""

from __future__ import annotations

import types

import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.distributed import all_reduce, sessions
from estimator_kit.errors import ConfigError
from estimator_kit.models import find_model
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


def test_a_sum_of_losses_would_be_divided_by_the_number_of_devices(document):
    """TensorFlow's optimizers divide each loss that is not made by its own reductions."""
    document["objectives"]["click"]["reduction"] = "sum"
    summed = Constant(feature_specs.parse(document), {})
    for strategy in ("mirrored", "multi_worker_mirrored"):
        with pytest.raises(ConfigError) as error:
            all_reduce.check_model(config(strategy=strategy), summed)
        assert str(error.value) == (
            f"objectives.click: reduction: sum does not work with --strategy={strategy}: "
            "TensorFlow would divide this loss by the number of devices. Use another reduction, or "
            "train in one process."
        )


def test_the_optimizer_of_a_linear_part_is_checked_too(document):
    spec, strategy = feature_specs.parse(document), config(strategy="multi_worker_mirrored")
    wide_deep = find_model("wide_deep")
    all_reduce.check_model(strategy, wide_deep(spec, {}))
    with pytest.raises(ConfigError, match=r"^the optimizer lazy_adam does not work with"):
        all_reduce.check_model(strategy, wide_deep(spec, {"linear_optimizer": "lazy_adam"}))


def test_the_default_optimizer_works_with_every_strategy(document, caplog):
    """The default `lazy_adam` is not refused, and a line says what it does."""
    caplog.set_level("INFO", logger="estimator_kit")
    spec, dnn = feature_specs.parse(document), find_model("dnn")
    assert dnn(spec, {}).params.optimizer == "lazy_adam"
    for strategy in ("mirrored", "multi_worker_mirrored"):
        all_reduce.check_model(config(strategy=strategy), dnn(spec, {}))
    assert [record.getMessage() for record in caplog.records] == [
        "--strategy=multi_worker_mirrored: the default optimizer lazy_adam makes the steps of "
        "adam, because the gradients of tables are dense there"
    ]
    strategy = config(strategy="multi_worker_mirrored")
    for params in ({"optimizer": "lazy_adam"}, {"optimizers": {"": "lazy_adam"}}):
        with pytest.raises(ConfigError, match=r"^the optimizer lazy_adam does not work with"):
            all_reduce.check_model(strategy, dnn(spec, params))


def test_another_default_optimizer_is_refused_as_a_named_one_is(document):
    spec, linear = feature_specs.parse(document), find_model("linear")
    with pytest.raises(ConfigError, match=r"^the optimizer ftrl does not work with"):
        all_reduce.check_model(config(strategy="multi_worker_mirrored"), linear(spec, {}))


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


@pytest.mark.parametrize("negatives", ["mixed", "in_batch"])
def test_frequencies_that_count_steps_do_not_fit_several_batches_a_step(monkeypatch, negatives):
    team = types.SimpleNamespace(ends_together=True)
    monkeypatch.setattr(sessions.Team, "of", lambda *arguments: team)
    spec = feature_specs.parse({
        "features": {"items": {"dtype": "int64", "shape": "variable"}},
        "columns": {
            "items": {"identity": "items", "size": 3, "sequence": True},
            "items_emb": {"embedding": "items", "dimension": 2},
        },
        "groups": {"steps": ["items_emb"]},
        "labels": {"next": {"dtype": "int64", "shape": "variable"}},
        "objectives": {"next": {
            "head": "next_item", "items": "items",
            "loss": {"sampled_softmax": {"samples": 2, "negatives": negatives}},
        }},
    })  # fmt: skip
    model = Constant(spec, {})
    if negatives == "in_batch":
        sessions.check_model(config(), model, None)
        return
    with pytest.raises(ConfigError) as error:
        sessions.check_model(config(), model, None)
    assert str(error.value) == (
        "objectives.next: negatives: mixed does not work with --strategy=sync_replicas: the "
        "frequencies of items count steps, but several tasks each have a batch in a step. Use "
        "in_batch, or another --strategy."
    )


def test_averages_that_each_task_has_are_refused():
    """With the averages of batch normalization, the first checkpoint would never be saved."""
    with tf.Graph().as_default():
        tf.compat.v1.get_variable("kernel", [2])
        all_reduce._NoAverages().begin()
        batch_norm(tf.ones([3, 2]), "norm", training=True)
        with pytest.raises(ConfigError) as error:
            all_reduce._NoAverages().begin()
    assert str(error.value) == (
        "the variable norm/moving_mean is an average of the batches of each task, as of batch "
        "normalization, which cannot be saved with --strategy=multi_worker_mirrored. Use "
        "layer_norm, or another --strategy."
    )
