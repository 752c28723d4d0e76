"""What follows the last checkpoint: the missing evaluation, if any, and the exports."""

from __future__ import annotations

from typing import Any

from estimator_kit.checkpoints import reading
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.training.after_evaluation import AfterEvaluation


def final_exports(
    config: ModelDirConfig, trained: Any, after_evaluation: AfterEvaluation
) -> dict[str, str]:
    """Writes the final export if the config lists it, and returns the paths of all exports."""
    exports = after_evaluation.exports
    if "final" in config.exporters:
        exports["final"] = after_evaluation.export_final(trained)
    return exports


def is_evaluated(after_evaluation: AfterEvaluation, model_dir: str) -> bool:
    """Whether the last evaluation was of the latest checkpoint."""
    step = after_evaluation.metrics.get("global_step")
    return step is not None and int(step) == reading.latest_step(model_dir)


def evaluate_now(trained: Any, eval_input: Any, after_evaluation: AfterEvaluation) -> None:
    """Evaluates the last checkpoint, after a kill that came between it and its evaluation."""
    checkpoint = reading.latest(trained.model_dir)
    assert checkpoint is not None
    metrics = trained.evaluate(eval_input, hooks=after_evaluation.hooks())
    after_evaluation.export(trained, "", checkpoint, metrics, is_the_final_export=True)
