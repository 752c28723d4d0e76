"""Idioms of TensorFlow's Estimator code, each in plain `tf.estimator` and in a `ModelFn`.

`surface` lists what TensorFlow offers, `cells` makes a small model of each entry, `run` runs a cell
in both and compares, `expected` says which cells are refused, fail today, or cannot run anywhere.
"""
