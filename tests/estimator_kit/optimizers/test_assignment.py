"""Values for many variables of a finalized graph: few runs of the session, bounded memory."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.optimizers import moving_average


@pytest.fixture
def made():
    """A session of a finalized graph, its variables by name, and a list of what it ran."""
    runs = []

    class Session(tf.compat.v1.Session):
        def run(self, fetches, *arguments, **named):
            runs.append(list(fetches) if isinstance(fetches, list) else fetches)
            return super().run(fetches, *arguments, **named)

    with tf.Graph().as_default() as graph:
        start = tf.constant([1.0, 2.0])
        variables = {
            name: tf.compat.v1.get_variable(name, initializer=start, use_resource=True)
            for name in ("a", "a_average")  # They share the tensor with their start value.
        }
        for name, value in (("b", 3.0), ("c", 4.0), ("d", 5.0)):
            first = np.full([2], value, np.float32)
            variables[name] = tf.compat.v1.get_variable(name, initializer=first, use_resource=True)
        first = tf.compat.v1.global_variables_initializer()
        graph.finalize()
        with Session(graph=graph) as session:
            session.run(first)
            runs.clear()
            yield session, variables, runs


def read(session, variables):
    found = tf.compat.v1.Session.run(session, variables)
    return {name: value.tolist() for name, value in found.items()}


VALUES = [("a", 10), ("b", 20), ("c", 30), ("a_average", 40)]


def pairs():
    return ((name, np.full([2], value, np.float32)) for name, value in VALUES)


def test_values_are_assigned_together(made):
    session, variables, runs = made
    moving_average.assign_all(session, variables, pairs())
    # The average has the same start tensor as `a`, so it cannot be in the same run.
    assert [len(run) for run in runs] == [3, 1]
    assert read(session, variables) == {
        "a": [10, 10], "b": [20, 20], "c": [30, 30], "a_average": [40, 40], "d": [5, 5],
    }  # fmt: skip
    runs.clear()
    moving_average.assign_all(session, variables, [])
    assert runs == []


@pytest.mark.parametrize(("limit", "sizes"), [(16, [2, 2]), (15, [1, 1, 1, 1]), (1, [1] * 4)])
def test_large_values_are_assigned_apart(made, monkeypatch, limit, sizes):
    session, variables, runs = made
    monkeypatch.setattr(moving_average, "_TOGETHER", limit)  # A value has 8 bytes.
    moving_average.assign_all(session, variables, pairs())
    assert [len(run) for run in runs] == sizes
    assert read(session, variables)["c"] == [30, 30]


def test_small_variables_are_read_together(made, monkeypatch):
    session, variables, runs = made
    value = moving_average.reader(session, variables, ["a", "b"])
    assert runs == []  # Nothing is read before the first call.
    assert value("b").tolist() == [3, 3] and value("a").tolist() == [1, 2]
    assert len(runs) == 1
    assert value("c").tolist() == [4, 4]  # Not announced.
    assert len(runs) == 2
    monkeypatch.setattr(moving_average, "_TOGETHER", 8)
    runs.clear()
    value = moving_average.reader(session, variables, ["a", "b"])
    assert [value(name).tolist() for name in ("a", "b")] == [[1, 2], [3, 3]]
    assert [len(run) if isinstance(run, dict) else 1 for run in runs] == [1, 1]
