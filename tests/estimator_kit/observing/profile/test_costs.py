"""The most expensive ops and the shares of a step, from traces made by hand."""

from __future__ import annotations

import pytest

from estimator_kit.observing import profile
from tests.estimator_kit.observing.profile.traces import trace, with_plane

WAIT = "IteratorGetNextOp::DoCompute"


def shown(result):
    """{name: (type, place, milliseconds)} of the listed ops."""
    return {
        op["name"]: (op["type"], op["place"], round(1000 * op["seconds"])) for op in result["ops"]
    }


def test_ops_count_their_own_time_on_all_threads_and_their_shares_add_up():
    space = trace(
        python=[("SessionRun", 0, 100), ("ExecutorState::Process", 0, 100)],
        tf_Compute=[
            ("dnn/MatMul:MatMul", 10, 20),
            ("while:While", 40, 30),  # 10 without the op inside.
            ("while/body/Add:AddV2", 45, 20),
            ("Eigen::ThreadPool", 47, 10),  # Not an op, so it stays with AddV2.
        ],
        tf_other=[("dnn/MatMul:MatMul", 60, 10)],
        tf_data_get_next=[(WAIT, 0, 10)],
        tf_data_private=[("ParseExample:ParseExampleV2", 0, 90)],  # The input's.
    )
    result = profile.analyze(space, steps=2, seconds=0.1)
    assert shown(result) == {
        "dnn/MatMul": ("MatMul", "host", 30),
        "while/body/Add": ("AddV2", "host", 20),
        "while": ("While", "host", 10),
    }
    assert [op["share"] for op in result["ops"]] == pytest.approx([3 / 6, 2 / 6, 1 / 6])
    assert (result["other_ops"], result["other_share"]) == (0, 0)
    assert result["shares"] == pytest.approx({"input": 0.1, "host": 0.9, "device": 0.0})
    assert profile.text(result) == (
        "profile of 2 steps: a step takes 50.00 ms: 10% waits for input, 90% works on the host, "
        "0% works on devices\n"
        "the most expensive ops, summed over threads:\n"
        "   50%    15.000 ms a step  MatMul  dnn/MatMul\n"
        "   33%    10.000 ms a step  AddV2  while/body/Add\n"
        "   17%     5.000 ms a step  While  while"
    )


def test_more_than_ten_ops_are_added_up():
    space = trace(tf_Compute=[(f"op{i}:Mul", 100 * i, 12 - i) for i in range(12)])
    result = profile.analyze(space, steps=1, seconds=2.0)
    # 12 + 11 + ... + 1 = 78 milliseconds; the last two are 2 and 1.
    assert [op["name"] for op in result["ops"]] == [f"op{i}" for i in range(10)]
    assert result["ops"][0]["share"] == pytest.approx(12 / 78)
    assert (result["other_ops"], result["other_share"]) == (2, pytest.approx(3 / 78))
    assert sum(op["share"] for op in result["ops"]) + result["other_share"] == pytest.approx(1)
    assert profile.text(result).splitlines()[-1].split() == ["4%", "2", "other", "ops"]


def test_a_device_has_its_share_and_kernels_the_names_of_their_ops():
    space = trace(
        tf_Compute=[("dnn/MatMul:MatMul", 20, 5)],  # Only starts the kernel.
        tf_data_get_next=[(WAIT, 0, 30)],
    )
    with_plane(
        space,
        "/device:GPU:0",
        **{
            "Stream #1": [("sgemm", 25, 30), ("memset", 60, 10)],
            "Stream #2": [("copy", 50, 15)],  # 5 + 5 of it at the same time as stream 1.
            "TensorFlow Ops": [("MatMul", 25, 30)],  # TensorFlow computes it from the streams.
        },
    )
    plane = space.planes[1]
    plane.stat_metadata[1].name = "tf_op"
    plane.stat_metadata[2].name = "dnn/MatMul:MatMul"
    plane.lines[0].events[0].stats.add(metadata_id=1, ref_value=2)
    plane.lines[1].events[0].stats.add(metadata_id=1, str_value="dnn/Copy:_Send")
    result = profile.analyze(space, steps=1, seconds=0.1)
    # The device works from 25 to 70, and the step waits alone from 0 to 25.
    assert result["shares"] == pytest.approx({"input": 0.25, "host": 0.3, "device": 0.45})
    assert [(op["type"], op["place"]) for op in result["ops"]] == [
        ("MatMul", "GPU:0"), ("_Send", "GPU:0"), ("kernel", "GPU:0"), ("MatMul", "host"),
    ]  # fmt: skip
    assert [op["share"] for op in result["ops"]] == pytest.approx([0.5, 0.25, 10 / 60, 5 / 60])
    assert "  MatMul  dnn/MatMul  on GPU:0" in profile.text(result)


def test_a_trace_without_time_has_no_shares():
    result = profile.analyze(trace(), steps=0, seconds=0.0)
    assert result["shares"] == {"input": 0.0, "host": 0.0, "device": 0.0}
    assert result["ops"] == []


def test_traces_of_one_clock_are_compared_in_that_clock():
    """A line's events count from the line's own start."""
    space = trace(tf_data_get_next=[(WAIT, 0, 20)])
    with_plane(space, "/device:GPU:0", stream=[("sgemm", 0, 40)])
    space.planes[0].lines[0].timestamp_ns = 10_000_000
    space.planes[1].lines[0].timestamp_ns = 20_000_000
    result = profile.analyze(space, steps=1, seconds=0.1)
    assert result["shares"] == pytest.approx({"input": 0.1, "host": 0.5, "device": 0.4})
