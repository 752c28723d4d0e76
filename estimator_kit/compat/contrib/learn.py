"""tf.contrib.learn: Experiment, `learn_runner.run`, RunConfig and the exports that they use.

The Estimators of tf.contrib.learn are not here: they take other feature columns and
arguments than tf.estimator does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf

from . import _sources
from ._learn_experiment import Experiment as Experiment
from ._learn_experiment import ExportStrategy as ExportStrategy
from ._learn_exports import InputFnOps as InputFnOps
from ._learn_exports import build_parsing_serving_input_fn as build_parsing_serving_input_fn
from ._learn_exports import make_export_strategy as make_export_strategy
from ._learn_remedies import REMEDIES as REMEDIES
from ._learn_run_config import RunConfig as RunConfig

__all__ = """
    Experiment ExportStrategy InputFnOps ModeKeys NanLossDuringTrainingError RunConfig TaskType
    build_parsing_serving_input_fn make_export_strategy run
""".split()

OLD_PATHS = (
    *("learn_runner", "monitors", "utils.input_fn_utils", "utils.saved_model_export_utils"),
    *(
        f"python.learn.{name}"
        for name in """
            estimators.constants estimators.estimator estimators.model_fn estimators.run_config
            experiment export_strategy learn_runner monitors utils.export
            utils.input_fn_utils utils.saved_model_export_utils
        """.split()
    ),
)

__getattr__ = _sources.lookup(__name__, ["tensorflow_estimator.python.estimator.run_config"])

NanLossDuringTrainingError = tf.train.NanLossDuringTrainingError


class ModeKeys:
    """The modes of a model function; INFER is PREDICT of tf.estimator."""

    TRAIN = tf.estimator.ModeKeys.TRAIN
    EVAL = tf.estimator.ModeKeys.EVAL
    INFER = PREDICT = tf.estimator.ModeKeys.PREDICT


def run(
    experiment_fn: Callable[..., Experiment],
    output_dir: Optional[str] = None,
    schedule: Optional[str] = None,
    run_config: Any = None,
    hparams: Any = None,
) -> Any:
    """`learn_runner.run`: makes an Experiment and calls its method `schedule`.

    `experiment_fn` gets (run_config, hparams) if there is a `run_config`, else (output_dir).
    Without `schedule`, it is train_and_evaluate.

    Raises:
      ValueError: neither `output_dir` nor `run_config`, or a `schedule` that Experiment lacks.
    """
    if output_dir is None and run_config is None:
        raise ValueError("Must set value for `output_dir` or `run_config`")
    if run_config is None:
        experiment = experiment_fn(output_dir)
    else:
        experiment = experiment_fn(run_config, hparams)
    method = getattr(experiment, schedule or "train_and_evaluate", None)
    if method is None:
        raise ValueError(f"schedule: expected one of {', '.join(_SCHEDULES)}, got {schedule!r}")
    return method()


_SCHEDULES = """
    train evaluate train_and_evaluate continuous_train_and_eval local_run run_std_server test
""".split()


def replace_monitors_with_hooks(monitors_or_hooks: Optional[Sequence[Any]], estimator: Any) -> Any:
    """`monitors.replace_monitors_with_hooks`: unchanged. tf.estimator has no monitors."""
    return list(monitors_or_hooks or [])
