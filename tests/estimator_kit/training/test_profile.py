"""Profiles of trainings: a slow input, a slow model, what is kept, and Chrome traces."""

from __future__ import annotations

import json
import logging
import pathlib

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.observing import profile
from estimator_kit.result import InputProfile
from estimator_kit.training.hooks.profile import PARSING, Profile
from input_pipelines.eager import as_written


def profiled(folder, steps: range, *, work_of_input=0, work_of_model=0, ends_at=14) -> Profile:
    """A profile of a session that multiplies matrices in its input or in its steps."""

    def work(times: int, start: tf.Tensor) -> tf.Tensor:
        value = tf.random.stateless_uniform([300, 300], [1, 2]) + start
        for _ in range(times):
            value = tf.linalg.matmul(value, value) / 300
        return tf.reduce_sum(value)

    with tf.Graph().as_default():
        numbers = tf.data.Dataset.range(100).map(
            as_written(lambda i: work(work_of_input, tf.cast(i, tf.float32)))
        )
        loss = work(work_of_model, tf.compat.v1.data.make_one_shot_iterator(numbers).get_next())
        hook = Profile(str(folder), steps, of_ops=True, of_input=True)
        with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(ends_at):
                session.run(loss)
    return hook


@pytest.mark.ci
def test_the_slower_side_is_seen_and_both_traces_stay(tmp_path):
    slow_input = profiled(tmp_path / "a", range(3, 13), work_of_input=20)
    slow_model = profiled(tmp_path / "b", range(3, 13), work_of_model=20)
    assert slow_input.input.steps == slow_model.ops["steps"] == 10
    assert slow_input.input.share_waiting > 0.5 > slow_model.input.share_waiting
    assert slow_input.ops["shares"]["input"] > 0.5 > slow_model.ops["shares"]["input"]
    assert sum(slow_model.ops["shares"].values()) == pytest.approx(1)
    assert slow_model.ops["ops"][0]["type"].endswith("MatMul")  # oneDNN has its own.
    shares = [op["share"] for op in slow_model.ops["ops"]]
    assert sum(shares) + slow_model.ops["other_share"] == pytest.approx(1)
    # The kept trace gives the same numbers again.
    facts = {"steps": 10, "seconds": slow_model.ops["seconds_a_step"] * 10}
    again = profile.analyze(profile.read(slow_model.ops["trace"]), **facts)
    assert again["ops"] == slow_model.ops["ops"]
    assert pathlib.Path(slow_model.ops["trace"]).parent == tmp_path / "b" / "plugins" / "profile"


def test_a_training_that_ends_early_says_so(tmp_path, caplog):
    caplog.set_level(logging.INFO, "estimator_kit")
    short = profiled(tmp_path, range(3, 13), ends_at=5)
    assert short.ops["steps"] == 3
    assert f"the trace is in {short.ops['trace']}. TensorBoard shows it" in caplog.text
    caplog.clear()
    never = profiled(tmp_path, range(7, 13), ends_at=5)
    assert (never.ops, never.input) == ({}, InputProfile())
    assert caplog.messages == [
        "no step was profiled: training ended after 5 steps, and the profile starts at step 7. "
        "Choose earlier steps with --profile."
    ]


def config_of(ads, folder, **changes):
    return ek.ExperimentConfig(
        mode="train", spec=f"{ads}/spec.yaml", model="linear", model_dir=str(folder),
        train_files=(f"{ads}/train-*",), batch_size=20, max_steps=30, exporters=(), **changes,
    )  # fmt: skip


@pytest.mark.ci
def test_a_training_keeps_its_profile(ads, tmp_path):
    folder = tmp_path / "m"
    ek.run(config_of(ads, folder, profile="auto"))
    result = json.loads((folder / "result.json").read_text())
    kept = result["input_profile"]
    assert kept["steps"] == 20  # The training has 30 steps, and 10 are warm-up.
    assert 0 <= kept["share_waiting"] <= 1
    assert kept["busy_seconds"][PARSING] > 0
    assert list((folder / "plugins" / "profile").glob("*/*.xplane.pb"))
    assert result["profile"]["trace"] == kept["trace"]
    ek.run(config_of(ads, folder, profile="2..4").model_copy(update={"max_steps": 40}))
    result = json.loads((folder / "result.json").read_text())
    assert result["input_profile"]["steps"] == 3
    assert result["profile"]["steps"] == 3
    assert 0 < len(result["profile"]["ops"]) <= 10
    assert result["profile"]["trace"] != kept["trace"]
