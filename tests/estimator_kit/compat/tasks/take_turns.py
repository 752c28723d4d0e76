"""Continues the training of a model, then writes its variables and its predictions to a file.

The model is custom, linear, dnn or combined. With 0 steps it is not trained.
"""

import json

import estimator_kit.compat  # noqa: F401  # isort: skip
import tensorflow as tf

from tests.estimator_kit.compat import models


def make(name: str, model_dir: str):
    wide, deep = models.columns()
    config = tf.estimator.RunConfig(tf_random_seed=1)
    if name == "custom":
        return models.logistic(model_dir, config), "probability"
    if name == "linear":
        estimator = tf.estimator.LinearClassifier(wide + deep[:1], model_dir, config=config)
    elif name == "dnn":
        estimator = tf.estimator.DNNClassifier([4], deep, model_dir, config=config)
    else:
        estimator = tf.estimator.DNNLinearCombinedClassifier(
            model_dir,
            linear_feature_columns=wide,
            dnn_feature_columns=deep,
            dnn_hidden_units=[4],
            config=config,
        )
    return estimator, "logistic"


def run(name: str, model_dir: str, steps: str, output: str) -> None:
    estimator, key = make(name, model_dir)
    if int(steps):
        estimator.train(models.input_fn, steps=int(steps))
    variables = {v: list(shape) for v, shape in tf.train.list_variables(model_dir)}
    predictions = [p[key].tolist() for p in estimator.predict(models.once)]
    metrics = {k: float(v) for k, v in estimator.evaluate(models.once).items()}
    with open(output, "w") as file:
        json.dump(
            {
                "tensorflow": tf.__version__,
                "variables": variables,
                "predictions": predictions,
                "loss": metrics["loss"],
                "step": metrics["global_step"],
            },
            file,
        )
