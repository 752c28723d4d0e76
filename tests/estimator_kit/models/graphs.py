"""Runs a graph function on arrays, with random variables, for tests that compare with NumPy."""

from __future__ import annotations

import numpy as np
import tensorflow as tf


def evaluate(build, *arrays, seed=0):
    """(value of build(*tensors), {variable: value}) after all variables were drawn at random."""
    rng = np.random.default_rng(seed)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        placeholders = [
            tf.compat.v1.placeholder(a.dtype, [None, *a.shape[1:]]) for a in map(np.asarray, arrays)
        ]
        value = build(*placeholders)
        variables = {v.op.name: v for v in tf.compat.v1.global_variables()}
        session.run(tf.compat.v1.global_variables_initializer())
        for _, variable in sorted(variables.items()):
            drawn = rng.normal(0.2, 0.5, variable.shape.as_list()).astype(np.float32)
            variable.load(np.abs(drawn) if "variance" in variable.op.name else drawn, session)
        feed = dict(zip(placeholders, arrays))
        return session.run(value, feed), session.run(variables)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def mlp(x, variables, scope, layers, activation=lambda x: np.maximum(x, 0)):
    """Hidden layers of a scope, and its linear `logits` where it has one."""
    for i in range(layers):
        name = f"{scope}hiddenlayer_{i}"
        x = activation(x @ variables[f"{name}/kernel"] + variables[f"{name}/bias"])
    if f"{scope}logits/kernel" in variables:
        x = x @ variables[f"{scope}logits/kernel"] + variables[f"{scope}logits/bias"]
    return x
