"""Names of columns as TensorFlow's canned estimators write them into checkpoints.

`{hash_bucket: user_id}` is the variable `linear/linear_model/user_id/weights`, and an embedding of
it `.../user_id_embedding/embedding_weights`: the name comes from the features, not from the spec's
own name of the column. Keeping to it lets checkpoints of the kit and of canned estimators
interchange. Imports no TensorFlow.
"""

from __future__ import annotations

from feature_specs.spec import FeatureSpec


def canned_name(spec: FeatureSpec, name: str) -> str:
    """The `.name` of the `tf.feature_column` that column `name` of the spec stands for."""
    return spec.columns[name].canned_name(spec, name)
