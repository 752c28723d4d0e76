"""eval_history.jsonl: which evaluations are compared with each other."""

from __future__ import annotations

import json

from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.observing.histories import EvaluationHistory

FIRST, OTHER = ScoresMeaning("a", "a", {}), ScoresMeaning("b", "a", {})


def steps(entries):
    return [entry.global_step for entry in entries]


def test_only_scores_that_mean_the_same_are_compared(tmp_path):
    history = EvaluationHistory(str(tmp_path))
    history.add(10, {"loss": 0.5}, FIRST)
    assert steps(history.add(20, {"loss": 0.4}, FIRST)) == [10, 20]
    assert history.alike(OTHER) == []
    # The same step, evaluated otherwise: both lines stay.
    assert steps(history.add(20, {"loss": 0.9}, OTHER)) == [20]
    assert steps(history.add(30, {"loss": 0.8}, OTHER)) == [20, 30] == steps(history.latest())
    assert [(e.global_step, e.scores) for e in history.read()] == [
        (10, "a"), (20, "a"), (20, "b"), (30, "b"),
    ]  # fmt: skip
    # A training that went back repeats its steps.
    assert steps(history.add(20, {"loss": 0.7}, OTHER)) == [20]
    assert steps(history.read()) == [10, 20, 20]
    history.forget_after(19)
    assert steps(history.read()) == [10]


def test_lines_of_an_earlier_version_belong_to_the_first_meaning_after_them(tmp_path):
    lines = [{"global_step": step, "metrics": {"loss": 0.5}} for step in (10, 20)]
    (tmp_path / "eval_history.jsonl").write_text("".join(json.dumps(e) + "\n" for e in lines))
    history = EvaluationHistory(str(tmp_path))
    assert steps(history.alike(FIRST)) == [10, 20]
    assert steps(history.add(30, {"loss": 0.4}, FIRST)) == [10, 20, 30]
    assert steps(history.add(40, {"loss": 0.9}, OTHER)) == [40]
    assert [entry.scores for entry in history.read()] == ["a", "a", "a", "b"]
