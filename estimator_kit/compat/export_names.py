"""Restores the API name "estimator" of TensorFlow's export decorator.

tensorflow-estimator marks each public symbol with `tf_export.api_export(api_name="estimator")`. The
decorator looks up two attribute names in tables, and TensorFlow 2.16 has removed the "estimator"
entry from these tables. Only TensorFlow's own API generator and documentation use the marks.

This module adds the entry and the constant that names it. It keeps an existing entry.
"""

from __future__ import annotations

import contextlib

_NAME = "estimator"


def install(undo: contextlib.ExitStack) -> None:
    """Adds the entries; `undo` removes them again."""
    from tensorflow.python.util import tf_export

    for table, suffix in ((tf_export.API_ATTRS, ""), (tf_export.API_ATTRS_V1, "_v1")):
        if _NAME not in table:
            table[_NAME] = tf_export._Attributes(
                f"_estimator_api_names{suffix}", f"_estimator_api_constants{suffix}"
            )
            undo.callback(table.pop, _NAME)
    if not hasattr(tf_export, "ESTIMATOR_API_NAME"):
        tf_export.ESTIMATOR_API_NAME = _NAME
        undo.callback(delattr, tf_export, "ESTIMATOR_API_NAME")
