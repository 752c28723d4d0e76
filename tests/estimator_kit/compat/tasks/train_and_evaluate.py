"""Trains the logistic model, as the cluster task that TF_CONFIG names or as a local run.

    train_and_evaluate.py MODEL_DIR MAX_STEPS STRATEGY

STRATEGY is a key of `STRATEGIES`. Prints "done", the task and the global step as its last line.
"""

import json
import os
import sys

import estimator_kit.compat  # noqa: F401  # isort: skip
import tensorflow as tf

from tests.estimator_kit.compat import models

STRATEGIES = {
    "none": lambda: None,
    "multi_worker": tf.distribute.MultiWorkerMirroredStrategy,
    "multi_worker_graph": tf.distribute.MultiWorkerMirroredStrategy,
    "parameter_server_graph": tf.compat.v1.distribute.experimental.ParameterServerStrategy,
}


def main() -> None:
    model_dir, max_steps, strategy_name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)
    if strategy_name.endswith("_graph"):
        tf.compat.v1.disable_eager_execution()
    config = tf.estimator.RunConfig(
        save_checkpoints_steps=10,
        # A checkpoint may be deleted between the moments when the evaluator finds and reads it.
        keep_checkpoint_max=1000,
        log_step_count_steps=10,
        train_distribute=STRATEGIES[strategy_name](),
        experimental_max_worker_delay_secs=0,
        session_creation_timeout_secs=120,
    )
    estimator = models.logistic(model_dir, config)
    receiver = models.serving_receiver
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(models.input_fn, max_steps=max_steps),
        tf.estimator.EvalSpec(
            models.once,
            steps=None,
            exporters=[tf.estimator.FinalExporter("final", receiver)],
            start_delay_secs=0,
            throttle_secs=1,
        ),
    )
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task")
    print(f"done {task} {estimator.get_variable_value('global_step')}", flush=True)


if __name__ == "__main__":
    main()
