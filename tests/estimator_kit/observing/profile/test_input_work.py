"""The work of the input, from traces made by hand."""

from __future__ import annotations

import pytest

from estimator_kit.training.hooks.profile import (
    PARSING,
    READING,
    SHUFFLING,
    input_profile,
    input_text,
)
from tests.estimator_kit.observing.profile.traces import trace


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
    result = input_profile(space, steps=2, seconds=0.1)
    assert result.share_waiting == pytest.approx(0.6)
    assert result.seconds_a_step == pytest.approx(0.05)
    assert result.busy_seconds == pytest.approx({READING: 0.016, SHUFFLING: 0.017, PARSING: 0.040})
    assert result.busiest == PARSING
    assert input_text(result) == (
        "input of 2 steps: a step takes 50.00 ms and waits for a batch 60% of that time\n"
        "  parsing and transforming    55% of the input's work\n"
        "  shuffling and batching      23% of the input's work\n"
        "  reading files               22% of the input's work\n"
        "  use more cores, raise --batch_size, list features that the model does not need under "
        "`ignored` in the spec, or parse on several machines (--data_service)"
    )


def test_a_model_that_is_slower_than_its_input_is_told_as_such():
    space = trace(tf_data_get_next=[("IteratorGetNextOp::DoCompute", 0, 10)])
    result = input_profile(space, steps=1, seconds=0.1)
    assert (result.share_waiting, result.busiest) == (pytest.approx(0.1), None)
    assert result.advice == (
        "the model takes longer than its input: a faster input would save at most 10% of a step"
    )
