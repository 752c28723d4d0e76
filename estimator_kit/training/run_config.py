"""The `tf.estimator.Estimator` of an experiment, its RunConfig, and what its processor is good at.

An Estimator adds one more metric, `loss`, the mean of the losses of the batches. If batches differ
in rows or in weights, this is another number than the loss over rows, which `model_fn` returns as
`total_loss`. An Estimator refuses a metric with the name `loss`, and a subclass must not override
its methods. So this module replaces the value where the Estimator hands its metrics to the session,
in a method of tensorflow-estimator 2.15.0, the only version that the kit works with.
"""

from __future__ import annotations

import logging
from typing import Any, Optional

import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from estimator_kit.config import cluster
from estimator_kit.config.areas.cluster import Cluster
from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.training import Training
from estimator_kit.config.areas.watching import Watching
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.modes import Train, Trained
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.model.names import TOTAL_LOSS
from estimator_kit.tf_estimator import estimator
from estimator_kit.training import evaluation_graph
from estimator_kit.training.hooks.other_sets import OtherSets


def over_rows(trained: Any) -> Any:
    """The same Estimator. Its evaluations report the loss over rows as `loss`.

    A hook `OtherSets` learns what they compute.
    """
    evaluate = trained._evaluate_run

    def evaluate_run(*, eval_dict: dict[str, Any], **arguments: Any) -> Any:
        if TOTAL_LOSS in eval_dict:
            eval_dict = dict(eval_dict)
            eval_dict["loss"] = eval_dict.pop(TOTAL_LOSS)
        hooks = arguments["all_hooks"]
        more = [hook for hook in hooks if isinstance(hook, OtherSets)]
        for hook in more:
            hook.measure(arguments["update_op"], eval_dict, hooks)
        # Last, because hooks of the model fill local variables when the session starts.
        arguments["all_hooks"] = [*(hook for hook in hooks if hook not in more), *more]
        return evaluate(eval_dict=eval_dict, **arguments)

    trained._evaluate_run = evaluate_run
    return trained


_DEFAULT_CHECKPOINT_SECS = 600


def session_config(program: Program, devices: Optional[Cluster] = None) -> Any:
    """The session settings for threads, memory and devices from the flags."""
    session = tf.compat.v1.ConfigProto(
        allow_soft_placement=True,
        intra_op_parallelism_threads=program.threads,
        inter_op_parallelism_threads=program.threads,
    )
    # TensorFlow would optimize a graph twice. The second time finds next to nothing, and takes a
    # tenth of a short run with 400 columns.
    session.graph_options.rewrite_options.meta_optimizer_iterations = RewriterConfig.ONE
    session.gpu_options.allow_growth = True  # TF_FORCE_GPU_ALLOW_GROWTH overrides it.
    if devices is not None and devices.mirrored_devices:
        session.device_count["CPU"] = devices.mirrored_devices
    return session


def make_run_config(command: Trained, view: Optional[ClusterView] = None, **more: Any) -> Any:
    """The RunConfig with checkpoints, seed and threads from the flags, without the step log.

    Args:
      command: the training.
      view: the cluster task of this process. With None the process trains, evaluates or exports
        alone, and TF_CONFIG is ignored.
      more: more arguments of the RunConfig. They replace the arguments from the flags.
    """
    trains = command if isinstance(command, Train) else None
    arguments = {
        "model_dir": command.run.model_dir,
        "tf_random_seed": command.choice.seed,
        "session_config": session_config(command.program, trains.cluster if trains else None),
        # `hooks.progress` shows the progress; TensorFlow's step log would repeat it.
        "log_step_count_steps": None,
        **(_saving(trains.training, trains.watching) if trains else {}),
        **more,
    }
    with cluster.set_tf_config(view):
        return estimator.RunConfig(**arguments)


def _saving(training: Training, watching: Watching) -> dict[str, Any]:
    """When to save checkpoints and summaries, and how many checkpoints to keep."""
    seconds = training.save_checkpoints_secs
    if training.save_checkpoints_steps is None and seconds is None:
        seconds = _DEFAULT_CHECKPOINT_SECS
    return {
        "save_checkpoints_steps": training.save_checkpoints_steps,
        "save_checkpoints_secs": seconds,
        "keep_checkpoint_max": training.keep_checkpoint_max,
        "save_summary_steps": watching.summary_steps,
    }


def make_estimator(
    command: Trained, model: ModelFn, view: Optional[ClusterView] = None, **more: Any
) -> Any:
    """The Estimator of a model in its model directory; see `make_run_config` for the arguments."""
    trained = estimator.Estimator(
        model,
        config=make_run_config(command, view, **more),
        params={},  # The model has its own parameters, and None would cause a warning.
    )
    if isinstance(command, Train):
        trained = evaluation_graph.keep(trained)
    return over_rows(trained)


# Instructions of a CPU that multiply in 16 bits, by type, as Linux names them.
_log = logging.getLogger("estimator_kit")

_INSTRUCTIONS = {
    "bfloat16": ("amx_bf16", "avx512_bf16"),
    "float16": ("amx_fp16", "avx512_fp16"),
}


def precision_warning(precision: str, *, gpus: int, flags: frozenset[str]) -> Optional[str]:
    """Why a machine does not compute fast in 16 bits. None if it does.

    Args:
      precision: `bfloat16` or `float16`.
      gpus: how many GPUs the machine has.
      flags: the instructions that its CPU has.
    """
    needed = _INSTRUCTIONS[precision]
    if gpus or flags.intersection(needed):
        return None
    return (
        f"--mixed_precision={precision}: this machine has no GPU, and its CPU has no instructions "
        f"for {precision} ({', '.join(needed)}). Training will probably be slower than without the "
        "flag."
    )


def warn_of_slow_precision(precision: str) -> None:
    """Logs a warning if this machine does not compute fast in 16 bits. The precision works."""
    gpus = len(tf.config.list_physical_devices("GPU"))
    warning = precision_warning(precision, gpus=gpus, flags=cpu_flags())
    if warning is not None:
        _log.warning(warning)


def cpu_flags(path: str = "/proc/cpuinfo") -> frozenset[str]:
    """The instructions of the CPU; empty where the system does not list them."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                name, colon, flags = line.partition(":")
                if colon and name.strip() in ("flags", "Features"):
                    return frozenset(flags.split())
    except OSError:
        pass
    return frozenset()
