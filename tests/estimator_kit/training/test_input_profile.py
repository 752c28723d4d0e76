"""The input profile: a trace made by hand, a slow input, and a slow model."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

import estimator_kit as ek
from estimator_kit.training.hooks import input_profile
from estimator_kit.training.hooks.input_profile import PARSING, READING, SHUFFLING, InputProfile

MILLISECOND = 10**9  # Picoseconds.


def trace(**threads: list[tuple[str, int, int]]):
    """An XSpace of threads and their events: name, start and duration in milliseconds."""
    space = xplane_pb2.XSpace()
    plane = space.planes.add(name="/host:CPU")
    numbers: dict[str, int] = {}
    for thread, events in threads.items():
        line = plane.lines.add(name=thread)
        for name, start, duration in events:
            number = numbers.setdefault(name, len(numbers) + 1)
            plane.event_metadata[number].name = name
            line.events.add(
                metadata_id=number, offset_ps=start * MILLISECOND,
                duration_ps=duration * MILLISECOND,
            )  # fmt: skip
    return space


def test_own_time_counts_and_not_what_is_inside_or_waits():
    top = "Iterator::Root::Prefetch::ParallelMapV2::RebatchV2"
    space = trace(
        python=[("SessionRun", 0, 100)],
        tf_Compute=[("dnn/MatMul:MatMul", 80, 20)],  # The model.
        tf_data_get_next=[("IteratorGetNextOp::DoCompute", 0, 60), ("Iterator::Root", 1, 58)],
        tf_data_cutting=[
            ("Iterator::Root::Prefetch::ParallelMapV2", 0, 50),  # Waits for 20.
            (top, 0, 30),  # Works for 10,
            (f"{top}::Shuffle", 5, 20),  # for 4,
            (f"{top}::Shuffle::ParallelInterleaveV4[0]::BatchV2", 6, 16),  # for 6
            (f"{top}::Shuffle::ParallelInterleaveV4[0]::BatchV2::TFRecord", 7, 10),  # and for 10.
        ],
        tf_data_private_threadpool=[
            ("ParseExample/V2:ParseExampleV2", 0, 40), ("Shuffle:RandomShuffle", 50, 3),
        ],
    )  # fmt: skip
    result = input_profile.analyze(space, steps=2, seconds=0.1)
    assert result["share_waiting"] == pytest.approx(0.6)
    assert result["seconds_a_step"] == pytest.approx(0.05)
    assert result["busy_seconds"] == pytest.approx(
        {READING: 0.016, SHUFFLING: 0.017, PARSING: 0.040}
    )
    assert result["busiest"] == PARSING
    assert input_profile.text(result) == (
        "input of 2 steps: a step takes 50.00 ms and waits for a batch 60% of that time\n"
        "  parsing and transforming    55% of the input's work\n"
        "  shuffling and batching      23% of the input's work\n"
        "  reading files               22% of the input's work\n"
        "  use more cores, raise --batch_size, list features that the model does not need under "
        "`ignored` in the spec, cache transformed rows for later epochs and runs "
        "(--input_cache_dir), or parse on several machines (--data_service)"
    )


def test_a_model_that_is_slower_than_its_input_is_told_as_such():
    space = trace(tf_data_get_next=[("IteratorGetNextOp::DoCompute", 0, 10)])
    result = input_profile.analyze(space, steps=1, seconds=0.1)
    assert (result["share_waiting"], result["busiest"]) == (pytest.approx(0.1), None)
    assert result["advice"].startswith("the model takes longer than its input")


def profiled(work_of_input: int, work_of_model: int) -> dict:
    def work(times: int, start: tf.Tensor) -> tf.Tensor:
        value = tf.random.stateless_uniform([300, 300], [1, 2]) + start
        for _ in range(times):
            value = tf.linalg.matmul(value, value) / 300
        return tf.reduce_sum(value)

    with tf.Graph().as_default():
        numbers = tf.data.Dataset.range(100).map(
            lambda i: work(work_of_input, tf.cast(i, tf.float32))
        )
        loss = work(work_of_model, tf.compat.v1.data.make_one_shot_iterator(numbers).get_next())
        hook = InputProfile(warm_up=2, steps=10)
        with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(14):
                session.run(loss)
    assert hook.result is not None
    return hook.result


def test_the_slower_side_is_seen():
    slow_input, slow_model = profiled(20, 0), profiled(0, 20)
    assert slow_input["steps"] == slow_model["steps"] == 10
    assert slow_input["share_waiting"] > 0.5 > slow_model["share_waiting"]


@pytest.mark.ci
def test_a_training_keeps_its_profile(ads, tmp_path):
    config = ek.ExperimentConfig(
        mode="train", spec=f"{ads}/spec.yaml", model="linear", model_dir=str(tmp_path / "m"),
        train_files=(f"{ads}/train-*",), batch_size=20, max_steps=30, exporters=(),
        profile_input=True,
    )  # fmt: skip
    ek.run(config)
    kept = json.loads((tmp_path / "m" / "result.json").read_text())["input_profile"]
    assert kept["steps"] == 20  # The training has 30 steps, and 10 are warm-up.
    assert 0 <= kept["share_waiting"] <= 1
    assert kept["busy_seconds"][PARSING] > 0
