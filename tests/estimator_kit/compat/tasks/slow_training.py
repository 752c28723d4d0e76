"""Trains to a step slowly, so that it can be killed on the way.

    slow_training.py MODEL_DIR MAX_STEPS SECONDS_PER_STEP

Prints the step it starts from, "from 20", and "done 60" at the end.
"""

import sys
import time

import estimator_kit.compat  # noqa: F401  # isort: skip
import tensorflow as tf

from tests.estimator_kit.compat import models


class Slow(tf.estimator.SessionRunHook):
    """Prints the first step, and waits after each step."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def after_create_session(self, session, coord):
        step = session.run(tf.compat.v1.train.get_global_step())
        print(f"from {step}", flush=True)

    def after_run(self, run_context, run_values):
        time.sleep(self._seconds)


def main() -> None:
    model_dir, max_steps, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    estimator = models.logistic(model_dir, tf.estimator.RunConfig(save_checkpoints_steps=10))
    estimator.train(models.input_fn, max_steps=max_steps, hooks=[Slow(seconds)])
    print(f"done {estimator.get_variable_value('global_step')}", flush=True)


if __name__ == "__main__":
    main()
