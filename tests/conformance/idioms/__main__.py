"""Prints the table of idioms as Markdown: `python -m tests.conformance.idioms`."""

import estimator_kit.compat  # noqa: F401  # tf.estimator, on every TensorFlow
from tests.conformance.idioms import cells, expected

print(expected.markdown(cells.all_cells()))
