"""Optimizers, schedules, accumulation, averages and freezing in whole runs with restarts."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.models import find_model
from estimator_kit.training.hooks.stop import StopHook
from tests.conftest import small_run, variables
from tests.placed import without_place

TABLE = "dnn/input_from_feature_columns/input_layer/user_embedding/embedding_weights"
AVERAGE = "/ExponentialMovingAverage"


@pytest.fixture
def config(ads, tmp_path):
    """Makes the config of a small run in a folder; keyword arguments change it."""

    def make(name="model", params=None, **changes):
        start = {"hidden_units": [4], "learning_rate": 0.1, **(params or {})}
        run = small_run(
            ads, tmp_path / name, mode="train", model="dnn", model_params=start, max_steps=10
        )
        return run(**changes)

    return make


class Stopped(find_model("dnn")):
    """A DNN whose first training ends with an error after the batch of step 7."""

    stops: ClassVar[list] = []

    def hooks(self, mode):
        class Stop(tf.compat.v1.train.SessionRunHook):
            def before_run(self, run_context):
                return tf.compat.v1.train.SessionRunArgs(tf.compat.v1.train.get_global_step())

            def after_run(self, run_context, run_values):
                if run_values.results >= 7 and Stopped.stops:
                    raise RuntimeError(Stopped.stops.pop())

        return [Stop()]


def stopped_after_a_checkpoint(run):
    """Starts a run that stops with an error, and returns the variables that it has saved."""
    Stopped.stops.append("stopped")
    with pytest.raises(ek.ConfigError, match="stopped"):
        ek.run(run)
    return variables(run.model_dir)


STOPPED = "tests.integration.test_optimizers_in_runs:Stopped"


@pytest.mark.nightly
def test_all_of_it_goes_on_where_it_was_stopped(config):
    params = {
        "optimizers": {"dnn/input": {"lazy_adam": {"beta1": 0.8}}, "": "adam"},
        "schedule": {"cosine": {"decay_steps": 9, "end": 0.1}}, "warm_up_steps": 2,
        "accumulate": 3, "moving_average": 0.9, "clip_value": 0.01, "clip_norm": 0.05,
    }  # fmt: skip
    whole, parts = (config(n, params, max_steps=11, model=STOPPED) for n in ("whole", "parts"))
    ek.run(whole)
    # Stopped in the middle of an accumulation of three batches. The last step has only two.
    middle = stopped_after_a_checkpoint(parts.model_copy(update={"save_checkpoints_steps": 5}))
    assert (middle["global_step"], middle["accumulated/batches"]) == (5, 2)
    assert len(middle[f"accumulated/{TABLE}/ids"]) > 0
    ek.run(parts)
    expected, found = variables(whole.model_dir), variables(parts.model_dir)
    assert set(expected) == set(found)
    assert len(found[f"accumulated/{TABLE}/ids"]) == 0
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    assert np.abs(found[TABLE] - found[TABLE + AVERAGE]).max() > 1e-4


@pytest.mark.ci
@pytest.mark.parametrize(
    "combine",
    [
        pytest.param("gradnorm", marks=pytest.mark.nightly),
        pytest.param({"pcgrad": {"seed": 3}}, marks=pytest.mark.nightly),
    ],
)
def test_combined_losses_go_on_where_they_were_stopped(config, combine):
    params = {
        "combine": combine, "freeze": ["dnn/hiddenlayer_0/bias"], "moving_average": 0.9,
        "optimizers": {"dnn/input": "lazy_adam", "": "adam"}, "accumulate": 2,
        "clip_norm": 0.05, "regularizer": {"l2": 0.01},
    }  # fmt: skip
    whole, parts = (config(n, params, max_steps=9, model=STOPPED) for n in ("whole", "parts"))
    ek.run(whole)
    middle = stopped_after_a_checkpoint(parts.model_copy(update={"save_checkpoints_steps": 5}))
    assert (middle["global_step"], middle["accumulated/batches"]) == (5, 1)
    ek.run(parts)
    expected, found = variables(whole.model_dir), variables(parts.model_dir)
    assert set(expected) == set(found)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    if combine == "gradnorm":
        metrics = ek.run(whole.model_copy(update={"mode": "evaluate"})).metrics
        for name in ("click", "buy"):
            weight = expected[f"combined_losses/weight/{name}"]
            assert metrics[f"loss_factor/{name}"] == pytest.approx(weight) != pytest.approx(1)


@pytest.mark.parametrize(
    "length",
    [
        pytest.param({"max_steps": None, "epochs": 1}, marks=pytest.mark.ci),
        pytest.param({"max_steps": 3}, marks=pytest.mark.nightly),
    ],
)
def test_the_last_batches_make_a_step_although_they_are_few(config, length, caplog):
    """The window of `accumulate` is longer than the training: one step, of all of its batches."""
    every = config("few", {"optimizer": "sgd", "accumulate": 1000}, **length)
    result = ek.run(every)
    steps, found = result.global_step, variables(every.model_dir)
    assert steps == result.steps_planned and found["accumulated/batches"] == 0
    exact = config("exact", {"optimizer": "sgd", "accumulate": steps}, **length)
    ek.run(exact)
    expected = variables(exact.model_dir)
    first = variables(f"{every.model_dir}/model.ckpt-0")
    assert np.abs(first[TABLE] - found[TABLE]).max() > 0
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    assert not [message for message in caplog.messages if "accumulate" in message]


@pytest.mark.ci
def test_batches_without_a_step_are_told(config, caplog, monkeypatch):
    """Early stopping ends a training at a step that the plan does not know."""

    def stop_early(hook, context, values):
        hook._request.ask("early_stopped")
        context.request_stop()

    monkeypatch.setattr(StopHook, "after_run", stop_early)
    with caplog.at_level("WARNING", logger="estimator_kit"):
        result = ek.run(
            config(
                params={"accumulate": 4},
                mode="train_and_evaluate",
                early_stopping_metric="loss",
                early_stopping_patience=9,
            )
        )
    assert (result.global_step, result.rows_trained) == (1, 0)
    message = (
        "accumulate=4: training ended before its next step. The gradients of the last 1 batches "
        "are in the checkpoint, but they have not changed the model."
    )
    assert message in caplog.messages


@pytest.mark.ci
def test_evaluation_and_export_use_the_averages_and_training_the_weights(config):
    params = {"moving_average": 0.99, "optimizer": "sgd"}
    run = config(params=params, mode="train_and_evaluate", exporters=("final",))
    result = ek.run(run)
    kept = variables(run.model_dir)
    exported = variables(f"{result.export_path}/variables/variables")
    assert set(exported) == {name for name in kept if AVERAGE not in name}
    assert exported["global_step"] == 10
    for name in set(exported) - {"global_step"}:
        np.testing.assert_array_equal(exported[name], kept[name + AVERAGE], err_msg=name)
    averaged = ek.run(config(params=params, mode="evaluate")).metrics["loss"]
    assert averaged == pytest.approx(result.metrics["loss"], rel=1e-6)
    # Without the parameter, the same checkpoint would answer from other weights.
    with pytest.raises(ek.CheckpointError, match=r"\n  moving_average: was 0\.99, is null\n"):
        ek.run(config(params={"optimizer": "sgd"}, mode="evaluate"))
    # Another run that starts from the averages has the same metrics as they had.
    again = config("again", {"optimizer": "sgd", "learning_rate": 1e-12}, max_steps=1,
                   mode="train_and_evaluate", warm_start_from=result.export_path)  # fmt: skip
    assert ek.run(again).metrics["loss"] == pytest.approx(averaged, rel=1e-5)


@pytest.mark.nightly
def test_averages_begin_where_a_warm_start_does(config):
    old = config("old", {"learning_rate": 1.0})
    ek.run(old)
    params = {"moving_average": 0.999, "learning_rate": 1e-12}
    new = config("new", params, warm_start_from=old.model_dir, max_steps=1)
    ek.run(new)
    before, after = variables(old.model_dir), variables(new.model_dir)
    np.testing.assert_allclose(after[TABLE + AVERAGE], before[TABLE], atol=1e-6)
    both = new.model_copy(update={
        "warm_start_from": new.model_dir, "warm_start_mode": "all_but_step",
        "model_dir": new.model_dir + "er",
    })  # fmt: skip
    ek.run(both)
    np.testing.assert_allclose(variables(both.model_dir)[TABLE + AVERAGE], before[TABLE], atol=1e-6)


@pytest.mark.nightly
def test_averages_that_were_not_kept_are_missed(config):
    ek.run(config())
    with pytest.raises(ek.CheckpointError, match=r"\n  moving_average: was null, is 0\.9\n"):
        ek.run(config(params={"moving_average": 0.9}, mode="evaluate"))


@pytest.mark.ci
@pytest.mark.parametrize(
    "optimizer", ["lazy_adam", pytest.param("adagrad", marks=pytest.mark.nightly)]
)
def test_a_new_rate_takes_effect_when_training_goes_on(config, optimizer):
    run = config(params={"optimizer": optimizer})
    ek.run(run)
    before = variables(run.model_dir)
    ek.run(config(params={"optimizer": optimizer, "learning_rate": 1e-12}, max_steps=20))
    after = variables(run.model_dir)
    assert after["global_step"] == 20
    np.testing.assert_allclose(after[TABLE], before[TABLE], atol=1e-8)


@pytest.mark.nightly
def test_what_is_frozen_stays(config):
    params = {"freeze": ["dnn/input", "dnn/hiddenlayer_0/kernel"]}
    run = config(params=params, save_checkpoints_steps=5)
    ek.run(run)
    first, last = variables(f"{run.model_dir}/model.ckpt-0"), variables(run.model_dir)
    np.testing.assert_array_equal(first[TABLE], last[TABLE])
    assert f"{TABLE}/Adagrad" not in last
    assert np.abs(first["dnn/logits/kernel"] - last["dnn/logits/kernel"]).max() > 0


class OwnOptimizers(ek.ModelFn):
    """Makes its optimizers without the schedule."""

    def logits(self, features, mode):
        inputs = self.dense_input(features, "deep")
        return ek.dense_layer(inputs, self.logits_dimension, "logits")

    def optimizers(self):
        return [("", ek.make_optimizer("sgd", 0.1))]


def test_a_schedule_that_an_optimizer_would_not_follow(config):
    run = config(model="tests.integration.test_optimizers_in_runs:OwnOptimizers", max_steps=1,
                 model_params={"warm_up_steps": 5})  # fmt: skip
    with pytest.raises(ek.ConfigError) as error:
        ek.run(run)
    assert without_place(error.value) == (
        "OwnOptimizers.optimizers makes the optimizer for '' without self.make_optimizer, so it "
        "would ignore the parameters schedule and warm_up_steps. Use self.make_optimizer, or "
        "remove the parameters."
    )
    chosen = {"warm_up_steps": 5, "optimizers": {"": "sgd"}}
    assert ek.run(run.model_copy(update={"model_params": chosen})).global_step == 1


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"optimizers": {"": "sgdd"}}, "unknown optimizer 'sgdd'. Did you mean 'sgd'?"),
        ({"schedule": "cosin"}, "unknown schedule 'cosin'. Did you mean 'cosine'?"),
        ({"freeze": ["("]}, "model DNNModel: freeze.0: got '(', '(' is not a "
                            "regular expression: missing ), unterminated subpattern at position 0"),
        ({"freeze": ["wide"]}, "freeze: 'wide' fits no variable. Use one of: "),
        ({"optimizers": {"wide/": "sgd", "": "sgd"}}, "the optimizer for 'wide/' has no variable"),
        ({"accumulate": 0}, "model DNNModel: accumulate: got 0, expected greater than or"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_written(config, tmp_path, params, message):
    with pytest.raises(ek.ConfigError) as error:
        ek.run(config(params=params))
    assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []
