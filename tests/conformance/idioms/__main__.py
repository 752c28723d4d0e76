"""Prints the tables of idioms as Markdown: `python -m tests.conformance.idioms`.

With `--docs`, it writes them into docs/guides/estimator_code.md.
"""

import sys

import estimator_kit.compat  # noqa: F401  # tf.estimator, on every TensorFlow
from tests.conformance.idioms import cells, page

if sys.argv[1:] == ["--docs"]:
    page.write()
else:
    print(page.tables(cells.all_cells()))
