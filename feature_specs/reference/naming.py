"""Names of columns as TensorFlow's canned estimators write them into checkpoints.

`{hash_bucket: user_id}` is the variable `linear/linear_model/user_id/weights`, and an embedding of
it `.../user_id_embedding/embedding_weights`: the name comes from the features instead of from the
column's name in the spec. With these names, the kit and canned estimators can read each other's
checkpoints. This module does not import TensorFlow.
"""

from __future__ import annotations

from feature_specs.spec import FeatureSpec


def canned_name(spec: FeatureSpec, name: str) -> str:
    """The `.name` of the `tf.feature_column` of the column `name`."""
    return spec.columns[name].canned_name(spec, name)
