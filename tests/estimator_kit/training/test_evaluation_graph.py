"""evaluation_graph: the evaluations of a training share one graph, and give the same numbers."""

from __future__ import annotations

import estimator_kit as ek
from estimator_kit.observing.histories import EvaluationHistory
from estimator_kit.training import evaluation_graph


def test_evaluations_of_one_graph_have_the_numbers_of_new_graphs(ads, tmp_path, monkeypatch):
    built, numbers = [], {}
    build = evaluation_graph._build

    def counted(*arguments):
        built.append(arguments)
        kept, is_plain = build(*arguments)
        return kept, is_plain and len(numbers) == 0

    monkeypatch.setattr(evaluation_graph, "_build", counted)
    for name in ("shared", "new"):
        built.clear()
        ek.run(
            ek.ExperimentConfig(
                mode="train_and_evaluate", spec=f"{ads}/spec.yaml", train_files=(f"{ads}/train-*",),
                eval_files=(f"{ads}/eval.tfrecord",), model_dir=str(tmp_path / name), batch_size=50,
                max_steps=30, save_checkpoints_steps=10, exporters=(), report="off",
                deterministic=True,
            )
        )  # fmt: skip
        assert len(built) == 1
        numbers[name] = [e.metrics for e in EvaluationHistory(str(tmp_path / name)).read()]
    assert len(numbers["shared"]) == 3
    assert numbers["shared"] == numbers["new"]
