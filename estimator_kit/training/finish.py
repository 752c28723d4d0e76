"""What follows a checkpoint, as far as it is missing: the evaluation and the exports."""

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


def step_in_name(checkpoint: str) -> int:
    """The step of `model.ckpt-<step>`."""
    return int(checkpoint.rpartition("-")[2])


def evaluate(
    trained: Any, eval_input: Any, after_evaluation: AfterEvaluation, checkpoint: str
) -> None:
    """Evaluates and exports a checkpoint. Takes the metrics of an earlier start if there are any.

    Meanwhile `unfinished.json` must name its step, so that a start after a kill finds it.
    """
    metrics = after_evaluation.known(step_in_name(checkpoint))
    if metrics is None:
        metrics = trained.evaluate(
            eval_input, hooks=after_evaluation.hooks(), checkpoint_path=checkpoint
        )
    after_evaluation.export(trained, "", checkpoint, metrics, is_the_final_export=False)
