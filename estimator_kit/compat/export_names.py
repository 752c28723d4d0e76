"""Gives TensorFlow's export decorator the API name "estimator" back.

tensorflow-estimator marks each public symbol with `tf_export.api_export(api_name="estimator")`,
which looks up two attribute names in tables that lost their "estimator" entry in TensorFlow 2.16.
The marks only serve TensorFlow's own API generator and documentation.

This module adds the entry and the constant that names it; an entry that is already there stays.
"""

from __future__ import annotations

import contextlib

_NAME = "estimator"


def install(undo: contextlib.ExitStack) -> None:
    """Adds the entries; `undo` takes away what was added."""
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
